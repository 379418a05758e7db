// Arrays of a 16-bit type to float32 and back. Compiled once per instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_HALF_INL_H_
#define FUSED_RNN_KERNELS_HALF_INL_H_

#include "base/half.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

template <typename Half>
void WidenArray(const Half* from, float* to, int64_t n) {
  constexpr int V = kLanes<float>;
  int64_t i = 0;
  for (; i + V <= n; i += V) StoreAll(to + i, LoadWeights(from + i));
  for (; i < n; ++i) to[i] = Widen(from[i]);
}

template <typename Half>
void NarrowArray(const float* from, Half* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Narrow(from[i], to + i);
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_HALF_INL_H_
