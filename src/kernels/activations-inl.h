// sigmoid and tanh on vectors, float and double. Compiled once per instruction set (see
// kernels.cc).
//
// Both come from exp by the usual argument reduction, x = k ln 2 + r with |r| <= ln 2 / 2, and the
// Taylor series of exp(r), whose remainder at this r is below a quarter of a unit in the last place
// (float: degree 7, 0.35^8/8! = 5e-9; double: degree 13, 0.35^14/14! = 4e-18). Error bound, checked
// by tests/cpp/kernel_tests/activations.h: 3 units in the last place for both functions and both
// types; for a sigmoid down to x = -87 (float) or -708 (double), below which it stays at its value
// there, 1.6e-38 or 3.3e-308. Results are in [0, 1] and [-1, 1] for every argument, infinities
// included; NaN comes only from NaN.
#ifndef FUSED_RNN_KERNELS_ACTIVATIONS_INL_H_
#define FUSED_RNN_KERNELS_ACTIVATIONS_INL_H_

#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// 1/n!, n = 0 .. 13.
constexpr double kInverseFactorial[] = {1.0,
                                        1.0,
                                        1.0 / 2,
                                        1.0 / 6,
                                        1.0 / 24,
                                        1.0 / 120,
                                        1.0 / 720,
                                        1.0 / 5040,
                                        1.0 / 40320,
                                        1.0 / 362880,
                                        1.0 / 3628800,
                                        1.0 / 39916800,
                                        1.0 / 479001600,
                                        1.0 / 6227020800};

template <typename Real>
struct ExpConstants;

// ln 2 is split so that k * kLn2High is exact for every k in use.
template <>
struct ExpConstants<float> {
  static constexpr int kDegree = 7;
  static constexpr float kRound =
      0x1.8p23f;  // adding it leaves the nearest integer in the low mantissa bits
  static constexpr float kLn2High = 0x1.62e4p-1f;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kSigmoidRange = 87.0f;  // exp and its inverse stay normal numbers
  static constexpr float kTanhRange = 10.0f;     // tanh rounds to 1 beyond
};

template <>
struct ExpConstants<double> {
  static constexpr int kDegree = 13;
  static constexpr double kRound = 0x1.8p52;
  static constexpr double kLn2High = 0x1.62e42fefa3800p-1;
  static constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  static constexpr double kSigmoidRange = 708.0;
  static constexpr double kTanhRange = 20.0;
};

// x = k ln 2 + r; returns exp(r) - 1 and sets `exponent` to k in the place of a number's exponent
// field.
template <typename Real>
inline Vec<Real> ReducedExpm1(Vec<Real> x, BitsVec<Real>* exponent) {
  using C = ExpConstants<Real>;
  const Vec<Real> shifted = x * Real(1.4426950408889634) + C::kRound;
  const Vec<Real> k = shifted - C::kRound;
  *exponent = reinterpret_cast<BitsVec<Real>>(shifted) << RealTraits<Real>::kMantissaBits;
  Vec<Real> r = x - k * C::kLn2High;
  r = r - k * C::kLn2Low;
  Vec<Real> sum = Broadcast<Real>(static_cast<Real>(kInverseFactorial[C::kDegree]));
#pragma GCC unroll 16
  for (int n = C::kDegree - 1; n >= 2; --n) {
    sum = sum * r + static_cast<Real>(kInverseFactorial[n]);
  }
  return (r * r) * sum + r;
}

template <typename Real>
inline Vec<Real> AddExponent(Vec<Real> x, BitsVec<Real> exponent) {
  return reinterpret_cast<Vec<Real>>(reinterpret_cast<BitsVec<Real>>(x) + exponent);
}

// A NaN stays: every comparison with it is false.
template <typename Real>
inline Vec<Real> AtMost(Vec<Real> x, Real bound) {
  return x > bound ? Broadcast(bound) : x;
}
template <typename Real>
inline Vec<Real> AtLeast(Vec<Real> x, Real bound) {
  return x < bound ? Broadcast(bound) : x;
}

// The exponent arithmetic above may turn one NaN into a number, so NaN is put back at the end.
template <typename Real>
inline Vec<Real> KeepNan(Vec<Real> x, Vec<Real> result) {
  return x == x ? result : x;
}

// 1 / (1 + exp(-x))
template <typename Real>
inline Vec<Real> Sigmoid(Vec<Real> x) {
  constexpr Real range = ExpConstants<Real>::kSigmoidRange;
  BitsVec<Real> exponent;
  const Vec<Real> p = ReducedExpm1<Real>(AtLeast<Real>(AtMost<Real>(-x, range), -range), &exponent);
  return KeepNan<Real>(x, Real(1) / (Real(1) + AddExponent<Real>(p + Real(1), exponent)));
}

// With e = exp(2|x|) - 1 = 2^k (exp(r) - 1) + (2^k - 1), tanh|x| = e / (e + 2): no cancellation
// near 0, where k = 0.
template <typename Real>
inline Vec<Real> Tanh(Vec<Real> x) {
  const BitsVec<Real> bits = reinterpret_cast<BitsVec<Real>>(x);
  const BitsVec<Real> sign = bits & RealTraits<Real>::kSignBit;
  const Vec<Real> magnitude = reinterpret_cast<Vec<Real>>(bits ^ sign);
  BitsVec<Real> exponent;
  const Vec<Real> twice = AtMost<Real>(magnitude, ExpConstants<Real>::kTanhRange) * Real(2);
  const Vec<Real> p = ReducedExpm1<Real>(twice, &exponent);
  const Vec<Real> scale = AddExponent<Real>(Broadcast<Real>(1), exponent);
  const Vec<Real> e = scale * p + (scale - Real(1));
  const Vec<Real> result = e / (e + Real(2));
  return KeepNan<Real>(x,
                       reinterpret_cast<Vec<Real>>(reinterpret_cast<BitsVec<Real>>(result) | sign));
}

template <typename Real, Vec<Real> (*function)(Vec<Real>)>
void MapArray(const Real* x, Real* y, int64_t n) {
  ForEachBlock<Real>(n, [&](auto lanes, int64_t first, int64_t) {
    lanes.Store(y + first, function(lanes.Load(x + first)));
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_ACTIVATIONS_INL_H_
