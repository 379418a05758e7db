#include "base/tile_queue.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <climits>
#include <ctime>

#include "base/profile.h"

namespace fused_rnn {
namespace {

// Some tens of microseconds: several times what waking a thread costs.
constexpr int kSpinsBeforeSleep = 1000;

void Futex(std::atomic<uint32_t>* word, int operation, uint32_t value,
           const timespec* timeout = nullptr) {
  static_assert(sizeof(*word) == 4, "the kernel reads a plain 32-bit word");
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation | FUTEX_PRIVATE_FLAG, value,
          timeout, nullptr, 0);
}

}  // namespace

int64_t TileQueue::Take(uint64_t phase, int64_t tiles, int lane) {
  std::atomic<uint64_t>& taken = lanes_[lane].taken;
  const uint64_t first = phase << kTakenBits;
  uint64_t seen = taken.load(std::memory_order_relaxed);
  for (;;) {
    // A smaller word is from an earlier phase: nothing of this one is taken. A larger phase means
    // that we are late.
    const uint64_t begun = std::max(seen, first);
    const int64_t tile = static_cast<int64_t>(begun - first);
    if (tile >= tiles) return -1;
    if (taken.compare_exchange_weak(seen, begun + 1, std::memory_order_acq_rel)) return tile;
  }
}

void TileQueue::Finish(uint64_t phase, int64_t tiles) {
  if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 < tiles) return;
  done_.store(0, std::memory_order_relaxed);
  phases_done_.store(phase + 1);
  if (sleepers_.load() > 0) {
    bell_.fetch_add(1);
    Futex(&bell_, FUTEX_WAKE, INT_MAX);
  }
}

bool TileQueue::IsDone(uint64_t phase, int spins) const {
  for (int i = 0; i <= spins; ++i) {
    if (phases_done_.load(std::memory_order_acquire) > phase) return true;
    _mm_pause();
  }
  return false;
}

bool TileQueue::WaitShortly(uint64_t phase, int spins) const {
  if (phases_done_.load(std::memory_order_acquire) > phase) return true;
  const StageTimer timer(Stage::kWaiting);
  return IsDone(phase, spins);
}

void TileQueue::WaitFor(uint64_t phase) {
  const StageTimer timer(Stage::kWaiting);
  // The thread that asks the caller whether to go on does so while it waits, too.
  const timespec until_question{0, 100'000'000};
  const timespec* timeout = execution_.Asks() ? &until_question : nullptr;
  while (!IsDone(phase, kSpinsBeforeSleep)) {
    const uint32_t bell = bell_.load();
    sleepers_.fetch_add(1);
    if (phases_done_.load() <= phase) Futex(&bell_, FUTEX_WAIT, bell, timeout);
    sleepers_.fetch_sub(1);
    execution_.GoesOn();
  }
}

}  // namespace fused_rnn
