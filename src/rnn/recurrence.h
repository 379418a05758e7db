// How the steps of a layer's recurrence are shared out among threads and cut into tiles.
#ifndef FUSED_RNN_RNN_RECURRENCE_H_
#define FUSED_RNN_RNN_RECURRENCE_H_

#include <algorithm>

#include "base/tile_queue.h"

namespace fused_rnn {

// Panels that are computed before their epilogue runs, and rows of them: their products, at most
// kTilePanels x kTileRows vectors (kMaxTileBytes), stay in the first-level cache between the two.
constexpr int64_t kTilePanels = 4;
constexpr int64_t kTileRows = 40;
constexpr int64_t kMaxTileBytes = 2 * kTilePanels * kTileRows * 64;

// Blocks of `gates` panels that make up a tile of `rows` rows: about kTilePanels panels, an even
// number so that panels pair up. Of few rows more blocks, for the gate arithmetic of several
// vectors hides its own latency (measured at 1 to 4 rows: 3 to 10 % of an LSTM's step).
inline int64_t BlocksPerTile(int64_t gates, int64_t rows) {
  constexpr int64_t kFewRows = 4;
  if (rows <= kFewRows) return 4;
  return gates == 3 ? 2 : kTilePanels / gates;
}

// Cuts rows [begin, end) into runs of at most kTileRows, of equal size within one.
template <typename Body>
void ForEachRowRun(int64_t begin, int64_t end, const Body& body) {
  const int64_t runs = (end - begin + kTileRows - 1) / kTileRows;
  for (int64_t i = 0; i < runs; ++i) {
    const Range run = Split(end - begin, static_cast<int>(runs), static_cast<int>(i));
    body(begin + run.begin, run.end - run.begin);
  }
}

// Asks for `rows` pieces of `length` elements, ld apart, which the hardware does not foresee.
template <typename Real>
void PrefetchRows(const Real* data, int64_t ld, int64_t rows, int64_t length) {
  constexpr int64_t kLine = 64 / sizeof(Real);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < length; j += kLine) __builtin_prefetch(data + i * ld + j, 1, 2);
  }
}

// The blocks of a tile, and where those begin that its owner computes next (their panels are
// fetched meanwhile).
struct BlockTile {
  int64_t begin, count;
  int64_t next;
};

// The order in which an owner takes its tiles. Where a step's weights do not fit its cache, reading
// them to and fro leaves there what was read last, so that a part of every step need not be fetched
// again; from the first to the last each time, every piece would be replaced before it is needed.
enum class Order { kForth, kBack };

inline Order OrderOfStep(int64_t step) { return step % 2 == 0 ? Order::kForth : Order::kBack; }

// Tile i of an owner's `tiles` tiles, which make up its blocks `own`.
inline BlockTile TileOf(Range own, int64_t per_tile, int64_t tiles, int64_t i, Order order) {
  const bool forth = order == Order::kForth;
  const auto begin_of = [&](int64_t k) {
    return own.begin + (forth ? k : tiles - 1 - k) * per_tile;
  };
  const int64_t begin = begin_of(i);
  // The last one is also the first of the next step, if that turns.
  return {begin, std::min(per_tile, own.end - begin), begin_of(std::min(i + 1, tiles - 1))};
}

// Phases on the calling thread alone.
class SerialPhases {
 public:
  explicit SerialPhases(const Execution& execution) : execution_(execution) {}

  template <typename Body>
  void Run(int64_t blocks, int64_t per_tile, Order order, const Body& body) {
    const int64_t tiles = (blocks + per_tile - 1) / per_tile;
    for (int64_t i = 0; i < tiles && execution_.GoesOn(); ++i)
      body(TileOf({0, blocks}, per_tile, tiles, i, order));
  }

 private:
  const Execution& execution_;
};

// One direction's phases, as one thread of the team sees them.
class DirectionPhases {
 public:
  // `lanes` threads own blocks; `lane` is this thread's, or -1.
  DirectionPhases(const Execution& execution, TileQueue* queue, int lanes, int lane,
                  double step_work)
      : execution_(execution),
        queue_(queue),
        lanes_(lanes),
        lane_(lane),
        steps_alone_(execution.TeamSizeFor(/*work=*/1e30, step_work) == 1) {}

  // The next phase: body(BlockTile) for tiles of `per_tile` out of `blocks` blocks.
  template <typename Body>
  void Run(int64_t blocks, int64_t per_tile, Order order, const Body& body) {
    const TileSplit split(blocks, per_tile, lanes_);
    queue_->Run(phase_++, split, lane_, [&](int lane, int64_t tile) {
      body(TileOf(split.BlocksOf(lane), per_tile, split.TilesOf(lane), tile, order));
    });
  }

  // steps(phases), where `steps` runs a series of phases: by the team, or, if they are so small
  // that threads would wait for each other longer than they work, by one of its threads.
  template <typename Steps>
  void RunSteps(const Steps& steps) {
    if (!steps_alone_) return steps(*this);
    Run(/*blocks=*/1, /*per_tile=*/1, Order::kForth, [&](BlockTile) {
      SerialPhases serial(execution_);
      steps(serial);
    });
  }

 private:
  const Execution& execution_;
  TileQueue* queue_;
  int lanes_, lane_;
  bool steps_alone_;
  uint64_t phase_ = 0;
};

// Runs recurrence(d, phases) for the D directions on a team fit for `work` multiply-adds in all,
// with phases fit for steps of `step_work`. With two directions each half of the team owns one of
// them; who has finished its own helps in the other.
template <typename Recurrence>
void RunDirections(const Execution& execution, int64_t D, double work, double step_work,
                   const Recurrence& recurrence) {
  TileQueue queues[2] = {TileQueue(execution), TileQueue(execution)};
  RunTeam(execution.TeamSizeFor(work), [&](int thread, int team) {
    const int first = D == 2 && team > 1 ? (team + 1) / 2 : team;  // owners of direction 0
    const int home = thread < first ? 0 : 1;
    for (int64_t i = 0; i < D; ++i) {
      const int64_t d = D == 1 ? 0 : (home + i) % 2;
      const int owners = team == 1 ? 1 : d == 0 ? first : team - first;
      const int lane = d == home ? thread - (home == 0 ? 0 : first) : team == 1 ? 0 : -1;
      const int lanes = std::min(owners, TileQueue::kMaxLanes);
      DirectionPhases phases(execution, &queues[d], lanes, lane < lanes ? lane : -1, step_work);
      recurrence(d, phases);
    }
  });
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_RECURRENCE_H_
