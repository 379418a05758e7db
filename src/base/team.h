// Threads: how many, and how they are started.
//
// OpenMP starts them, so that this library, oneDNN and MXNet share one pool (all of them use GCC's
// libgomp); a second pool would spin against the first.
#ifndef FUSED_RNN_BASE_TEAM_H_
#define FUSED_RNN_BASE_TEAM_H_

#include <xmmintrin.h>

#include <cstdint>

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
using TeamFunction = void (*)(const void* closure, int thread, int team);
void RunTeam(int threads, TeamFunction function, const void* closure);
}  // namespace internal

// Calls body(thread, team) on `team` threads at once, thread = 0 .. team-1, and returns when all
// are done. 1 <= team <= threads: OpenMP may grant fewer (nested regions), so the split of the work
// must come from `team`. `body` must not throw.
template <typename Body>
void RunTeam(int threads, const Body& body) {
  internal::RunTeam(
      threads,
      [](const void* closure, int thread, int team) {
        (*static_cast<const Body*>(closure))(thread, team);
      },
      &body);
}

// The threads worth starting, at most NumThreads(), for `work` multiply-adds in all, between whose
// parts of `step_work` the threads wait for each other (by default they never do): a tiny problem
// is faster on one.
int TeamSizeFor(double work, double step_work = 1e30);

struct Range {
  int64_t begin;
  int64_t end;
};

// Part `index` of `parts` of [0, count): contiguous, sizes differ by at most one.
inline Range Split(int64_t count, int parts, int index) {
  return {count * index / parts, count * (index + 1) / parts};
}

// body(begin, end) over disjoint pieces of [0, count) on the team.
template <typename Body>
void ParallelFor(int threads, int64_t count, const Body& body) {
  RunTeam(threads, [&](int thread, int team) {
    const Range range = Split(count, team, thread);
    if (range.begin < range.end) body(range.begin, range.end);
  });
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_TEAM_H_
