// Where a packed weight is: the contract between packing and the recurrent step.
//
// The columns of a right-hand matrix are cut into panels of V (the kernels' vector width), each
// holding all K rows of its columns. The recurrent weights of a forward step form, for each block
// of V hidden units, G adjacent panels (its gates), so that the thread that owns a block computes
// everything its units need.
#ifndef FUSED_RNN_RNN_PANEL_LAYOUT_H_
#define FUSED_RNN_RNN_PANEL_LAYOUT_H_

#include <algorithm>
#include <cstdint>

#include "kernels/kernel_table.h"

namespace fused_rnn {

struct PanelLayout {
  int64_t columns;  // of one gate
  int64_t gates;    // panels per block
  int64_t K;
  int64_t V;
  PanelFormula formula{};  // of the weight format

  int64_t blocks() const { return (columns + V - 1) / V; }
  int64_t panels() const { return blocks() * gates; }
  int64_t padded_columns() const { return blocks() * V; }
  int64_t size() const { return panels() * formula.Size(K, V); }  // elements
  int64_t ColumnsOf(int64_t block) const { return std::min(V, columns - block * V); }
  int64_t Offset(int64_t block, int64_t gate) const {
    return (block * gates + gate) * formula.Size(K, V);
  }
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PANEL_LAYOUT_H_
