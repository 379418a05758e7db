#include "base/execution.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/processors.h"

namespace fused_rnn {
namespace {

std::atomic<int> g_threads{0};  // 0: the default

// The processors of this process, counted at the first call; a child may have others.
std::atomic<int> g_cores{0};
const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] { g_cores.store(0); });

int Cores() {
  int cores = g_cores.load(std::memory_order_relaxed);
  if (cores == 0) {
    cores = UsableCores();
    g_cores.store(cores, std::memory_order_relaxed);
  }
  return cores;
}

// As OpenMP reads it, which is once.
const bool g_omp_is_set = [] {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  return threads != nullptr && *threads != '\0';
}();

// Multiply-adds that pay for waking one more thread (some us at tens of multiply-adds per ns, more
// where cores are shared).
constexpr double kWorkPerThread = 2e6;

// Multiply-adds that pay for one more thread at the end of a phase (about a microsecond).
constexpr double kStepWorkPerThread = 40e3;

}  // namespace

uint64_t internal::cycles_between_questions = 300'000'000;

int ActiveThreads() {
  const int threads = g_threads.load(std::memory_order_relaxed);
  if (threads > 0) return threads;
  // Without OMP_NUM_THREADS, MXNet sets OpenMP to half of the processors (1 of 2), taking the other
  // half for hyperthreads, which they often are not.
  return std::min(kMostThreads, g_omp_is_set ? omp_get_max_threads() : Cores());
}

void SetActiveThreads(int threads) {
  FUSED_RNN_CHECK(threads >= 0 && threads <= kMostThreads,
                  "threads: expected 0 (the default) to %d, got %d", kMostThreads, threads);
  g_threads.store(threads, std::memory_order_relaxed);
}

Execution::Execution(const Interrupt& interrupt)
    : isa_(ActiveIsa()),
      threads_(ActiveThreads()),
      interrupt_(interrupt),
      caller_(pthread_self()),
      last_asked_(__builtin_ia32_rdtsc()) {}

int Execution::TeamSizeFor(double work, double step_work) const {
  const double worth = std::min(work / kWorkPerThread, step_work / kStepWorkPerThread);
  return static_cast<int>(std::max(1.0, std::min<double>(threads_, worth)));
}

void Execution::Ask() const {
  const uint64_t now = __builtin_ia32_rdtsc();
  if (now - last_asked_ < internal::cycles_between_questions ||
      interrupted_.load(std::memory_order_relaxed))
    return;
  if (interrupt_.requested(interrupt_.context)) interrupted_.store(true);
  last_asked_ = __builtin_ia32_rdtsc();
}

void Execution::ThrowIfInterrupted() const {
  if (interrupted_.load()) throw Interrupted();
}

}  // namespace fused_rnn
