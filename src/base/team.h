// Teams of threads.
//
// A team is the caller and threads of one pool of the process (pool.cc). It is not an OpenMP
// region, because those end when all their threads have come, and on a shared machine one that has
// lost its core may come milliseconds late. Here the caller begins at once, others join if and when
// they run, and the call ends when its work is done.
#ifndef FUSED_RNN_BASE_TEAM_H_
#define FUSED_RNN_BASE_TEAM_H_

#include <xmmintrin.h>

#include <atomic>
#include <cstdint>
#include <exception>

#include "base/execution.h"

namespace fused_rnn {

// Sets flush-to-zero and denormals-are-zero in this thread while alive: subnormal numbers cost a
// hundred cycles each and mean nothing in a recurrent state.
class FlushSubnormals {
 public:
  FlushSubnormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFtzDaz); }
  ~FlushSubnormals() { _mm_setcsr(saved_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  static constexpr unsigned kFtzDaz = 0x8040;
  unsigned saved_;
};

namespace internal {
using TeamFunction = void (*)(const void* closure, int thread, int team) noexcept;
void RunTeam(int threads, TeamFunction function, const void* closure);
}  // namespace internal

// Calls body(0, team) on this thread and body(thread, team) on up to team - 1 others, each with a
// number of its own, and returns when all that were called have returned; team is `threads`, at
// least 1. A number whose thread comes too late is never called: all work must be such that any of
// the threads can do it (tile_queue.h, ParallelFor). `body` must not throw, which would end the
// process: others wait for its part of the work (see FirstFailure). Calls may be nested and may
// come from several threads; those that find the pool busy run with fewer threads.
template <typename Body>
void RunTeam(int threads, const Body& body) {
  internal::RunTeam(
      threads,
      [](const void* closure, int thread, int team) noexcept {
        (*static_cast<const Body*>(closure))(thread, team);
      },
      &body);
}

// Carries an exception out of a team: of those caught in it the first, to be thrown by the caller.
class FirstFailure {
 public:
  // work(), whose exceptions are kept.
  template <typename Work>
  void Catch(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      if (!taken_.exchange(true)) failure_ = std::current_exception();
    }
  }
  // To be called when the team has ended.
  void Rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::atomic<bool> taken_{false};
  std::exception_ptr failure_;
};

struct Range {
  int64_t begin;
  int64_t end;
};

// Part `index` of `parts` of [0, count): contiguous, sizes differ by at most one.
inline Range Split(int64_t count, int parts, int index) {
  return {count * index / parts, count * (index + 1) / parts};
}

// body(begin, end) over disjoint pieces of [0, count), which a team fit for `work` multiply-adds
// takes one after another.
template <typename Body>
void ParallelFor(const Execution& execution, double work, int64_t count, const Body& body) {
  constexpr int kPiecesPerThread = 4;
  const int threads = execution.TeamSizeFor(work);
  const int pieces = threads > 1 ? threads * kPiecesPerThread : 1;
  std::atomic<int> next{0};
  RunTeam(threads, [&](int, int) {
    for (int i = next++; i < pieces; i = next++) {
      const Range range = Split(count, pieces, i);
      if (range.begin < range.end && execution.GoesOn()) body(range.begin, range.end);
    }
  });
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_TEAM_H_
