// The weight format of a problem.
#ifndef FUSED_RNN_RNN_WEIGHT_FORMAT_H_
#define FUSED_RNN_RNN_WEIGHT_FORMAT_H_

#include "fused_rnn/rnn.h"
#include "kernels/kernel_table.h"

namespace fused_rnn {

// body(Format()) for the format (weight_formats.h) of the problem's weights. What decides must be
// the same in the whole process and, of the problem, among what PackedWeights::CheckFits compares.
template <typename Body>
auto WithFormat(const Problem& problem, const Body& body) {
  switch (problem.dtype) {
#define FUSED_RNN_FORMAT(Format, dtype) \
  case DType::dtype:                    \
    return body(Format());
    FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_FORMAT)
#undef FUSED_RNN_FORMAT
  }
  __builtin_unreachable();  // Dims has checked it
}

// The vector width in elements of the type computed in.
inline int64_t LanesFor(const Problem& problem, Isa isa) {
  return WithFormat(problem, [isa](auto format) -> int64_t {
    return Kernels<typename decltype(format)::Real>(isa).lanes;
  });
}

inline PanelFormula PanelFormulaOf(const Problem& problem) {
  return WithFormat(problem, [](auto format) { return decltype(format)::kPanel; });
}

// Of an element of a panel.
inline int64_t PackedBytes(const Problem& problem) {
  return WithFormat(
      problem, [](auto format) -> int64_t { return sizeof(typename decltype(format)::Packed); });
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_WEIGHT_FORMAT_H_
