// The roofs that benchmarks divide by.
#include <atomic>
#include <chrono>
#include <vector>

#include "base/check.h"
#include "base/execution.h"
#include "base/team.h"
#include "fused_rnn/measure.h"
#include "fused_rnn/rnn.h"
#include "kernels/kernel_table.h"

namespace fused_rnn {
namespace {

// How much threads do in a second, in all: `round()` returns how much it has done, and takes tens
// of microseconds, so that the clock costs nothing beside it.
template <typename MakeRound>
double RateOfTeam(const Execution& execution, int threads, double seconds,
                  const MakeRound& make_round) {
  using Clock = std::chrono::steady_clock;
  std::atomic<double> rate{0};
  RunTeam(threads, [&](int thread, int team) {
    const auto round = make_round(thread, team);
    round();  // wakes the core, fills the cache
    const Clock::time_point start = Clock::now();
    double done = 0, elapsed = 0;
    do {
      done += round();
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < seconds && execution.GoesOn());
    double old = rate.load();
    while (!rate.compare_exchange_weak(old, old + done / elapsed)) {
    }
  });
  execution.ThrowIfInterrupted();
  return rate.load();
}

template <typename Real>
double FmaPeak(const Execution& execution, int threads, double seconds) {
  constexpr int64_t kIterations = 2000;
  const auto fma_rounds = Kernels<Real>(execution.isa()).fma_rounds;
  return RateOfTeam(execution, threads, seconds, [=](int, int) {
    return [=] {
      volatile Real sink;
      Real value;
      const double operations = fma_rounds(kIterations, &value);
      sink = value;
      (void)sink;
      return operations;
    };
  });
}

}  // namespace

double MeasureFmaPeak(DType dtype, int threads, double seconds, const Interrupt& interrupt) {
  FUSED_RNN_CHECK(threads >= 0 && threads <= kMostThreads, "threads: expected 0 to %d, got %d",
                  kMostThreads, threads);
  FUSED_RNN_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64,
                  "dtype: expected float32 or float64, got %d", static_cast<int>(dtype));
  const Execution execution(interrupt);
  const int team = threads > 0 ? threads : execution.threads();
  return (dtype == DType::kFloat64 ? FmaPeak<double>(execution, team, seconds)
                                   : FmaPeak<float>(execution, team, seconds)) /
         1e9;
}

double MeasureReadBandwidth(size_t bytes, int threads, double seconds, const Interrupt& interrupt) {
  FUSED_RNN_CHECK(threads >= 0 && threads <= kMostThreads, "threads: expected 0 to %d, got %d",
                  kMostThreads, threads);
  constexpr size_t kLine = 64 / sizeof(float);
  constexpr int64_t kRoundBytes = 1 << 20;
  const Execution execution(interrupt);
  const int asked = threads > 0 ? threads : execution.threads();
  // A thread's part is whole steps of the kernel; the smallest is one step.
  const auto& kernels = Kernels<float>(execution.isa());
  const int64_t step = int64_t{8} * kernels.lanes;
  const int64_t steps = static_cast<int64_t>(bytes / sizeof(float)) / (step * asked);
  FUSED_RNN_CHECK(steps > 0, "bytes: expected at least %lld, got %zu",
                  static_cast<long long>(step * asked * sizeof(float)), bytes);
  const int64_t part = steps * step;
  std::vector<float> storage(part * asked + kLine, 1.0f);
  float* data = storage.data();
  while (reinterpret_cast<uintptr_t>(data) % 64 != 0) ++data;
  const auto read_all = kernels.read_all;
  const int64_t part_bytes = part * static_cast<int64_t>(sizeof(float));
  const int64_t repeats = part_bytes < kRoundBytes ? kRoundBytes / part_bytes : 1;
  return RateOfTeam(execution, asked, seconds,
                    [=](int thread, int) {
                      const float* own = data + thread * part;
                      return [=] {
                        volatile float sink;
                        for (int64_t k = 0; k < repeats; ++k) sink = read_all(own, part);
                        (void)sink;
                        return static_cast<double>(repeats * part_bytes);
                      };
                    }) /
         1e9;
}

}  // namespace fused_rnn
