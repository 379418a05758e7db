// The list of weight formats: how weights are stored and packed, and in which type they are
// computed with, whatever the instruction set.
//
// A format F has
//   F::Real     the type computed in
//   F::Weight   an element of the caller's weights
//   F::Packed   an element of a panel
//   F::kPanel   where the elements of a panel are
//   F::kName    for tests and benchmarks
// and, for each instruction set, the kernels that kernels.cc makes for it (PanelKernels).
#ifndef FUSED_RNN_KERNELS_WEIGHT_FORMATS_H_
#define FUSED_RNN_KERNELS_WEIGHT_FORMATS_H_

#include <cstdint>

#include "base/half.h"

namespace fused_rnn {

template <typename T>
constexpr const char* kTypeName = nullptr;
template <>
constexpr const char* kTypeName<float> = "float32";
template <>
constexpr const char* kTypeName<double> = "float64";
template <>
constexpr const char* kTypeName<Float16> = "float16";
template <>
constexpr const char* kTypeName<BFloat16> = "bfloat16";

// A panel holds V columns of a matrix for all its K rows, in groups of rows whose elements lie side
// by side: those of the first column, then those of the next. Rows beyond the last are there and 0.
// Its functions are always inlined, as the kernels use them: a copy compiled for an instruction set
// could be linked in for all.
struct PanelFormula {
  int64_t group = 1;

  // Of a panel, in elements.
  [[gnu::always_inline]] constexpr int64_t Size(int64_t K, int64_t V) const {
    return (K + group - 1) / group * group * V;
  }
  // Of element (k, j) in a panel.
  [[gnu::always_inline]] constexpr int64_t Index(int64_t k, int64_t j, int64_t V) const {
    return (k / group * V + j) * group + k % group;
  }
};

// Weights in panels as the caller stores them.
template <typename RealType, typename Stored>
struct PlainWeights {
  using Real = RealType;
  using Weight = Stored;
  using Packed = Stored;
  static constexpr PanelFormula kPanel{};
  static constexpr const char* kName = kTypeName<Stored>;
};

using Float32Weights = PlainWeights<float, float>;
using Float64Weights = PlainWeights<double, double>;
using Float16Weights = PlainWeights<float, Float16>;
using BFloat16Weights = PlainWeights<float, BFloat16>;

// FORMAT(format, dtype) for each: the format, and the DType of the problems whose weights have it.
#define FUSED_RNN_WEIGHT_FORMATS(FORMAT) \
  FORMAT(Float32Weights, kFloat32)       \
  FORMAT(Float64Weights, kFloat64)       \
  FORMAT(Float16Weights, kFloat16)       \
  FORMAT(BFloat16Weights, kBFloat16)

}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_WEIGHT_FORMATS_H_
