// Matrices into panels (panel_layout.h).
#ifndef FUSED_RNN_RNN_PACK_H_
#define FUSED_RNN_RNN_PACK_H_

#include <algorithm>

#include "kernels/kernel_table.h"
#include "rnn/panel_layout.h"

namespace fused_rnn {

// The panels of blocks [begin, begin + count) from w [gates*columns, K].
template <typename Real, typename Weight>
void PackBlocks(const PanelKernels<Real, Weight>& kernels, const PanelLayout& layout,
                const Weight* w, int64_t begin, int64_t count, Weight* panels) {
  for (int64_t b = begin; b < begin + count; ++b) {
    for (int64_t g = 0; g < layout.gates; ++g) {
      kernels.pack_transposed(w + (g * layout.columns + b * layout.V) * layout.K, layout.K,
                              layout.ColumnsOf(b), layout.K, panels + layout.Offset(b, g),
                              layout.V);
    }
  }
}

// K rows of adjacent panels of V columns, panel_ld elements apart, from w [K, columns]. A few rows
// for all panels at a time: the pieces of a row are neighbours in memory, and a column of pieces,
// where ld is a power of two, competes for a few places in the caches (measured at ld = 1024 and
// 2048: 1.5 and 2.2 times as fast as panel by panel).
template <typename Real, typename Weight>
void PackRows(const PanelKernels<Real, Weight>& kernels, int64_t V, const Weight* w, int64_t ld,
              int64_t K, int64_t columns, Weight* panels, int64_t panel_ld) {
  constexpr int64_t kRows = 8;
  for (int64_t k = 0; k < K; k += kRows) {
    const int64_t rows = std::min(kRows, K - k);
    for (int64_t j = 0; j < columns; j += V) {
      kernels.pack(w + k * ld + j, ld, std::min(V, columns - j), rows,
                   panels + j / V * panel_ld + k * V);
    }
  }
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PACK_H_
