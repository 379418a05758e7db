// A thin vector type: GCC's vector extension at the width of the instruction set that this build is
// for, plus the few things that it cannot spell. Compiled once per instruction set (see
// kernels.cc).
//
// What depends on the instruction set is in a header of its own, which
// - defines kVecBytes and includes vec_types-inl.h;
// - sizes the tiles of panel_gemm-inl.h: kAccumulators, the vectors of sums that stay in registers
//   beside the operands, and kMaxFlatRows, up to which rows four panels' sums fit;
// - defines, or takes from vec_lanewise-inl.h, LoadSome(p, n) and StoreSome(p, v, n), which read
//   and write the first n lanes, 1 <= n < V, and nothing beyond them (the other lanes of a load are
//   0), and SumLanes<Real>(v);
// - defines LoadWeights(p), V elements of a 16-bit type as float32.
#ifndef FUSED_RNN_KERNELS_VEC_INL_H_
#define FUSED_RNN_KERNELS_VEC_INL_H_

#include <cstdint>

#if defined(__AVX512F__)
#include "kernels/vec_avx512-inl.h"
#elif defined(__AVX2__)
#include "kernels/vec_avx2-inl.h"
#else
#include "kernels/vec_sse2-inl.h"
#endif

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// V elements of a panel that are stored in the type computed with.
template <typename Real>
inline Vec<Real> LoadWeights(const Real* p) {
  return LoadAll(p);
}

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
