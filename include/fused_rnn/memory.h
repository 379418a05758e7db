// Memory of the process's calls: workspaces, reserves and packed weights.
//
// A workspace lives for one call and a reserve from a forward to its backward, so the memory of a
// buffer that has ended is kept for the next one, whoever asks: zeroing fresh pages takes 10 ms for
// the 87 MB of T=300, N=20, I=H=800. Spare and live memory together never exceed the most that was
// ever live at once. Packed weights, which live long, go back to the system as they end. Large
// buffers are in huge pages where the system has them, from which reading is faster (measured: 10
// to 15 % where a step is bound by reading its weights).
//
// Buffers may begin and end in any thread, after static objects have ended, and in a forked process
// that has them from its parent.
#ifndef FUSED_RNN_MEMORY_H_
#define FUSED_RNN_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fused_rnn/error.h"

namespace fused_rnn {

// What a buffer is for: `kWorkspace` for one call, `kReserve` from a forward to its backward,
// `kWeights` for packed weights.
enum class MemoryKind : int { kWorkspace = 0, kReserve = 1, kWeights = 2 };
constexpr int kMemoryKinds = 3;

// Counts the live buffers of one owner, such as a front end. Must outlive them: a static object,
// which its constructor and (trivial) destructor let be used at any time.
class MemoryAccount {
 public:
  constexpr MemoryAccount() = default;
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Bytes of the live buffers of a kind.
  int64_t LiveBytes(MemoryKind kind) const { return live_[static_cast<int>(kind)]; }
  void Add(MemoryKind kind, int64_t bytes) { live_[static_cast<int>(kind)] += bytes; }

 private:
  std::atomic<int64_t> live_[kMemoryKinds] = {};
};

// Grows, never shrinks, and does not keep its contents when it grows. Not for several threads at a
// time.
class FUSED_RNN_API Buffer {
 public:
  // Without memory yet. `account` counts it; null: nobody does.
  explicit Buffer(MemoryKind kind, MemoryAccount* account = nullptr)
      : kind_(kind), account_(account) {}
  ~Buffer() { Release(); }
  Buffer(Buffer&& other) noexcept;  // which has no memory then
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Memory of at least `bytes` (never null), aligned to 64 bytes, of undefined contents. Throws
  // OutOfMemory where there is none.
  void* Resize(size_t bytes);
  // Null without memory.
  void* data() const { return data_; }
  // Back to the pool; a buffer does so by itself when it ends.
  void Release() noexcept;

 private:
  MemoryKind kind_;
  MemoryAccount* account_;
  void* data_ = nullptr;
  size_t capacity_ = 0;
};

// Gives the memory of ended buffers back to the system.
FUSED_RNN_API void ReleaseSpareMemory();

}  // namespace fused_rnn

#endif  // FUSED_RNN_MEMORY_H_
