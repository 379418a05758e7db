// The 16-bit storage types and their conversion, round to nearest even. Arithmetic is float32
// everywhere.
#ifndef FUSED_RNN_BASE_HALF_H_
#define FUSED_RNN_BASE_HALF_H_

#include <cstdint>

namespace fused_rnn {

struct Float16 {  // IEEE 754 binary16
  uint16_t bits;
};
struct BFloat16 {  // the upper half of a float32
  uint16_t bits;
};

// In an unnamed namespace because kernels.cc includes this for every instruction set, and a copy
// compiled for one set must not serve the others.
namespace {

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

inline float FloatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

// The types computed with stay as they are.
inline float Widen(float value) { return value; }
inline double Widen(double value) { return value; }

inline float Widen(BFloat16 half) { return FloatOf(static_cast<uint32_t>(half.bits) << 16); }

// By integers as far as subnormals go: with flush-to-zero set, float operations on them would give
// 0.
inline float Widen(Float16 half) {
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000) << 16;
  const uint32_t exponent = half.bits >> 10 & 31, mantissa = half.bits & 0x3ff;
  if (exponent == 31) return FloatOf(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return FloatOf(sign | (exponent + 112) << 23 | mantissa << 13);
  return FloatOf(sign | BitsOf(static_cast<float>(mantissa) * 0x1p-24f));
}

inline void Narrow(float value, BFloat16* half) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  half->bits = static_cast<uint16_t>(nan ? bits >> 16 | 0x40 : rounded);
}

inline void Narrow(float value, Float16* half) {
  const uint32_t bits = BitsOf(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t result;
  if (magnitude > 0x7f800000) {
    result = 0x7e00;  // NaN
  } else if (magnitude >= 0x477ff000) {
    result = 0x7c00;  // rounds beyond the largest number
  } else if (magnitude >= 0x38800000) {
    result = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else {
    // Subnormal: a multiple of 2^-24. Adding 0.5 leaves that multiple, rounded, in the low bits.
    result = BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f);
  }
  half->bits = static_cast<uint16_t>(sign | result);
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_HALF_H_
