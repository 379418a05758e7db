// The large matrix products around the recurrence: input projection, gradients of inputs and of
// weights. The one seam at which a matrix library is plugged in.
#ifndef FUSED_RNN_RNN_GEMM_H_
#define FUSED_RNN_RNN_GEMM_H_

#include <algorithm>
#include <cstdint>

namespace fused_rnn {

// C [M, N] = op(A) [M, K] op(B) [K, N] + bias, or + C if `accumulate`. Row-major, "ld" in elements.
// C overlaps nothing.
template <typename Real>
struct GemmArgs {
  int64_t M, N, K;
  const Real* a;
  int64_t a_ld;
  bool a_transposed;  // a holds A^T, [K, M]
  const Real* b;
  int64_t b_ld;
  bool b_transposed;  // b holds B^T, [N, K]
  Real* c;
  int64_t c_ld;
  bool accumulate;
  const Real* bias;  // [N] or null; not together with `accumulate`
};

// Uses up to NumThreads() threads. Any of M, N, K may be 0.
void Gemm(const GemmArgs<float>& args);   // onednn_gemm.cc
void Gemm(const GemmArgs<double>& args);  // panel_gemm.cc: oneDNN has no float64 product on a CPU

// What is left of a product with K = 0.
template <typename Real>
void GemmOfNothing(const GemmArgs<Real>& args) {
  if (args.accumulate) return;
  for (int64_t m = 0; m < args.M; ++m) {
    Real* c = args.c + m * args.c_ld;
    if (args.bias != nullptr) {
      std::copy(args.bias, args.bias + args.N, c);
    } else {
      std::fill(c, c + args.N, Real(0));
    }
  }
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_GEMM_H_
