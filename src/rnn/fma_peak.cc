// The roof that benchmarks divide by.
#include <atomic>
#include <chrono>

#include "base/check.h"
#include "base/team.h"
#include "kernels/kernel_table.h"

namespace fused_rnn {
namespace {

template <typename Real>
double Measure(int threads, double seconds) {
  using Clock = std::chrono::steady_clock;
  const KernelTable<Real>& kernels = Kernels<Real>();
  constexpr int64_t kRounds = 2000;  // tens of microseconds: the clock costs nothing beside them
  std::atomic<double> rate{0};
  RunTeam(threads, [&](int, int) {
    volatile Real sink;
    const Clock::time_point start = Clock::now();
    double operations = 0, elapsed = 0;
    do {
      Real value;
      operations += kernels.fma_rounds(kRounds, &value);
      sink = value;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < seconds);
    (void)sink;
    double old = rate.load();
    while (!rate.compare_exchange_weak(old, old + operations / elapsed)) {
    }
  });
  return rate.load() / 1e9;
}

}  // namespace

double MeasureFmaPeak(DType dtype, int threads, double seconds) {
  FUSED_RNN_CHECK(threads >= 0, "threads: expected >= 0, got %d", threads);
  FUSED_RNN_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
                  "dtype: expected float32 or float64, got %d", static_cast<int>(dtype));
  const int team = threads > 0 ? threads : NumThreads();
  return dtype == DType::kFloat64 ? Measure<double>(team, seconds) : Measure<float>(team, seconds);
}

}  // namespace fused_rnn
