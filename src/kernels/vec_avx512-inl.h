// Vectors of AVX-512. See vec-inl.h.
#ifndef FUSED_RNN_KERNELS_VEC_AVX512_INL_H_
#define FUSED_RNN_KERNELS_VEC_AVX512_INL_H_

#include <immintrin.h>

#include "base/half.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

constexpr int kVecBytes = 64;
constexpr int kAccumulators = 28;  // of 32 registers
constexpr int kMaxFlatRows = 5;

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#include "kernels/vec_types-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

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

template <typename Real>
inline Real SumLanes(Vec<Real> v) {
  if constexpr (sizeof(Real) == 4) {
    return _mm512_reduce_add_ps(v);
  } else {
    return _mm512_reduce_add_pd(v);
  }
}

inline Vec<float> LoadWeights(const Float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec<float> LoadWeights(const BFloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_VEC_AVX512_INL_H_
