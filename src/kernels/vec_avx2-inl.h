// Vectors of AVX2, with FMA and F16C. See vec-inl.h.
#ifndef FUSED_RNN_KERNELS_VEC_AVX2_INL_H_
#define FUSED_RNN_KERNELS_VEC_AVX2_INL_H_

#include <immintrin.h>

#include "base/half.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

constexpr int kVecBytes = 32;
constexpr int kAccumulators = 12;  // of 16 registers
constexpr int kMaxFlatRows = 2;

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#include "kernels/vec_lanewise-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

inline Vec<float> LoadWeights(const Float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vec<float> LoadWeights(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_VEC_AVX2_INL_H_
