// Shares out the tiles of a long sequence of phases among the threads of a team.
//
// A recurrence is thousands of short phases (a time step, or half of one), each of which needs the
// whole result of the one before. Every thread owns the same tiles in every phase, so that their
// weights and states stay in its cache. But on a shared machine a thread may lose its core at any
// moment, and a barrier that waits for every thread would then stop them all for the length of a
// time slice. So a phase ends when its tiles are done, not when all threads have come: a thread
// that has finished its own tiles takes those that a late owner has not begun, and a thread that
// comes late finds its work done and passes on.
#ifndef FUSED_RNN_BASE_TILE_QUEUE_H_
#define FUSED_RNN_BASE_TILE_QUEUE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/execution.h"
#include "base/team.h"

namespace fused_rnn {

// How the blocks of a phase are cut: each of `lanes` owners has an equal contiguous part, cut into
// tiles of `per_tile` blocks.
class TileSplit {
 public:
  TileSplit(int64_t blocks, int64_t per_tile, int lanes)
      : blocks_(blocks), per_tile_(per_tile), lanes_(lanes) {
    for (int lane = 0; lane < lanes; ++lane) tiles_ += TilesOf(lane);
  }

  int lanes() const { return lanes_; }
  int64_t tiles() const { return tiles_; }
  Range BlocksOf(int lane) const { return Split(blocks_, lanes_, lane); }
  int64_t TilesOf(int lane) const {
    const Range own = BlocksOf(lane);
    return (own.end - own.begin + per_tile_ - 1) / per_tile_;
  }
  Range BlocksOf(int lane, int64_t tile) const {
    const Range own = BlocksOf(lane);
    return {own.begin + tile * per_tile_, std::min(own.end, own.begin + (tile + 1) * per_tile_)};
  }

 private:
  int64_t blocks_, per_tile_;
  int lanes_;
  int64_t tiles_ = 0;
};

class TileQueue {
 public:
  // Owners at most; further threads of a team only take what owners leave.
  static constexpr int kMaxLanes = 64;

  explicit TileQueue(const Execution& execution) : execution_(execution) {}

  // Runs body(lane, tile) for the tiles of `phase`, each of which is run once by one of the threads
  // that call this, and returns when all of them are done. Every thread takes the phases in rising
  // order and gives the same split for the same phase. `lane` is this thread's own, or -1 if it has
  // none. What was written in a phase is visible in the next.
  template <typename Body>
  void Run(uint64_t phase, const TileSplit& split, int lane, const Body& body) {
    if (split.tiles() == 0) return;
    if (lane >= 0) RunLane(phase, split, lane, body);
    for (int spins = kSpinsBeforeHelp; !WaitShortly(phase, spins); spins = 0) {
      bool helped = false;
      for (int other = 0; other < split.lanes() && !helped; ++other)
        helped = RunOne(phase, split, other, body);
      if (!helped) return WaitFor(phase);
    }
  }

 private:
  // A phase number and how many tiles of a lane have been taken in it, in one word.
  static constexpr int kTakenBits = 20;
  // About a microsecond: shorter than a tile, which is not worth moving for less.
  static constexpr int kSpinsBeforeHelp = 40;

  struct alignas(64) Lane {
    std::atomic<uint64_t> taken{0};
  };

  template <typename Body>
  void RunLane(uint64_t phase, const TileSplit& split, int lane, const Body& body) {
    while (RunOne(phase, split, lane, body)) {
    }
  }

  template <typename Body>
  bool RunOne(uint64_t phase, const TileSplit& split, int lane, const Body& body) {
    const int64_t tile = Take(phase, split.TilesOf(lane), lane);
    if (tile < 0) return false;
    if (execution_.GoesOn()) body(lane, tile);
    Finish(phase, split.tiles());
    return true;
  }

  // A tile of `lane` that nobody has begun, or -1.
  int64_t Take(uint64_t phase, int64_t tiles, int lane);
  void Finish(uint64_t phase, int64_t tiles);
  // Whether the phase is done, now or before so many spins.
  bool WaitShortly(uint64_t phase, int spins) const;
  bool IsDone(uint64_t phase, int spins) const;
  void WaitFor(uint64_t phase);

  const Execution& execution_;
  Lane lanes_[kMaxLanes];
  alignas(64) std::atomic<int64_t> done_{0};  // tiles of the current phase
  alignas(64) std::atomic<uint64_t> phases_done_{0};
  // Threads that wait for long sleep, so that a core is free for the one that they wait for.
  std::atomic<uint32_t> bell_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_TILE_QUEUE_H_
