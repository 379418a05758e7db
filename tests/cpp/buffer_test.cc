// The pool of the operator's buffers, where small allocations fail.
#include "mxnet/buffer.h"

#include <cstdlib>
#include <memory>
#include <new>

#include "check.h"
#include "mxnet/buffer.cc"  // which is part of the operator's library, of which nothing is exported

namespace {

bool allocations_fail = false;

void* Allocated(size_t bytes) {
  void* memory = allocations_fail ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocated(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace fused_rnn {
namespace mx {
namespace {

int64_t AllLive() { return LiveBytes(BufferKind::kWorkspace) + LiveBytes(BufferKind::kReserve); }

// Buffers end in destructors: to give memory back needs none.
void TestReleaseNeedsNoMemory() {
  constexpr int kBuffers = 100;
  for (const size_t bytes : {size_t{1000}, size_t{5} << 20}) {
    const auto buffers = std::make_unique<std::unique_ptr<Buffer>[]>(kBuffers);
    for (int i = 0; i < kBuffers; ++i) {
      buffers[i] = std::make_unique<Buffer>(i % 2 ? BufferKind::kReserve : BufferKind::kWorkspace);
      CHECK(buffers[i]->Resize(bytes) != nullptr);
    }
    CHECK(AllLive() >= static_cast<int64_t>(kBuffers * bytes));
    allocations_fail = true;
    for (int i = 0; i < kBuffers; ++i) buffers[i].reset();
    allocations_fail = false;
    CHECK_EQ(AllLive(), 0);
    ReleaseSpareMemory();
  }
}

// A failed request leaves the pool as it was.
void TestFailedRequests() {
  Buffer buffer(BufferKind::kWorkspace);
  CHECK_THROWS(buffer.Resize(size_t{1} << 62), "4611686018427387904 bytes");
  CHECK(buffer.data() == nullptr);
  CHECK_EQ(AllLive(), 0);
  CHECK(buffer.Resize(100) != nullptr);
  CHECK_THROWS(buffer.Resize(size_t{1} << 62), "4611686018427387904 bytes");
  CHECK_EQ(AllLive(), 0);
  CHECK(buffer.Resize(100) != nullptr);
  buffer.Release();
  CHECK_EQ(AllLive(), 0);
}

}  // namespace
}  // namespace mx
}  // namespace fused_rnn

int main() {
  fused_rnn::mx::TestReleaseNeedsNoMemory();
  fused_rnn::mx::TestFailedRequests();
  return fused_rnn::TestResult();
}
