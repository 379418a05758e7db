// What the processor can do at most: the roofs that benchmarks divide by. Compiled once per
// instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_PROBES_INL_H_
#define FUSED_RNN_KERNELS_PROBES_INL_H_

#include <cstdint>

#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// Enough independent accumulators to fill two multiply-add pipes at a latency of 4 or 5 cycles.
template <typename Real>
double FmaRounds(int64_t iterations, Real* sink) {
  constexpr int kChains = 12;
  constexpr int kUnroll = 16;
  Vec<Real> acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = Broadcast<Real>(Real(1) + i);
  Vec<Real> x = Broadcast<Real>(Real(0.5)), y = Broadcast<Real>(Real(0.25));
  for (int64_t n = 0; n < iterations; ++n) {
    asm volatile("" : "+x"(x), "+x"(y));  // keeps the rounds from being folded into one
#pragma GCC unroll 16
    for (int u = 0; u < kUnroll; ++u) {
#pragma GCC unroll 12
      for (int i = 0; i < kChains; ++i) acc[i] = acc[i] * x + y;
    }
  }
  Vec<Real> sum{};
  for (int i = 0; i < kChains; ++i) sum += acc[i];
  *sink = sum[0];
  return 2.0 * kUnroll * kChains * kLanes<Real> * static_cast<double>(iterations);
}

// One load a vector and next to nothing else; independent sums, so that only loads limit it.
template <typename Real>
Real ReadAll(const Real* data, int64_t n) {
  constexpr int kChains = 8;
  constexpr int64_t kStep = kChains * kLanes<Real>;
  Vec<Real> acc[kChains] = {};
  for (int64_t k = 0; k + kStep <= n; k += kStep) {
#pragma GCC unroll 8
    for (int i = 0; i < kChains; ++i) acc[i] += LoadAll(data + k + i * kLanes<Real>);
  }
  Vec<Real> sum{};
#pragma GCC unroll 8
  for (int i = 0; i < kChains; ++i) sum += acc[i];
  return sum[0];
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_PROBES_INL_H_
