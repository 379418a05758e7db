// The product of very few rows with weights that are not packed: each weight is read once, in its
// own order. For calls whose steps are too few to pay for packing. Compiled once per instruction
// set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_ROW_GEMM_INL_H_
#define FUSED_RNN_KERNELS_ROW_GEMM_INL_H_

#include "kernels/half-inl.h"
#include "kernels/kernel_table.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

template <typename Real>
inline Real SumLanes(Vec<Real> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Real) == 4) {
    return _mm512_reduce_add_ps(v);
  } else {
    return _mm512_reduce_add_pd(v);
  }
#else
  Real sum = v[0];
#pragma GCC unroll 8
  for (int i = 1; i < kLanes<Real>; ++i) sum += v[i];
  return sum;
#endif
}

// c[j] = sum over k of a[k] w[j*w_ld + k], j < NC: NC rows of weights are read side by side.
template <typename Real, typename Weight, int NC>
void Dots(int64_t K, const Real* a, const Weight* w, int64_t w_ld, Real* c) {
  constexpr int V = kLanes<Real>;
  Vec<Real> acc[NC][2] = {};
  int64_t k = 0;
  for (; k + 2 * V <= K; k += 2 * V) {
    const Vec<Real> a0 = LoadAll(a + k), a1 = LoadAll(a + k + V);
#pragma GCC unroll 4
    for (int j = 0; j < NC; ++j) {
      acc[j][0] = LoadWeights(w + j * w_ld + k) * a0 + acc[j][0];
      acc[j][1] = LoadWeights(w + j * w_ld + k + V) * a1 + acc[j][1];
    }
  }
  for (; k + V <= K; k += V) {
    const Vec<Real> a0 = LoadAll(a + k);
#pragma GCC unroll 4
    for (int j = 0; j < NC; ++j) acc[j][0] = LoadWeights(w + j * w_ld + k) * a0 + acc[j][0];
  }
#pragma GCC unroll 4
  for (int j = 0; j < NC; ++j) {
    Real sum = SumLanes<Real>(acc[j][0] + acc[j][1]);
    for (int64_t tail = k; tail < K; ++tail) sum += a[tail] * Widen(w[j * w_ld + tail]);
    c[j] = sum;
  }
}

template <typename Real, typename Weight>
void RowGemm(const RowGemmArgs<Real, Weight>& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    const Real* a = args.a + r * args.a_ld;
    Real* c = args.c + r * args.c_ld;
    int64_t j = 0;
    for (; j + 4 <= args.columns; j += 4) {
      Dots<Real, Weight, 4>(args.K, a, args.w + j * args.w_ld, args.w_ld, c + j);
    }
    for (; j < args.columns; ++j) {
      Dots<Real, Weight, 1>(args.K, a, args.w + j * args.w_ld, args.w_ld, c + j);
    }
  }
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_ROW_GEMM_INL_H_
