// The two passes, as rnn.cc calls them: arguments checked, format chosen, memory planned.
#ifndef FUSED_RNN_RNN_PASSES_H_
#define FUSED_RNN_RNN_PASSES_H_

#include "base/execution.h"
#include "rnn/memory_plan.h"
#include "rnn/steps.h"

namespace fused_rnn {

// Format: of the weights, as they are stored and read at every step (weight_formats.h). All tensors
// of `args` are of type Format::Real, but for a forward's params, which are of type Format::Weight.
template <typename Format>
void RunForward(const Execution& execution, const Dims& dims, const Steps& steps,
                const ForwardArgs& args, const ForwardPlan& plan, const ReservePlan& reserve);

// `weights`: the parameters as type Weight (args.params itself where the types are the same).
template <typename Format>
void RunBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                 const BackwardArgs& args, const typename Format::Weight* weights,
                 const BackwardPlan& plan, const ReservePlan& reserve);

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PASSES_H_
