#include "openmp.h"

#include <dlfcn.h>
#include <omp.h>

namespace fused_rnn {
namespace mx {
namespace {

// Ending and making a thread takes some 50 us: at most a tenth of a call that takes this much work
// for each pair of threads.
constexpr double kWorkPerSquaredThreads = 20e6;

}  // namespace

void EndIdleThreads(double work) {
  // Not linked: the runtimes of GCC before 9 lack it.
  using Pause = int (*)(omp_pause_resource_t kind, int device);
  static const auto pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource"));
  const double threads = omp_get_max_threads();
  if (pause == nullptr || work < kWorkPerSquaredThreads * threads * threads) return;
  // Inside a parallel region it does nothing but say so.
  pause(omp_pause_soft, omp_get_initial_device());
}

}  // namespace mx
}  // namespace fused_rnn
