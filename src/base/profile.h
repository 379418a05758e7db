// Where the time of calls goes (measure.h, StartProfile).
#ifndef FUSED_RNN_BASE_PROFILE_H_
#define FUSED_RNN_BASE_PROFILE_H_

#include <atomic>
#include <cstdint>

namespace fused_rnn {

enum class Stage : int {
  kPacking,
  kInputProducts,
  kRecurrentProducts,
  kGates,
  kWaiting,
  kLargeProducts,
};
constexpr int kStages = 6;

namespace internal {
extern std::atomic<bool> profiling;
extern std::atomic<uint64_t> stage_ticks[kStages];
}  // namespace internal

// Counts the time until its end to a stage, on this thread. Costs a load and a branch while no
// profile is taken.
class StageTimer {
 public:
  explicit StageTimer(Stage stage)
      : stage_(stage),
        start_(internal::profiling.load(std::memory_order_relaxed) ? __builtin_ia32_rdtsc() : 0) {}
  ~StageTimer() {
    if (start_ == 0) return;
    internal::stage_ticks[static_cast<int>(stage_)].fetch_add(__builtin_ia32_rdtsc() - start_,
                                                              std::memory_order_relaxed);
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  Stage stage_;
  uint64_t start_;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_PROFILE_H_
