// The product of a few rows with packed panels: the inner loop of every recurrent step. Compiled
// once per instruction set (see kernels.cc).
//
// A tile of MR rows x NV panels of V columns stays in registers for a whole pass over k: MR*NV
// accumulators, NV vectors of the panels, one broadcast element of `a`. Per k that is MR + NV loads
// for MR*NV multiply-adds.
#ifndef FUSED_RNN_KERNELS_PANEL_GEMM_INL_H_
#define FUSED_RNN_KERNELS_PANEL_GEMM_INL_H_

#include "kernels/kernel_table.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

constexpr int kMaxRows = kAccumulators / 2;
// Up to kMaxFlatRows rows, tiles are four panels wide: two panels would be too few sums to cover
// the latency of a multiply-add. Four vectors of panels and one of `a` need registers beside the
// sums.

// Elements of k in one pass: a pair of panels of this length and the rows of `a` stay in the
// second-level cache while all row tiles use them.
constexpr int64_t kPassK = 1024;

// With fewer rows the loop runs at the speed of the cache that holds the panels, and a prefetch is
// one more request for it (measured: 25 % slower at 1 to 4 rows).
constexpr int64_t kLeastRowsToPrefetch = 8;

// One tile over k in [0, K). panel_ld: distance of panels. Of the NV panels at `prefetch`, it
// fetches the first, or all.
template <typename Format, int MR, int NV, typename Real = typename Format::Real,
          typename Packed = typename Format::Packed>
void Tile(int64_t K, const Real* a, int64_t a_ld, const Packed* panels, int64_t panel_ld, Real* c,
          int64_t c_ld, bool accumulate, const Packed* prefetch, bool prefetch_all) {
  constexpr int V = kLanes<Real>;
  Vec<Real> acc[MR][NV];
#pragma GCC unroll 32
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      acc[r][v] = accumulate ? LoadAll(c + r * c_ld + v * V) : Vec<Real>{};
    }
  }
  // Rows are addressed as base + {0, 1, 2} * ld with a base for every third row: MR pointers would
  // not fit the registers.
  constexpr int kBases = (MR + 2) / 3;
  const Real* base[kBases];
#pragma GCC unroll 32
  for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * a_ld;
#pragma GCC unroll 2
  for (int64_t k = 0; k < K; ++k) {
    Vec<Real> b[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      b[v] = LoadWeights(panels + v * panel_ld + k * V);
      if (prefetch != nullptr && (v == 0 || prefetch_all)) {
        __builtin_prefetch(prefetch + v * panel_ld + k * V, 0, 2);
      }
    }
#pragma GCC unroll 32
    for (int r = 0; r < MR; ++r) {
      const Vec<Real> element = Broadcast(base[r / 3][(r % 3) * a_ld + k]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = element * b[v] + acc[r][v];
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) StoreAll(c + r * c_ld + v * V, acc[r][v]);
  }
}

template <typename Format, typename Real = typename Format::Real,
          typename Packed = typename Format::Packed>
using TileFunction = void (*)(int64_t, const Real*, int64_t, const Packed*, int64_t, Real*, int64_t,
                              bool, const Packed*, bool);

// The tile of `rows` rows, 1 <= rows <= MR.
template <typename Format, int MR, int NV>
inline TileFunction<Format> SelectTile(int64_t rows) {
  if constexpr (MR > 1) {
    if (rows < MR) return SelectTile<Format, MR - 1, NV>(rows);
  }
  return Tile<Format, MR, NV>;
}

// NV adjacent panels, all rows; tiles of at most MR rows.
template <typename Format, int MR, int NV>
void PanelGroup(const PanelGemmArgs<Format>& args, int64_t panel) {
  using Packed = typename Format::Packed;
  constexpr int V = kLanes<typename Format::Real>;
  // Row tiles of equal height: 20 rows are 10 + 10, not 14 + 6.
  const int64_t tiles = (args.rows + MR - 1) / MR;
  const int64_t panel_ld = Format::kPanel.Size(args.K, V);
  for (int64_t k = 0; k < args.K; k += kPassK) {
    const int64_t length = args.K - k < kPassK ? args.K - k : kPassK;
    const int64_t offset = panel * panel_ld + Format::kPanel.Index(k, 0, V);
    const Packed* prefetch = args.prefetch != nullptr && args.rows >= kLeastRowsToPrefetch
                                 ? args.prefetch + offset
                                 : nullptr;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = args.rows * t / tiles;
      const int64_t rows = args.rows * (t + 1) / tiles - row;
      // A core has few requests under way at a time, and a tile needs some for its own panels; so
      // row tiles share what is to be fetched, a panel each (measured: 3 % faster than all at
      // once).
      const bool alone = tiles == 1;
      const bool fetches = prefetch != nullptr && (alone || t < NV);
      SelectTile<Format, MR, NV>(rows)(
          length, args.a + row * args.a_ld + k, args.a_ld, args.panels + offset, panel_ld,
          args.c + row * args.c_ld + panel * V, args.c_ld, args.accumulate || k > 0,
          fetches ? prefetch + t * panel_ld : nullptr, alone);
    }
  }
}

template <typename Format>
void PanelGemm(const PanelGemmArgs<Format>& args) {
  int64_t panel = 0;
  if (args.rows <= kMaxFlatRows) {
    for (; panel + 4 <= args.count; panel += 4) {
      PanelGroup<Format, kMaxFlatRows, 4>(args, panel);
    }
  }
  for (; panel + 2 <= args.count; panel += 2) PanelGroup<Format, kMaxRows, 2>(args, panel);
  if (panel < args.count) PanelGroup<Format, kMaxRows, 1>(args, panel);
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_PANEL_GEMM_INL_H_
