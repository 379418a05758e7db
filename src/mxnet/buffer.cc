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
constexpr size_t kHugePage = size_t{2} << 20;
// From this size on, a block is a mapping of its own, in huge pages where the system has them. What
// the C library frees often stays with the process: its heap shrinks at the end only.
constexpr size_t kLeastMapping = 2 * kHugePage;

struct Block {
  void* data;
  size_t capacity;
};

// `capacity` bytes from a huge page's start on, or null.
void* Map(size_t capacity) {
  void* mapped = mmap(nullptr, capacity + kHugePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  char* data = begin + before;
  munmap(data + capacity, kHugePage - before);
  madvise(data, capacity, MADV_HUGEPAGE);
  return data;
}

bool IsMapping(size_t capacity) { return capacity >= kLeastMapping; }

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

Block Allocate(size_t bytes) {
  size_t capacity = RoundUp(bytes, kAlignment);
  if (IsMapping(capacity)) capacity = RoundUp(capacity, kHugePage);
  void* data = nullptr;
  if (capacity >= bytes) {
    data = IsMapping(capacity) ? Map(capacity) : std::aligned_alloc(kAlignment, capacity);
  }
  if (data == nullptr) {
    throw Error(("no memory for a buffer of " + std::to_string(bytes) + " bytes").c_str());
  }
  return {data, capacity};
}

void Free(Block block) {
  if (IsMapping(block.capacity)) {
    munmap(block.data, block.capacity);
  } else {
    std::free(block.data);
  }
}

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
      Free(*kept);
      ++kept;
    }
    spares_.erase(spares_.begin(), kept);
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
