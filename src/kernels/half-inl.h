// 16-bit storage on vectors. Compiled once per instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_HALF_INL_H_
#define FUSED_RNN_KERNELS_HALF_INL_H_

#include "base/half.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// V elements of a panel as the type computed with.
template <typename Real>
inline Vec<Real> LoadWeights(const Real* p) {
  return LoadAll(p);
}

#if defined(__AVX512F__)
inline Vec<float> LoadWeights(const Float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec<float> LoadWeights(const BFloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
#elif defined(__AVX2__)
inline Vec<float> LoadWeights(const Float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vec<float> LoadWeights(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
#else
template <typename Half>
inline Vec<float> LoadHalves(const Half* p) {
  Vec<float> v{};
  for (int i = 0; i < kLanes<float>; ++i) v[i] = Widen(p[i]);
  return v;
}
inline Vec<float> LoadWeights(const Float16* p) { return LoadHalves(p); }
inline Vec<float> LoadWeights(const BFloat16* p) { return LoadHalves(p); }
#endif

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
