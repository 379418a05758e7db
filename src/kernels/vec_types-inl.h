// The vector types of kVecBytes, which the header that includes this one has defined, and what
// GCC's extension can spell of them.
#ifndef FUSED_RNN_KERNELS_VEC_TYPES_INL_H_
#define FUSED_RNN_KERNELS_VEC_TYPES_INL_H_

#include <cstdint>

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

template <typename Real>
struct RealTraits;

template <>
struct RealTraits<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kSignBit = Bits{1} << 31;
};

template <>
struct RealTraits<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kSignBit = Bits{1} << 63;
};

template <typename Real>
struct VecTypes {
  typedef Real Vec __attribute__((vector_size(kVecBytes)));
  typedef Real Unaligned __attribute__((vector_size(kVecBytes), aligned(alignof(Real)), may_alias));
  typedef typename RealTraits<Real>::Bits Bits __attribute__((vector_size(kVecBytes)));
};

template <typename Real>
using Vec = typename VecTypes<Real>::Vec;
template <typename Real>
using BitsVec = typename VecTypes<Real>::Bits;

template <typename Real>
constexpr int kLanes = kVecBytes / static_cast<int>(sizeof(Real));

template <typename Real>
inline Vec<Real> Broadcast(Real value) {
  return value - Vec<Real>{};
}

template <typename Real>
inline Vec<Real> LoadAll(const Real* p) {
  return *reinterpret_cast<const typename VecTypes<Real>::Unaligned*>(p);
}

template <typename Real>
inline void StoreAll(Real* p, Vec<Real> v) {
  *reinterpret_cast<typename VecTypes<Real>::Unaligned*>(p) = v;
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_VEC_TYPES_INL_H_
