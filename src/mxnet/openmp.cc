#include "openmp.h"

#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>

#include <atomic>

namespace fused_rnn {
namespace mx {
namespace {

// Ending and making a thread takes some 50 us: at most a tenth of a call that takes this much work
// for each pair of threads.
constexpr double kWorkPerSquaredThreads = 20e6;

// Not linked: the runtimes of GCC before 9 lack it. Found when the library is loaded, since a fork
// amid the first use of a function's own variable would leave the child waiting for it.
using Pause = int (*)(omp_pause_resource_t kind, int device);
const auto pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource"));

// OpenMP's threads do not survive fork(), but the child's runtime would wait for them to end.
std::atomic<bool> forked{false};
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { forked.store(true); });

// OpenMP's threads end by pthread_exit, at whose first use in a process the C library loads the
// unwinder, and aborts where there is no memory for it. So a thread of ours is the first. Nobody
// waits for it: it loads when this library has been loaded.
void* Exit(void*) { pthread_exit(nullptr); }
[[maybe_unused]] const bool unwinder_will_be_loaded = [] {
  pthread_t thread;
  return pthread_create(&thread, nullptr, Exit, nullptr) == 0 && pthread_detach(thread) == 0;
}();

}  // namespace

void EndIdleThreads(double work) {
  if (pause == nullptr || forked.load(std::memory_order_relaxed)) return;
  const double threads = omp_get_max_threads();
  if (work < kWorkPerSquaredThreads * threads * threads) return;
  // Inside a parallel region it does nothing but say so.
  pause(omp_pause_soft, omp_get_initial_device());
}

}  // namespace mx
}  // namespace fused_rnn
