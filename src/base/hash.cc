// A hash of tensors' contents.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/team.h"
#include "fused_rnn/measure.h"

namespace fused_rnn {
namespace {

constexpr uint64_t kMix = 0x9E3779B97F4A7C15u;  // 2^64 over the golden ratio, odd

// Several words at a time, whose products do not wait for each other.
uint64_t HashOfPiece(const char* data, size_t bytes) {
  constexpr size_t kLanes = 8, kStride = kLanes * sizeof(uint64_t);
  uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto mix = [&](const char* from, size_t count) {
    uint64_t words[kLanes] = {};
    std::memcpy(words, from, count);
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * kMix;
      lanes[i] ^= lanes[i] >> 32;
    }
  };
  const size_t whole = bytes / kStride * kStride;
  for (size_t at = 0; at < whole; at += kStride) mix(data + at, kStride);
  mix(data + whole, bytes - whole);
  uint64_t hash = bytes;
  for (uint64_t lane : lanes) hash = (hash ^ lane) * kMix;
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
      const uint64_t hash =
          HashOfPiece(static_cast<const char*>(data) + at, std::min(kPiece, size - at));
      sum += (hash ^ static_cast<uint64_t>(piece)) * kMix;  // the order of pieces counts
    }
  });
  return sum;
}

}  // namespace fused_rnn
