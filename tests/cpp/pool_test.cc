// The pool of buffers, where small allocations fail.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "check.h"
#include "child.h"
#include "fused_rnn/memory.h"

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
namespace {

MemoryAccount account;

int64_t AllLive() {
  int64_t bytes = 0;
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    bytes += account.LiveBytes(static_cast<MemoryKind>(kind));
  }
  return bytes;
}

// Buffers end in destructors: to give memory back needs none.
void TestReleaseNeedsNoMemory() {
  constexpr int kBuffers = 100;
  for (const size_t bytes : {size_t{1000}, size_t{5} << 20}) {
    const auto buffers = std::make_unique<std::unique_ptr<Buffer>[]>(kBuffers);
    for (int i = 0; i < kBuffers; ++i) {
      buffers[i] = std::make_unique<Buffer>(static_cast<MemoryKind>(i % kMemoryKinds), &account);
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
  Buffer buffer(MemoryKind::kWorkspace, &account);
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

// Bytes of addresses that the process has.
int64_t AddressBytes() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// A spare serves whoever asks next; packed weights leave none.
void TestSpares() {
  constexpr size_t kBytes = size_t{64} << 20;
  Buffer workspace(MemoryKind::kWorkspace, &account), reserve(MemoryKind::kReserve, &account);
  const void* first = workspace.Resize(kBytes);
  workspace.Release();
  CHECK_EQ(reserve.Resize(kBytes - 1), first);
  CHECK_EQ(account.LiveBytes(MemoryKind::kReserve), static_cast<int64_t>(kBytes));
  Buffer moved(std::move(reserve));
  CHECK(reserve.data() == nullptr);
  CHECK_EQ(moved.data(), first);
  moved.Release();
  ReleaseSpareMemory();

  const int64_t before = AddressBytes();
  Buffer weights(MemoryKind::kWeights, &account);
  CHECK(weights.Resize(kBytes) != nullptr);
  CHECK(AddressBytes() >= before + static_cast<int64_t>(kBytes));
  weights.Release();
  CHECK(AddressBytes() < before + static_cast<int64_t>(kBytes) / 2);
  CHECK_EQ(AllLive(), 0);
}

// Buffers of before a fork may end, grow and be followed by others in the child.
void TestFork() {
  for (const size_t bytes : {size_t{1000}, size_t{5} << 20}) {
    Buffer before(MemoryKind::kReserve, &account), grown(MemoryKind::kWorkspace, &account);
    before.Resize(bytes);
    grown.Resize(bytes);
    CHECK(PassesInChild([&] {
      before.Release();
      CHECK(grown.Resize(3 * bytes) != nullptr);
      std::thread([&] { grown.Release(); }).join();
      CHECK_EQ(AllLive(), 0);
      Buffer after(MemoryKind::kWorkspace, &account);
      CHECK(after.Resize(bytes) != nullptr);
    }));
  }
  CHECK_EQ(AllLive(), 0);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  fused_rnn::TestReleaseNeedsNoMemory();
  fused_rnn::TestFailedRequests();
  fused_rnn::TestSpares();
  fused_rnn::TestFork();
  return fused_rnn::TestResult();
}
