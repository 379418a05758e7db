// How a call is executed: threads, instruction set, and whether its caller still wants it.
#ifndef FUSED_RNN_BASE_EXECUTION_H_
#define FUSED_RNN_BASE_EXECUTION_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/cpu.h"
#include "fused_rnn/error.h"

namespace fused_rnn {

// Threads that a setting may ask for.
constexpr int kMostThreads = 1024;

// What NumThreads and SetNumThreads of rnn.h do.
int ActiveThreads();
void SetActiveThreads(int threads);

namespace internal {
// Cycles between two questions to a caller, 0.1 to 0.3 seconds: the answer may cost milliseconds
// (Python's lock). A variable for the tests' sake.
extern uint64_t cycles_between_questions;
}  // namespace internal

// Made at the entry of a call, on the calling thread, and passed down: the process's settings may
// change while a call runs, and threads that read them at different times would disagree about the
// phases of their work. Below the entry nothing reads a setting of the process.
class Execution {
 public:
  // The settings of this moment. Throws Error for a bad one in the environment.
  explicit Execution(const Interrupt& interrupt = {});
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  Isa isa() const { return isa_; }
  int threads() const { return threads_; }

  // The threads worth starting, at most threads(), for `work` multiply-adds in all, between whose
  // parts of `step_work` the threads wait for each other (by default they never do): a tiny problem
  // is faster on one.
  int TeamSizeFor(double work, double step_work = 1e30) const;

  // Whether to do the next piece of work. Once the caller wants the call to end, all of its threads
  // pass their pieces by, undone, and so come to its end.
  bool GoesOn() const {
    if (interrupt_.requested == nullptr) return true;
    if (Asks()) Ask();
    return !interrupted_.load(std::memory_order_relaxed);
  }
  // Whether this thread, of all in the call, is the one that asks the caller.
  bool Asks() const {
    return interrupt_.requested != nullptr && pthread_equal(pthread_self(), caller_) != 0;
  }

  // To be called when the work has been done or passed by: throws Interrupted in the latter case.
  void ThrowIfInterrupted() const;

 private:
  void Ask() const;

  const Isa isa_;
  const int threads_;
  const Interrupt interrupt_;
  const pthread_t caller_;
  mutable uint64_t last_asked_;  // time stamp; the caller's thread alone
  mutable std::atomic<bool> interrupted_{false};
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_EXECUTION_H_
