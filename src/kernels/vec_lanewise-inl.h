// Lane by lane, what an instruction set has no instructions for.
#ifndef FUSED_RNN_KERNELS_VEC_LANEWISE_INL_H_
#define FUSED_RNN_KERNELS_VEC_LANEWISE_INL_H_

#include "kernels/vec_types-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

template <typename Real>
inline Vec<Real> LoadSome(const Real* p, int n) {
  Vec<Real> v{};
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <typename Real>
inline void StoreSome(Real* p, Vec<Real> v, int n) {
  for (int i = 0; i < n; ++i) p[i] = v[i];
}

template <typename Real>
inline Real SumLanes(Vec<Real> v) {
  Real sum = v[0];
#pragma GCC unroll 8
  for (int i = 1; i < kLanes<Real>; ++i) sum += v[i];
  return sum;
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_VEC_LANEWISE_INL_H_
