// The product of very few rows with weights that are not packed: each weight is read once, in its
// own order. For calls whose steps are too few to pay for packing. Compiled once per instruction
// set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_ROW_GEMM_INL_H_
#define FUSED_RNN_KERNELS_ROW_GEMM_INL_H_

#include "base/half.h"
#include "kernels/kernel_table.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// sum over k of a[k] w[k]: one row of weights, four sums. The next row lies behind it, so all of a
// product is one stream, which the hardware prefetches at full speed; side by side, rows would be
// streams that end and begin all the time (measured, four at once: 110 against 127 GB/s from L3).
template <typename Real, typename Weight>
inline Real Dot(int64_t K, const Real* a, const Weight* w) {
  constexpr int V = kLanes<Real>;
  constexpr int kSums = 4;
  Vec<Real> sums[kSums] = {};
  int64_t k = 0;
  for (; k + kSums * V <= K; k += kSums * V) {
#pragma GCC unroll 4
    for (int i = 0; i < kSums; ++i) {
      sums[i] = LoadWeights(w + k + i * V) * LoadAll(a + k + i * V) + sums[i];
    }
  }
  for (; k + V <= K; k += V) sums[0] = LoadWeights(w + k) * LoadAll(a + k) + sums[0];
  Real sum = SumLanes<Real>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; k < K; ++k) sum += a[k] * Widen(w[k]);
  return sum;
}

template <typename Format>
void RowGemm(const RowGemmArgs<Format>& args) {
  using Real = typename Format::Real;
  for (int64_t r = 0; r < args.rows; ++r) {
    const Real* a = args.a + r * args.a_ld;
    Real* c = args.c + r * args.c_ld;
    for (int64_t j = 0; j < args.columns; ++j) {
      c[j] = Dot<Real, typename Format::Weight>(args.K, a, args.w + j * args.w_ld);
    }
  }
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_ROW_GEMM_INL_H_
