// Memory for reserves and workspaces, from one pool of the process.
//
// An imperative call makes a state, runs and drops it, and a workspace lives for one call, so the
// memory of a dropped buffer is kept for the next one: zeroing fresh pages takes 10 ms for the 87
// MB of T=300, N=20, I=H=800. Spare and live memory together never exceed the most that was ever
// live at once.
#ifndef FUSED_RNN_SRC_MXNET_BUFFER_H_
#define FUSED_RNN_SRC_MXNET_BUFFER_H_

#include <cstddef>
#include <cstdint>

namespace fused_rnn {
namespace mx {

enum class BufferKind { kWorkspace, kReserve };

// Grows, never shrinks, and does not keep its contents when it grows.
class Buffer {
 public:
  explicit Buffer(BufferKind kind) : kind_(kind) {}
  ~Buffer() { Release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Memory of at least `bytes` (never null), aligned to 64 bytes. Throws fused_rnn::Error where
  // there is none.
  void* Resize(size_t bytes);
  void* data() const { return data_; }
  // Back to the pool; a buffer does so by itself when it ends.
  void Release() noexcept;

 private:
  BufferKind kind_;
  void* data_ = nullptr;
  size_t capacity_ = 0;
};

// Bytes of all live buffers of a kind.
int64_t LiveBytes(BufferKind kind);

// Gives spare memory back to the system.
void ReleaseSpareMemory();

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_BUFFER_H_
