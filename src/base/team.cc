#include "base/team.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace fused_rnn {
namespace {

std::atomic<int> g_threads{0};  // 0: OpenMP's setting

// libgomp's pool does not survive fork(): a region of more than one thread in the child would wait
// for threads that are not there. So the child is single-threaded.
std::atomic<bool> g_forked{false};
const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });

// Multiply-adds that pay for waking one more thread (some us at tens of multiply-adds per ns, more
// where cores are shared).
constexpr double kWorkPerThread = 2e6;

// Multiply-adds that pay for one more thread at a barrier (about a microsecond).
constexpr double kStepWorkPerThread = 40e3;

}  // namespace

int NumThreads() {
  if (g_forked.load(std::memory_order_relaxed)) return 1;
  const int threads = g_threads.load(std::memory_order_relaxed);
  return threads > 0 ? threads : omp_get_max_threads();
}

void SetNumThreads(int threads) {
  FUSED_RNN_CHECK(threads >= 0, "threads: expected >= 0 (0 = OpenMP's setting), got %d", threads);
  g_threads.store(threads, std::memory_order_relaxed);
}

int TeamSizeFor(double work, double step_work) {
  const double worth = std::min(work / kWorkPerThread, step_work / kStepWorkPerThread);
  return static_cast<int>(std::max(1.0, std::min<double>(NumThreads(), worth)));
}

namespace internal {

void RunTeam(int threads, TeamFunction function, const void* closure) {
  if (threads <= 1) {
    FlushSubnormals flush;
    function(closure, 0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    FlushSubnormals flush;
    function(closure, omp_get_thread_num(), omp_get_num_threads());
  }
}

}  // namespace internal

}  // namespace fused_rnn
