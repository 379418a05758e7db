// Which part of a layer's recurrence a thread of the team owns.
#ifndef FUSED_RNN_RNN_TEAM_SHARE_H_
#define FUSED_RNN_RNN_TEAM_SHARE_H_

#include <algorithm>

#include "base/team.h"

namespace fused_rnn {

// The panel blocks of both directions are laid end to end and cut into equal contiguous parts. So a
// thread keeps the same hidden units for all steps, and with an even team each half of it has one
// direction and never waits for the other half.
class TeamShare {
 public:
  // `blocks` of each of the D directions, and as many `projection_blocks` as are to be shared out
  // in the same way (or 0).
  TeamShare(int64_t D, int64_t blocks, int64_t projection_blocks, int thread, int team)
      : D_(D), thread_(thread) {
    for (int64_t d = 0; d < D; ++d) {
      blocks_[d] = Part(D, blocks, d, thread, team);
      projection_blocks_[d] = Part(D, projection_blocks, d, thread, team);
      for (int other = 0; other < team; ++other) {
        const Range a = Part(D, blocks, d, other, team),
                    b = Part(D, projection_blocks, d, other, team);
        const bool takes_part = a.begin < a.end || b.begin < b.end;
        participants_[d] += takes_part;
        if (other == thread) takes_part_[d] = takes_part;
      }
    }
  }

  int64_t D() const { return D_; }
  int thread() const { return thread_; }
  Range blocks(int64_t d) const { return blocks_[d]; }
  Range projection_blocks(int64_t d) const { return projection_blocks_[d]; }

  // Waits for the other threads of the directions that this one takes part in. barriers [D].
  void Wait(SpinBarrier* barriers) const {
    for (int64_t d = 0; d < D_; ++d) {
      if (takes_part_[d]) barriers[d].Wait(participants_[d]);
    }
  }

 private:
  static Range Part(int64_t D, int64_t blocks, int64_t d, int thread, int team) {
    const Range all = Split(D * blocks, team, thread);
    const int64_t begin = std::max(all.begin, d * blocks),
                  end = std::min(all.end, (d + 1) * blocks);
    return {begin - d * blocks, std::max(begin, end) - d * blocks};
  }

  int64_t D_;
  int thread_;
  Range blocks_[2], projection_blocks_[2];
  int participants_[2] = {0, 0};
  bool takes_part_[2] = {false, false};
};

// Panels that are computed before their epilogue runs, and rows of them: their products, at most
// kTilePanels x kTileRows vectors (kMaxTileBytes), stay in the first-level cache between the two.
constexpr int64_t kTilePanels = 4;
constexpr int64_t kTileRows = 40;
constexpr int64_t kMaxTileBytes = 2 * kTilePanels * kTileRows * 64;

// Blocks of `gates` panels that make up a tile: about kTilePanels panels, an even number so that
// panels pair up.
inline int64_t BlocksPerTile(int64_t gates) { return gates == 3 ? 2 : kTilePanels / gates; }

// Cuts `blocks` into tiles and rows [begin, end) into runs of at most kTileRows.
template <typename Body>
void ForEachTile(Range blocks, int64_t blocks_per_tile, const Body& body) {
  for (int64_t b = blocks.begin; b < blocks.end; b += blocks_per_tile) {
    body(b, std::min(blocks_per_tile, blocks.end - b));
  }
}

template <typename Body>
void ForEachRowRun(int64_t begin, int64_t end, const Body& body) {
  const int64_t runs = (end - begin + kTileRows - 1) / kTileRows;
  for (int64_t i = 0; i < runs; ++i) {
    const Range run = Split(end - begin, static_cast<int>(runs), static_cast<int>(i));
    body(begin + run.begin, run.end - run.begin);
  }
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_TEAM_SHARE_H_
