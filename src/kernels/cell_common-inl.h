// What the backward gate arithmetic of all cells shares. Compiled once per instruction set (see
// kernels.cc).
#ifndef FUSED_RNN_KERNELS_CELL_COMMON_INL_H_
#define FUSED_RNN_KERNELS_CELL_COMMON_INL_H_

#include "kernels/kernel_table.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// dh = dy + tile + carry of one row and block, each where it is there.
template <typename Real, typename AnyLanes>
inline Vec<Real> HiddenGradient(const CellBackwardArgs<Real>& args, AnyLanes lanes, int64_t row,
                                int64_t unit) {
  Vec<Real> dh{};
  if (args.dy != nullptr) dh = lanes.Load(args.dy + row * args.dy_ld + unit);
  if (args.tile != nullptr) dh += LoadAll(args.tile + row * args.tile_ld + unit);
  if (args.carry != nullptr) dh += lanes.Load(args.carry + row * args.carry_ld + unit);
  return dh;
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_CELL_COMMON_INL_H_
