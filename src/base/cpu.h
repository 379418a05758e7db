// Which instruction set the kernels use.
#ifndef FUSED_RNN_BASE_CPU_H_
#define FUSED_RNN_BASE_CPU_H_

namespace fused_rnn {

// Ordered: a later one includes the earlier ones. kScalar is x86-64's baseline (SSE2), which every
// such CPU has.
enum class Isa : int { kScalar = 0, kAvx2 = 1, kAvx512 = 2 };

const char* IsaName(Isa isa);

// The extensions of x86-64's baseline that the kernels of `isa` may use and those before it do not,
// by GCC's names, separated by blanks. tools/check_instructions.py compares them with the kernels.
const char* RequiredFeatures(Isa isa);

// The best that the CPU and the operating system support.
Isa DetectedIsa();

// DetectedIsa() capped by the environment variable FUSED_RNN_MAX_ISA, which is read once. Throws
// Error for a bad value.
Isa ActiveIsa();

// For tests and benchmarks that compare instruction sets in one process: makes ActiveIsa() return
// `isa` (at most DetectedIsa(), else throws Error). Not to be called while a Forward or Backward
// runs.
void OverrideActiveIsa(Isa isa);

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_CPU_H_
