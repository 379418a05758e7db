#include "base/aligned.h"

#include <sys/mman.h>

#include <cstdlib>

namespace fused_rnn {

void* AllocateAligned(size_t bytes) {
  constexpr size_t kLine = 64, kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kLine;
  const size_t capacity = (bytes + alignment - 1) / alignment * alignment;
  if (capacity < bytes) return nullptr;
  void* data = std::aligned_alloc(alignment, capacity);
  if (data != nullptr && alignment == kHugePage) madvise(data, capacity, MADV_HUGEPAGE);
  return data;
}

}  // namespace fused_rnn
