// Vectors of x86-64's baseline. See vec-inl.h.
#ifndef FUSED_RNN_KERNELS_VEC_SSE2_INL_H_
#define FUSED_RNN_KERNELS_VEC_SSE2_INL_H_

#include "base/half.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

constexpr int kVecBytes = 16;
constexpr int kAccumulators = 8;  // of 16 registers; without FMA a product needs a register too
constexpr int kMaxFlatRows = 2;

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#include "kernels/vec_lanewise-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

template <typename Half>
inline Vec<float> LoadHalves(const Half* p) {
  Vec<float> v{};
  for (int i = 0; i < kLanes<float>; ++i) v[i] = Widen(p[i]);
  return v;
}
inline Vec<float> LoadWeights(const Float16* p) { return LoadHalves(p); }
inline Vec<float> LoadWeights(const BFloat16* p) { return LoadHalves(p); }

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_VEC_SSE2_INL_H_
