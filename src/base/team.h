// Threads: how many, and teams of them.
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

// Calls body(0, team) on this thread and body(thread, team) on up to team - 1 others, each with a
// number of its own, and returns when all that were called have returned; team is `threads`, at
// least 1. A number whose thread comes too late is never called: all work must be such that any of
// the threads can do it (tile_queue.h, ParallelFor). `body` must not throw. Calls may be nested and
// may come from several threads; those that find the pool busy run with fewer threads.
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

// body(begin, end) over disjoint pieces of [0, count), which the team takes one after another.
template <typename Body>
void ParallelFor(int threads, int64_t count, const Body& body) {
  constexpr int kPiecesPerThread = 4;
  const int pieces = threads > 1 ? threads * kPiecesPerThread : 1;
  std::atomic<int> next{0};
  RunTeam(threads, [&](int, int) {
    for (int i = next++; i < pieces; i = next++) {
      const Range range = Split(count, pieces, i);
      if (range.begin < range.end) body(range.begin, range.end);
    }
  });
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_TEAM_H_
