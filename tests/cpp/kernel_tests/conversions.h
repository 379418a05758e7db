// The 16-bit types' conversions, in base/half.h and in the kernels: exact, and rounded to the
// nearest, to even.
#ifndef FUSED_RNN_TESTS_CPP_KERNEL_TESTS_CONVERSIONS_H_
#define FUSED_RNN_TESTS_CPP_KERNEL_TESTS_CONVERSIONS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/half.h"
#include "base/team.h"
#include "check.h"
#include "guarded_array.h"
#include "kernels/kernel_list.h"
#include "random.h"

namespace fused_rnn {
namespace {

struct Format {
  int mantissa_bits, bias;
};
template <typename Half>
constexpr Format FormatOf() {
  return std::is_same_v<Half, Float16> ? Format{10, 15} : Format{7, 127};
}

// By the definition of the format.
template <typename Half>
double Value(uint16_t bits) {
  constexpr Format f = FormatOf<Half>();
  const int exponent = (bits & 0x7FFF) >> f.mantissa_bits,
            mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 0x7FFF >> f.mantissa_bits) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
}

// As a user's thread and as a team's, for which subnormal floats are 0: conversions are exact in
// both.
template <typename Body>
void ForBothSubnormalModes(const Body& body) {
  body();
  const FlushSubnormals flush;
  body();
}

bool SameNumber(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// All 65536 numbers; the array function, in every place of its vectors, gives
// what the scalar one gives.
template <typename Half>
void TestKernel(kernel::Widen<Half> widen) {
  GuardedArray<Half> halves(1 << 16);
  for (int i = 0; i < 1 << 16; ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> once(halves.size());
  GuardedArray<float> widened(halves.size());
  ForBothSubnormalModes([&] {
    for (int i = 0; i < 1 << 16; ++i) once[i] = Widen(halves[i]);
    widen.Of(ActiveIsa())(halves.data(), widened.data(), halves.size());
  });
  int64_t wrong = 0;
  for (int i = 0; i < 1 << 16; ++i) {
    const double expected = Value<Half>(static_cast<uint16_t>(i));
    wrong += !SameNumber(once[i], expected) || !SameNumber(widened[i], expected);
  }
  CHECK_EQ(wrong, 0);
  for (int64_t n = 1; n <= 33; ++n) {
    GuardedArray<float> some(n);
    widen.Of(ActiveIsa())(halves.end() - n - 0x8000, some.data(), n);
    for (int64_t i = 0; i < n; ++i) CHECK(SameNumber(some[i], once[0x8000 - n + i]));
    CHECK(some.Intact());
  }
}

// The number of the format nearest to x, and of two equally near ones the even one.
template <typename Half>
double Nearest(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  constexpr Format f = FormatOf<Half>();
  const int exponent = std::max(std::ilogb(x), 1 - f.bias);
  const double step = std::ldexp(1.0, exponent - f.mantissa_bits);
  const double nearest = std::nearbyint(x / step) * step;
  const double largest = std::ldexp(2 - std::ldexp(1.0, -f.mantissa_bits), f.bias);
  return std::fabs(nearest) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x)
                                      : nearest;
}

// Every number of the format, the midpoints between neighbours and their neighbours among floats,
// and random floats of all sizes.
template <typename Half>
void TestKernel(kernel::Narrow<Half> narrow) {
  std::vector<float> floats;
  for (int i = 0; i < 1 << 16; ++i) {
    const float value = static_cast<float>(Value<Half>(static_cast<uint16_t>(i)));
    const float next = static_cast<float>(Value<Half>(static_cast<uint16_t>(i + 1)));
    const float middle = value / 2 + next / 2;
    const float infinity = std::numeric_limits<float>::infinity();
    for (float x :
         {value, middle, std::nextafter(middle, infinity), std::nextafter(middle, -infinity)})
      floats.push_back(x);
  }
  Random random(1);
  for (int i = 0; i < 500000; ++i) floats.push_back(FloatOf(static_cast<uint32_t>(random.Bits())));
  for (float x : {65519.0f, 65520.0f, 65536.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1.fep127f,
                  0x1.ffp127f}) {
    floats.push_back(x);
    floats.push_back(-x);
  }
  const int64_t n = static_cast<int64_t>(floats.size());
  std::vector<Half> once(n);
  GuardedArray<Half> narrowed(n);
  ForBothSubnormalModes([&] {
    for (int64_t i = 0; i < n; ++i) Narrow(floats[i], &once[i]);
    narrow.Of(ActiveIsa())(floats.data(), narrowed.data(), n);
  });
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double expected = Nearest<Half>(floats[i]);
    const bool good = SameNumber(Value<Half>(once[i].bits), expected) &&
                      SameNumber(Value<Half>(narrowed[i].bits), expected);
    if (!good && ++wrong == 1)
      std::printf("%.9g (%a): got %.9g\n", floats[i], floats[i], Value<Half>(once[i].bits));
  }
  CHECK_EQ(wrong, 0);
  CHECK(narrowed.Intact());
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_KERNEL_TESTS_CONVERSIONS_H_
