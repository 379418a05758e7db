#include "base/profile.h"

#include <chrono>

#include "fused_rnn/measure.h"

namespace fused_rnn {

namespace internal {
std::atomic<bool> profiling{false};
std::atomic<uint64_t> stage_ticks[kStages];
}  // namespace internal

namespace {

using Clock = std::chrono::steady_clock;
Clock::time_point g_start_time;
uint64_t g_start_ticks;

}  // namespace

void StartProfile() {
  for (auto& ticks : internal::stage_ticks) ticks = 0;
  g_start_time = Clock::now();
  g_start_ticks = __builtin_ia32_rdtsc();
  internal::profiling = true;
}

Profile StopProfile() {
  internal::profiling = false;
  const double seconds = std::chrono::duration<double>(Clock::now() - g_start_time).count();
  const double per_tick = seconds / static_cast<double>(__builtin_ia32_rdtsc() - g_start_ticks);
  const auto stage = [per_tick](Stage s) {
    return static_cast<double>(internal::stage_ticks[static_cast<int>(s)].load()) * per_tick;
  };
  return {seconds,
          stage(Stage::kPacking),
          stage(Stage::kInputProducts),
          stage(Stage::kRecurrentProducts),
          stage(Stage::kGates),
          stage(Stage::kWaiting),
          stage(Stage::kLargeProducts)};
}

}  // namespace fused_rnn
