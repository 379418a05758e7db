// Matrices into panels (panel_layout.h).
#ifndef FUSED_RNN_RNN_PACK_H_
#define FUSED_RNN_RNN_PACK_H_

#include <algorithm>

#include "kernels/kernel_table.h"
#include "rnn/panel_layout.h"

namespace fused_rnn {

// The panels of blocks [begin, begin + count) from w [gates*columns, K].
template <typename Format>
void PackBlocks(const PanelKernels<Format>& kernels, const PanelLayout& layout,
                const typename Format::Weight* w, int64_t begin, int64_t count,
                typename Format::Packed* panels) {
  for (int64_t b = begin; b < begin + count; ++b) {
    for (int64_t g = 0; g < layout.gates; ++g) {
      kernels.pack_transposed(w + (g * layout.columns + b * layout.V) * layout.K, layout.K,
                              layout.ColumnsOf(b), layout.K, panels + layout.Offset(b, g),
                              layout.V);
    }
  }
}

// Rows [k, k + K) of adjacent panels, of which the first is at `panels`, from w [K, columns]; k is
// a multiple of the format's group. A few rows for all panels at a time: the pieces of a row are
// neighbours in memory, and a column of pieces, where ld is a power of two, competes for a few
// places in the caches (measured at ld = 1024 and 2048: 1.5 and 2.2 times as fast as panel by
// panel).
template <typename Format>
void PackRows(const PanelKernels<Format>& kernels, const PanelLayout& layout,
              const typename Format::Weight* w, int64_t ld, int64_t k, int64_t K, int64_t columns,
              typename Format::Packed* panels) {
  constexpr int64_t kRows = 8;
  static_assert(kRows % Format::kPanel.group == 0);
  const int64_t V = layout.V, panel_ld = Format::kPanel.Size(layout.K, V);
  for (int64_t row = 0; row < K; row += kRows) {
    const int64_t rows = std::min(kRows, K - row);
    for (int64_t j = 0; j < columns; j += V) {
      kernels.pack(w + row * ld + j, ld, std::min(V, columns - j), rows,
                   panels + j / V * panel_ld + Format::kPanel.Index(k + row, 0, V));
    }
  }
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PACK_H_
