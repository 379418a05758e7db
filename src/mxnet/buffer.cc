#include "buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "fused_rnn/rnn.h"

namespace fused_rnn {
namespace mx {
namespace {

constexpr size_t kAlignment = 64;
// From this size on, blocks are aligned to huge pages and ask for them.
constexpr size_t kHugePage = size_t{2} << 20;

struct Block {
  void* data;
  size_t capacity;
};

class Pool {
 public:
  // A pool that lives as long as the process: states may end after static destructors ran.
  static Pool& Get() {
    static Pool* pool = new Pool;
    return *pool;
  }

  Block Acquire(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto best = spares_.end();
    for (auto spare = spares_.begin(); spare != spares_.end(); ++spare) {
      // A block of twice the size is too good for this request.
      const bool fits = spare->capacity >= bytes && spare->capacity / 2 <= bytes;
      if (fits && (best == spares_.end() || spare->capacity < best->capacity)) best = spare;
    }
    Block block;
    if (best != spares_.end()) {
      block = *best;
      spares_.erase(best);
      spare_bytes_ -= block.capacity;
    } else {
      DropSparesBeyond(live_bytes_ + bytes);
      block = Allocate(bytes);
    }
    live_bytes_ += block.capacity;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    return block;
  }

  void Release(Block block) {
    std::lock_guard<std::mutex> lock(mutex_);
    live_bytes_ -= block.capacity;
    spares_.push_back(block);
    spare_bytes_ += block.capacity;
  }

  void DropSpares() {
    std::lock_guard<std::mutex> lock(mutex_);
    peak_bytes_ = live_bytes_;
    DropSparesBeyond(live_bytes_);
  }

 private:
  // Oldest first, until `live` bytes and the remaining spares stay within the peak.
  void DropSparesBeyond(size_t live) {
    auto kept = spares_.begin();
    while (kept != spares_.end() && live + spare_bytes_ > peak_bytes_) {
      spare_bytes_ -= kept->capacity;
      std::free(kept->data);
      ++kept;
    }
    spares_.erase(spares_.begin(), kept);
  }

  static Block Allocate(size_t bytes) {
    const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
    const size_t capacity = (bytes + alignment - 1) / alignment * alignment;
    void* data = capacity < bytes ? nullptr : std::aligned_alloc(alignment, capacity);
    if (data == nullptr) {
      throw Error(("no memory for a buffer of " + std::to_string(bytes) + " bytes").c_str());
    }
    if (alignment == kHugePage) madvise(data, capacity, MADV_HUGEPAGE);
    return {data, capacity};
  }

  std::mutex mutex_;
  std::vector<Block> spares_;
  size_t spare_bytes_ = 0;
  size_t live_bytes_ = 0;
  size_t peak_bytes_ = 0;
};

std::atomic<int64_t> live_bytes[2];

std::atomic<int64_t>& LiveCounter(BufferKind kind) { return live_bytes[static_cast<int>(kind)]; }

}  // namespace

void* Buffer::Resize(size_t bytes) {
  if (data_ == nullptr || capacity_ < bytes) {
    Release();
    const Block block = Pool::Get().Acquire(std::max<size_t>(bytes, 1));
    data_ = block.data;
    capacity_ = block.capacity;
    LiveCounter(kind_) += static_cast<int64_t>(capacity_);
  }
  return data_;
}

void Buffer::Release() {
  if (data_ == nullptr) return;
  Pool::Get().Release({data_, capacity_});
  LiveCounter(kind_) -= static_cast<int64_t>(capacity_);
  data_ = nullptr;
  capacity_ = 0;
}

int64_t LiveBytes(BufferKind kind) { return LiveCounter(kind); }

void ReleaseSpareMemory() { Pool::Get().DropSpares(); }

}  // namespace mx
}  // namespace fused_rnn
