// The two passes, as rnn.cc calls them: arguments checked, element type chosen, memory planned.
#ifndef FUSED_RNN_RNN_PASSES_H_
#define FUSED_RNN_RNN_PASSES_H_

#include "rnn/memory_plan.h"
#include "rnn/steps.h"

namespace fused_rnn {

// Real is the type computed with; all tensors of `args` are of it. Weight is the type in which the
// recurrent and projection weights are read at every step: `weights` is the parameter vector in it
// (args.params itself where the types are the same).
template <typename Real, typename Weight>
void RunForward(const Dims& dims, const Steps& steps, const ForwardArgs& args,
                const Weight* weights, const ForwardPlan& plan, const ReservePlan& reserve);

template <typename Real, typename Weight>
void RunBackward(const Dims& dims, const Steps& steps, const BackwardArgs& args,
                 const Weight* weights, const BackwardPlan& plan, const ReservePlan& reserve);

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PASSES_H_
