// Keeps fork() away from code whose locks are not ours.
//
// A child has only the thread that called fork(). What another thread was doing stays half done in
// it, and a lock that this thread held stays locked for ever. State of our own is made anew in a
// child; a library's cannot be.
#ifndef FUSED_RNN_BASE_FORK_GATE_H_
#define FUSED_RNN_BASE_FORK_GATE_H_

namespace fused_rnn {

// While one is alive, fork() in another thread waits, and while a fork() is on its way its making
// waits: each for a fraction of a second at most, because a handler of another library may in its
// turn wait for the thread that waits here. Then both go on, and the child knows (`BrokenByFork`).
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;
};

// Whether a thread of a parent was inside a gate when this process was forked: then what the gates
// guard is not to be used in it.
bool BrokenByFork();

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_FORK_GATE_H_
