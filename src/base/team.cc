#include "base/team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/check.h"

namespace fused_rnn {
namespace {

std::atomic<int> g_threads{0};  // 0: the default

// Threads do not survive fork(), and the pool that had them does not know: the child computes on
// its own thread alone.
std::atomic<bool> g_forked{false};
const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });

// The lowest-numbered hyperthread of a processor's core, from a file that reads like "0,4" or
// "0-1"; the processor itself if the system does not tell.
int FirstSibling(int cpu) {
  char path[96];
  std::snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                cpu);
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return cpu;
  int first = cpu;
  if (std::fscanf(file, "%d", &first) != 1) first = cpu;
  std::fclose(file);
  return first;
}

// Physical cores that this process may run on: a second hyperthread adds nothing to multiply-adds
// that fill the core.
int AvailableCores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return std::max(1, omp_get_num_procs());
  std::set<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cores.insert(FirstSibling(cpu));
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

// Multiply-adds that pay for waking one more thread (some us at tens of multiply-adds per ns, more
// where cores are shared).
constexpr double kWorkPerThread = 2e6;

// Multiply-adds that pay for one more thread at the end of a phase (about a microsecond).
constexpr double kStepWorkPerThread = 40e3;

}  // namespace

int NumThreads() {
  if (g_forked.load(std::memory_order_relaxed)) return 1;
  const int threads = g_threads.load(std::memory_order_relaxed);
  if (threads > 0) return threads;
  // Without OMP_NUM_THREADS, MXNet sets OpenMP to half of the processors (1 of 2), taking the other
  // half for hyperthreads, which they often are not.
  static const bool omp_is_set = std::getenv("OMP_NUM_THREADS") != nullptr;
  static const int cores = AvailableCores();
  return omp_is_set ? omp_get_max_threads() : cores;
}

void SetNumThreads(int threads) {
  FUSED_RNN_CHECK(threads >= 0, "threads: expected >= 0 (0 = the default), got %d", threads);
  g_threads.store(threads, std::memory_order_relaxed);
}

int TeamSizeFor(double work, double step_work) {
  const double worth = std::min(work / kWorkPerThread, step_work / kStepWorkPerThread);
  return static_cast<int>(std::max(1.0, std::min<double>(NumThreads(), worth)));
}

}  // namespace fused_rnn
