// The element types of tensors, as numbers.
#ifndef FUSED_RNN_TESTS_CPP_ELEMENT_H_
#define FUSED_RNN_TESTS_CPP_ELEMENT_H_

#include <limits>
#include <type_traits>

#include "base/half.h"
#include "fused_rnn/rnn.h"
#include "kernels/kernel_table.h"

namespace fused_rnn {

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
T FromDouble(double value) {
  if constexpr (kIsHalf<T>) {
    T half;
    Narrow(static_cast<float>(value), &half);
    return half;
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
double ToDouble(T value) {
  if constexpr (kIsHalf<T>) {
    return double{Widen(value)};
  } else {
    return double{value};
  }
}

template <typename T>
constexpr DType DTypeOf() {
  if (std::is_same_v<T, Float16>) return DType::kFloat16;
  if (std::is_same_v<T, BFloat16>) return DType::kBFloat16;
  return std::is_same_v<T, double> ? DType::kFloat64 : DType::kFloat32;
}

inline const char* DTypeName(DType dtype) {
  constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16"};
  return kNames[static_cast<int>(dtype)];
}

// Distance of 1 from the next larger number, of the type stored.
template <typename T>
constexpr double Epsilon() {
  if (std::is_same_v<T, Float16>) return 0x1p-10;
  if (std::is_same_v<T, BFloat16>) return 0x1p-7;
  return std::is_same_v<T, double> ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon();
}

// V of the kernels in use, for tensors of type T.
template <typename T>
int64_t Lanes() {
  return Kernels<std::conditional_t<std::is_same_v<T, double>, double, float>>(ActiveIsa()).lanes;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_ELEMENT_H_
