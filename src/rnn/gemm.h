// The large matrix products of the backward pass: gradients of weights and inputs. The one seam at
// which a matrix library is plugged in.
#ifndef FUSED_RNN_RNN_GEMM_H_
#define FUSED_RNN_RNN_GEMM_H_

#include <cstdint>

#include "base/execution.h"

namespace fused_rnn {

// C [M, N] = op(A) [M, K] op(B) [K, N], or + C if `accumulate`. Row-major, "ld" in elements. C
// overlaps nothing.
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
  // A dimension that differs from call to call, so that a library which compiles products had
  // better compile one for all of its sizes.
  enum class Varying { kNone, kM, kK } varying = Varying::kNone;
};

// Any of M, N, K may be 0. The result does not depend on the number of threads. Throws OutOfMemory.
template <typename Real>
void Gemm(const Execution& execution, const GemmArgs<Real>& args);

// What a backend provides: the same on the calling thread alone; M, N, K >= 1. `isa` is that of the
// call's own kernels; a library chooses its own.
void SerialGemm(Isa isa, const GemmArgs<float>& args);   // onednn_gemm.cc or mkl_gemm.cc
void SerialGemm(Isa isa, const GemmArgs<double>& args);  // likewise

// A backend on our own kernels (panel_gemm.cc), for what a library does not have.
template <typename Real>
void OwnGemm(Isa isa, const GemmArgs<Real>& args);

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_GEMM_H_
