// Which instruction set the kernels use.
#ifndef FUSED_RNN_BASE_CPU_H_
#define FUSED_RNN_BASE_CPU_H_

namespace fused_rnn {

// Named as users, and the namespaces of the kernels, name them.
enum class Isa : int {
#define FUSED_RNN_ISA_ENTRY(name, base, flags, features) name,
#include "base/isas.def"
};

constexpr Isa kIsas[] = {
#define FUSED_RNN_ISA_ENTRY(name, base, flags, features) Isa::name,
#include "base/isas.def"
};

const char* IsaName(Isa isa);

// The set that `isa` extends; the first is its own.
Isa BaseOf(Isa isa);

// The extensions of x86-64's baseline that the kernels of `isa` may use and those of its base do
// not, by GCC's names, separated by blanks.
const char* RequiredFeatures(Isa isa);

// Whether the CPU and the operating system support it.
bool IsSupported(Isa isa);

// The last of kIsas that is supported.
Isa DetectedIsa();

// The last of kIsas that is supported, up to the one that the environment variable
// FUSED_RNN_MAX_ISA names, which is read once. Throws Error for a bad value.
Isa ActiveIsa();

// For tests and benchmarks that compare instruction sets in one process: makes ActiveIsa() return
// `isa` (which is supported, else throws Error). Not to be called while a Forward or Backward runs.
void OverrideActiveIsa(Isa isa);

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_CPU_H_
