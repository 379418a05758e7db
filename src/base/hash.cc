// A hash of tensors' contents.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/team.h"
#include "fused_rnn/measure.h"

namespace fused_rnn {
namespace {

constexpr uint64_t kMix = 0x9E3779B97F4A7C15u;  // 2^64 over the golden ratio, odd

// Both halves of the product: a change of the highest bit alone would stay in the highest bit of
// the lower half, and the next word of its lane could undo it.
uint64_t Mixed(uint64_t value) {
  const auto product = static_cast<unsigned __int128>(value) * kMix;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Several words at a time, whose products do not wait for each other. The same data have another
// hash as another piece.
uint64_t HashOfPiece(const char* data, size_t bytes, uint64_t piece) {
  constexpr size_t kLanes = 8, kStride = kLanes * sizeof(uint64_t);
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = Mixed(piece * kLanes + i + 1);
  const auto mix = [&](const char* from, size_t count) {
    uint64_t words[kLanes] = {};
    std::memcpy(words, from, count);
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = Mixed(lanes[i] ^ words[i]) + kMix;  // or a lane at 0 would stay there
    }
  };
  const size_t whole = bytes / kStride * kStride;
  for (size_t at = 0; at < whole; at += kStride) mix(data + at, kStride);
  mix(data + whole, bytes - whole);
  uint64_t hash = bytes;
  for (uint64_t lane : lanes) hash = Mixed(hash ^ lane);
  return hash;
}

}  // namespace

uint64_t HashBytes(const void* data, size_t bytes) {
  constexpr int64_t kPiece = 1 << 20;
  const int64_t size = static_cast<int64_t>(bytes), pieces = (size + kPiece - 1) / kPiece;
  std::atomic<uint64_t> sum{bytes};
  const Execution execution;
  ParallelFor(execution, static_cast<double>(bytes), pieces, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t at = piece * kPiece;
      sum += HashOfPiece(static_cast<const char*>(data) + at, std::min(kPiece, size - at),
                         static_cast<uint64_t>(piece));
    }
  });
  return sum;
}

}  // namespace fused_rnn
