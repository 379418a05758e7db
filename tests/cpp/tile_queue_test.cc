// How a recurrence is cut into tiles and shared out: every tile once, after the whole phase before,
// whichever threads come late or not at all.
#include "base/tile_queue.h"

#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/team.h"
#include "check.h"
#include "fused_rnn/rnn.h"
#include "rnn/recurrence.h"

namespace fused_rnn {
namespace {

void TestTileSplit() {
  for (int64_t blocks : {0, 1, 2, 5, 16, 37}) {
    for (int64_t per_tile : {1, 2, 4}) {
      for (int lanes : {1, 2, 3, 7, 40}) {
        Scope scope("blocks %d, per_tile %d, lanes %d", static_cast<int>(blocks),
                    static_cast<int>(per_tile), lanes);
        const TileSplit split(blocks, per_tile, lanes);
        CHECK_EQ(split.lanes(), lanes);
        int64_t next = 0, tiles = 0;
        for (int lane = 0; lane < lanes; ++lane) {
          for (int64_t tile = 0; tile < split.TilesOf(lane); ++tile, ++tiles) {
            const Range part = split.BlocksOf(lane, tile);
            CHECK_EQ(part.begin, next);
            CHECK(part.end > part.begin && part.end <= part.begin + per_tile);
            next = part.end;
          }
          CHECK_EQ(split.BlocksOf(lane).end, next);
        }
        CHECK_EQ(next, blocks);
        CHECK_EQ(split.tiles(), tiles);
      }
    }
  }
}

// A sequence of phases that each read all that the phase before has written, without atomics: the
// queue orders them.
class Phases {
 public:
  static constexpr int kPhases = 300;
  static constexpr int64_t kMostBlocks = 19;

  // `lanes` owners. Now and then a tile is slow, so that others wait long enough to help, and to
  // fall asleep.
  explicit Phases(int lanes) : lanes_(lanes), runs_(kPhases * kMostBlocks) {
    for (auto& half : stamps_) half.assign(kMostBlocks, -1);
  }

  void RunThread(int lane) {
    for (int phase = 0; phase < kPhases; ++phase) {
      const TileSplit split(BlocksOf(phase), 1 + phase % 3, lanes_);
      queue_.Run(static_cast<uint64_t>(phase), split, lane, [&](int owner, int64_t tile) {
        if (phase > 0) {
          for (int64_t block = 0; block < BlocksOf(phase - 1); ++block) {
            if (stamps_[(phase - 1) % 2][block] != phase - 1) ++wrong_;
          }
        }
        if ((phase * 31 + tile * 7 + owner) % 53 == 0) usleep(300);
        const Range part = split.BlocksOf(owner, tile);
        for (int64_t block = part.begin; block < part.end; ++block) {
          stamps_[phase % 2][block] = phase;
          ++runs_[phase * kMostBlocks + block];
        }
      });
    }
  }

  void Check() const {
    CHECK_EQ(wrong_.load(), 0);
    int64_t not_once = 0;
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int64_t block = 0; block < kMostBlocks; ++block) {
        not_once += runs_[phase * kMostBlocks + block].load() != (block < BlocksOf(phase) ? 1 : 0);
      }
    }
    CHECK_EQ(not_once, 0);
  }

 private:
  // Now many, now few, now none.
  static int64_t BlocksOf(int phase) {
    return phase % 5 == 3 ? 0 : phase % 7 == 2 ? 1 : kMostBlocks - phase % 4;
  }

  int lanes_;
  const Execution execution_;
  TileQueue queue_{execution_};
  std::vector<int> stamps_[2];  // of each block: the last phase of this parity that has run it
  std::vector<std::atomic<int>> runs_;
  std::atomic<int> wrong_{0};
};

// More threads than cores, more threads than owners, and owners without a thread.
void TestTileQueue() {
  for (int threads : {1, 2, 3, 9}) {
    for (int lanes : {1, 2, 4, 9}) {
      Scope scope("threads %d, lanes %d", threads, lanes);
      Phases phases(lanes);
      std::vector<std::thread> team;
      for (int thread = 0; thread < threads; ++thread) {
        team.emplace_back(
            [&phases, thread, lanes] { phases.RunThread(thread < lanes ? thread : -1); });
      }
      for (std::thread& thread : team) thread.join();
      phases.Check();
      // One that comes when all is done finds nothing to do.
      phases.RunThread(lanes - 1);
      phases.RunThread(-1);
      phases.Check();
    }
  }
}

// In each direction and phase every block is computed once, in tiles whose `next` is one of the
// same owner's.
void TestRunDirections() {
  constexpr int64_t kBlocks = 23, kPerTile = 2;
  constexpr int kPhases = 40;
  for (int threads : {1, 2, 3, 7}) {
    for (int64_t D : {1, 2}) {
      Scope scope("threads %d, D %d", threads, static_cast<int>(D));
      SetNumThreads(threads);
      std::vector<std::atomic<int>> runs(2 * kPhases * kBlocks);
      std::atomic<int> wrong{0};
      RunDirections(Execution(), D, 1e12, 1e12, [&](int64_t d, DirectionPhases& phases) {
        for (int phase = 0; phase < kPhases; ++phase) {
          phases.Run(kBlocks, kPerTile, OrderOfStep(phase), [&](BlockTile tile) {
            wrong +=
                tile.count < 1 || tile.count > kPerTile || tile.next < 0 || tile.next >= kBlocks;
            for (int64_t block = tile.begin; block < tile.begin + tile.count; ++block) {
              ++runs[(d * kPhases + phase) * kBlocks + block];
              if (phase > 0)
                wrong += runs[(d * kPhases + phase - 1) * kBlocks + (block + 1) % kBlocks] != 1;
            }
          });
        }
      });
      CHECK_EQ(wrong.load(), 0);
      int64_t not_once = 0;
      for (size_t i = 0; i < runs.size(); ++i)
        not_once += runs[i] != (static_cast<int64_t>(i) < D * kPhases * kBlocks ? 1 : 0);
      CHECK_EQ(not_once, 0);
    }
  }
  SetNumThreads(0);
}

void TestRowRuns() {
  for (int64_t begin : {0, 3}) {
    for (int64_t rows : {0, 1, 39, 40, 41, 80, 81, 1000}) {
      int64_t next = begin, shortest = rows, longest = 0;
      ForEachRowRun(begin, begin + rows, [&](int64_t row, int64_t count) {
        CHECK_EQ(row, next);
        next += count;
        shortest = std::min(shortest, count);
        longest = std::max(longest, count);
      });
      CHECK_EQ(next, begin + rows);
      CHECK(longest <= kTileRows && longest - shortest <= 1);
    }
  }
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestTileSplit();
  TestTileQueue();
  TestRunDirections();
  TestRowRuns();
  return TestResult();
}
