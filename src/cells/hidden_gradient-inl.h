// What the backward arithmetic of all cells begins with. Compiled once per instruction set (see
// kernels.cc).
#ifndef FUSED_RNN_CELLS_HIDDEN_GRADIENT_INL_H_
#define FUSED_RNN_CELLS_HIDDEN_GRADIENT_INL_H_

#include "cells/cell.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// dh of one row and block: the sum of its parts, as far as they are there.
template <typename Real, typename AnyLanes>
inline Vec<Real> HiddenGradient(const CellBackwardArgs<Real>& args, AnyLanes lanes, int64_t row,
                                int64_t unit) {
  const Rows<const Real>& head = args.in[BackwardIn::kHeadGradient];
  const Rows<const Real>& tile = args.in[BackwardIn::kTile];
  const Rows<const Real>& carry = args.in[BackwardIn::kCarry];
  Vec<Real> dh{};
  if (head.data != nullptr) dh = lanes.Load(head.At(row) + unit);
  if (tile.data != nullptr) dh += LoadAll(tile.At(row) + unit);
  if (carry.data != nullptr) dh += lanes.Load(carry.At(row) + unit);
  return dh;
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_CELLS_HIDDEN_GRADIENT_INL_H_
