#include "fused_rnn/memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace fused_rnn {
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

// A block without data if there is no memory.
Block Allocate(size_t bytes) {
  size_t capacity = RoundUp(bytes, kAlignment);
  if (IsMapping(capacity)) capacity = RoundUp(capacity, kHugePage);
  void* data = nullptr;
  if (capacity >= bytes) {
    data = IsMapping(capacity) ? Map(capacity) : std::aligned_alloc(kAlignment, capacity);
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

const char* PurposeOf(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kWorkspace:
      return "a workspace";
    case MemoryKind::kReserve:
      return "a reserve";
    case MemoryKind::kWeights:
      return "packed weights";
  }
  return "a buffer";
}

// Bytes that the pool has lent. Outside of the pool: it goes on counting in a forked process, whose
// pool is another.
std::atomic<size_t> lent_bytes{0};

class Pool {
 public:
  // The new block counts as lent from here on. One without data if there is no memory.
  Block Acquire(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    // For this block and all others that may come back.
    spares_.reserve(lent_blocks_ + spares_.size() + 1);
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
      DropSparesBeyond(lent_bytes + bytes);
      block = Allocate(bytes);
      if (block.data == nullptr) {  // none of the spares fits, but in their place it may
        DropSparesBeyond(peak_bytes_);
        block = Allocate(bytes);
      }
      if (block.data == nullptr) return block;
    }
    ++lent_blocks_;
    lent_bytes += block.capacity;
    peak_bytes_ = std::max(peak_bytes_, lent_bytes.load());
    return block;
  }

  // Buffers end in destructors, which may not throw.
  void Release(Block block) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    lent_bytes -= block.capacity;
    if (lent_blocks_ > 0) --lent_blocks_;
    if (spares_.size() == spares_.capacity()) {  // lent before a fork
      Free(block);
      return;
    }
    spares_.push_back(block);
    spare_bytes_ += block.capacity;
  }

  void DropSpares() {
    std::lock_guard<std::mutex> lock(mutex_);
    peak_bytes_ = lent_bytes;
    DropSparesBeyond(peak_bytes_);
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
  size_t lent_blocks_ = 0;
  size_t spare_bytes_ = 0;
  size_t peak_bytes_ = 0;
};

// The pool of this process. Never ended: buffers may end after static destructors ran.
std::atomic<Pool*> pool{new Pool};

// A thread that is not there any more may have held the old pool's lock. Its spare blocks are lost
// to the child, which has not touched them.
void RenewPool() {
  if (Pool* renewed = new (std::nothrow) Pool) pool = renewed;
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, RenewPool);

// Packed weights live long. The pool would keep their memory after them, for nobody.
bool IsPooled(MemoryKind kind) { return kind != MemoryKind::kWeights; }

Block AllocateUnpooled(size_t bytes) {
  const Block block = Allocate(bytes);
  if (block.data != nullptr) return block;
  ReleaseSpareMemory();
  return Allocate(bytes);
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : kind_(other.kind_),
      account_(other.account_),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

void* Buffer::Resize(size_t bytes) {
  if (data_ == nullptr || capacity_ < bytes) {
    Release();
    const size_t wanted = std::max<size_t>(bytes, 1);
    const Block block = IsPooled(kind_) ? pool.load()->Acquire(wanted) : AllocateUnpooled(wanted);
    if (block.data == nullptr) throw OutOfMemory(PurposeOf(kind_), bytes);
    data_ = block.data;
    capacity_ = block.capacity;
    if (account_ != nullptr) account_->Add(kind_, static_cast<int64_t>(capacity_));
  }
  return data_;
}

void Buffer::Release() noexcept {
  if (data_ == nullptr) return;
  const Block block{data_, capacity_};
  data_ = nullptr;
  capacity_ = 0;
  if (account_ != nullptr) account_->Add(kind_, -static_cast<int64_t>(block.capacity));
  if (IsPooled(kind_)) {
    pool.load()->Release(block);
  } else {
    Free(block);
  }
}

void ReleaseSpareMemory() { pool.load()->DropSpares(); }

}  // namespace fused_rnn
