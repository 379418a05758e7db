// A thin vector type: GCC's vector extension at the width of the instruction set that this build is
// for, plus the few things that it cannot spell. Compiled once per instruction set (see
// kernels.cc).
#ifndef FUSED_RNN_KERNELS_VEC_INL_H_
#define FUSED_RNN_KERNELS_VEC_INL_H_

#include <immintrin.h>

#include <cstdint>

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVecBytes = 64;
#elif defined(__AVX2__)
constexpr int kVecBytes = 32;
#else
constexpr int kVecBytes = 16;
#endif

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

// The first `n` lanes only, 1 <= n < V: nothing beyond them is read or written; the other lanes of
// a load are 0.
#if defined(__AVX512F__)
inline Vec<float> LoadSome(const float* p, int n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
inline Vec<double> LoadSome(const double* p, int n) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
}
inline void StoreSome(float* p, Vec<float> v, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
}
inline void StoreSome(double* p, Vec<double> v, int n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
}
#else
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
#endif

// The units of one block that exist: all V, or the first n of the last block. kAll is a template
// parameter so that whole blocks carry no test.
template <typename Real, bool kAll>
struct Lanes {
  int n;
  Vec<Real> Load(const Real* p) const { return kAll ? LoadAll(p) : LoadSome(p, n); }
  void Store(Real* p, Vec<Real> v) const {
    if (kAll) {
      StoreAll(p, v);
    } else {
      StoreSome(p, v, n);
    }
  }
  void AddTo(Real* p, Vec<Real> v) const { Store(p, Load(p) + v); }
};

// Calls body(lanes, first unit, block index) for each block of V units.
template <typename Real, typename Body>
inline void ForEachBlock(int64_t units, const Body& body) {
  constexpr int V = kLanes<Real>;
  const int64_t whole = units / V;
  for (int64_t b = 0; b < whole; ++b) body(Lanes<Real, true>{V}, b * V, b);
  if (units % V != 0) body(Lanes<Real, false>{static_cast<int>(units % V)}, whole * V, whole);
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_VEC_INL_H_
