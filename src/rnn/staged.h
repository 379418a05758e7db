// The 16-bit types: stored so by the caller, computed in float32.
#ifndef FUSED_RNN_RNN_STAGED_H_
#define FUSED_RNN_RNN_STAGED_H_

#include "rnn/passes.h"

namespace fused_rnn {

// As RunForward and RunBackward, but all tensors of `args` are of the problem's 16-bit type, and
// args.workspace is laid out by the staged plan.
void RunStagedForward(const Execution& execution, const Dims& dims, const Steps& steps,
                      const ForwardArgs& args, const StagedForwardPlan& staged,
                      const ForwardPlan& plan, const ReservePlan& reserve);

void RunStagedBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                       const BackwardArgs& args, const StagedBackwardPlan& staged,
                       const BackwardPlan& plan, const ReservePlan& reserve);

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_STAGED_H_
