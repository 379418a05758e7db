// The process's other threads.
#ifndef FUSED_RNN_SRC_MXNET_QUIET_H_
#define FUSED_RNN_SRC_MXNET_QUIET_H_

namespace fused_rnn {
namespace mx {

// Waits for a moment at which all other threads of the process sleep, for some seconds at most;
// returns whether there was one.
//
// MXNet's tables of operators have no lock for those who read them, so they are changed at such a
// moment only. If the caller holds Python's lock, nobody who sleeps in Python code will wake up to
// call MXNet before it lets go.
bool WaitUntilOthersSleep();

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_QUIET_H_
