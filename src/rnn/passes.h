// The two passes, as rnn.cc calls them: arguments checked, element type chosen, memory planned.
#ifndef FUSED_RNN_RNN_PASSES_H_
#define FUSED_RNN_RNN_PASSES_H_

#include "rnn/memory_plan.h"
#include "rnn/steps.h"

namespace fused_rnn {

// Real is the type computed with; all tensors of `args` are of it.
template <typename Real>
void RunForward(const Dims& dims, const Steps& steps, const ForwardArgs& args, const ForwardPlan& plan,
                const ReservePlan& reserve);

template <typename Real>
void RunBackward(const Dims& dims, const Steps& steps, const BackwardArgs& args, const BackwardPlan& plan,
                 const ReservePlan& reserve);

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PASSES_H_
