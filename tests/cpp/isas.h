// Loops over what the library is compiled for.
#ifndef FUSED_RNN_TESTS_CPP_ISAS_H_
#define FUSED_RNN_TESTS_CPP_ISAS_H_

#include "base/cpu.h"
#include "base/half.h"
#include "check.h"

namespace fused_rnn {

// body() with each instruction set of this CPU active, the best one last, which stays.
template <typename Body>
void ForEachIsa(const Body& body) {
  for (Isa isa : kIsas) {
    if (!IsSupported(isa)) continue;
    OverrideActiveIsa(isa);
    Scope scope("isa %s", IsaName(isa));
    body();
  }
}

// body(T()) for the types that are computed with.
template <typename Body>
void ForEachReal(const Body& body) {
  body(float());
  body(double());
}

// body(T()) for all types of tensors.
template <typename Body>
void ForEachType(const Body& body) {
  ForEachReal(body);
  body(Float16());
  body(BFloat16());
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_ISAS_H_
