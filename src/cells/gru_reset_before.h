// The GRU as first published (Cho et al. 2014, equations 5 to 8), whose reset gate acts before the
// recurrent product (ONNX: linear_before_reset = 0, Keras: reset_after = False): trait and
// arithmetic.
#ifndef FUSED_RNN_CELLS_GRU_RESET_BEFORE_H_
#define FUSED_RNN_CELLS_GRU_RESET_BEFORE_H_

#include "cells/cell.h"

namespace fused_rnn {

// Gates r, z in the first stage; n, which reads the value r h_{t-1}, in the second.
constexpr Cell GruResetBeforeCell() {
  Cell cell{};
  cell.name = "gru_reset_before";
  cell.gates = cell.gradients = cell.biases = 3;
  for (int gate = 0; gate < 3; ++gate) cell.bias[gate] = {gate, gate};
  cell.stages = 2;
  cell.stage_gates[0] = 2;
  cell.stage_gates[1] = 1;
  cell.keeps_gates = true;
  cell.keeps_value = true;
  cell.carries = true;
  cell.parts = 2;
  cell.part[0] = {/*stage=*/0, /*gradient=*/0, /*gate=*/0, /*count=*/2};
  cell.part[1] = {/*stage=*/1, /*gradient=*/2, /*gate=*/2, /*count=*/1};
  return cell;
}

inline constexpr Cell kGruResetBeforeCell = GruResetBeforeCell();

}  // namespace fused_rnn

#ifdef FUSED_RNN_ISA  // compiled once per instruction set (see kernels.cc)

#include "cells/hidden_gradient-inl.h"
#include "kernels/activations-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// r, z = sigmoid; the value r h_prev.
template <typename Real>
void GruResetBeforeGates(const CellForwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> tiles = args.in[ForwardIn::kTile], previous = args.in[ForwardIn::kH];
  const Rows<Real> gate_rows = args.out[ForwardOut::kGates],
                   value_rows = args.out[ForwardOut::kValue];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    const Vec<Real> bias_r = lanes.Load(args.bias + unit);
    const Vec<Real> bias_z = lanes.Load(args.bias + args.bias_stride + unit);
    for (int64_t row = 0; row < args.rows; ++row) {
      const Real* tile = tiles.At(row) + block * 2 * V;
      Real* gates = gate_rows.At(row) + block * 3 * V;
      const Vec<Real> r = Sigmoid<Real>(LoadAll(tile) + LoadAll(gates) + bias_r);
      const Vec<Real> z = Sigmoid<Real>(LoadAll(tile + V) + LoadAll(gates + V) + bias_z);
      StoreAll(value_rows.At(row) + unit, r * lanes.Load(previous.At(row) + unit));
      StoreAll(gates, r);
      StoreAll(gates + V, z);
    }
  });
}

// n = tanh; h = n + z (h_prev - n).
template <typename Real>
void GruResetBeforeOutput(const CellForwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> tiles = args.in[ForwardIn::kTile], previous = args.in[ForwardIn::kH];
  const Rows<Real> gate_rows = args.out[ForwardOut::kGates], h_rows = args.out[ForwardOut::kH];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    const Vec<Real> bias_n = lanes.Load(args.bias + 2 * args.bias_stride + unit);
    for (int64_t row = 0; row < args.rows; ++row) {
      Real* gates = gate_rows.At(row) + block * 3 * V;
      const Vec<Real> z = LoadAll(gates + V);
      const Vec<Real> n =
          Tanh<Real>(LoadAll(tiles.At(row) + block * V) + LoadAll(gates + 2 * V) + bias_n);
      lanes.Store(h_rows.At(row) + unit, n + z * (lanes.Load(previous.At(row) + unit) - n));
      if (args.keep) StoreAll(gates + 2 * V, n);
    }
  });
}

// The chain rule of the second stage, up to the gradient of the value.
template <typename Real>
void GruResetBeforeOutputBackward(const CellBackwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> gate_rows = args.in[BackwardIn::kGates],
                         previous = args.in[BackwardIn::kPreviousH];
  const Rows<Real> gradient_rows = args.out[BackwardOut::kGradients],
                   carry = args.out[BackwardOut::kCarry];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    Vec<Real> sum_z{}, sum_n{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> dh = HiddenGradient<Real>(args, lanes, row, unit);
      const Real* gates = gate_rows.At(row) + block * 3 * V;
      const Vec<Real> z = LoadAll(gates + V);
      const Vec<Real> n = LoadAll(gates + 2 * V);
      const Vec<Real> h_prev = lanes.Load(previous.At(row) + unit);
      const Vec<Real> d_n = dh * (Real(1) - z) * (Real(1) - n * n);
      const Vec<Real> d_z = dh * (h_prev - n) * z * (Real(1) - z);
      lanes.Store(carry.At(row) + unit, dh * z);
      Real* gradients = gradient_rows.At(row) + unit;
      lanes.Store(gradients + args.stride, d_z);
      lanes.Store(gradients + 2 * args.stride, d_n);
      sum_z += d_z;
      sum_n += d_n;
    }
    lanes.AddTo(args.sums + args.stride + unit, sum_z);
    lanes.AddTo(args.sums + 2 * args.stride + unit, sum_n);
  });
}

// The chain rule of the value r h_prev, whose gradient is the tile.
template <typename Real>
void GruResetBeforeGatesBackward(const CellBackwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> tiles = args.in[BackwardIn::kTile],
                         gate_rows = args.in[BackwardIn::kGates],
                         previous = args.in[BackwardIn::kPreviousH];
  const Rows<Real> gradient_rows = args.out[BackwardOut::kGradients],
                   carry = args.out[BackwardOut::kCarry];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    Vec<Real> sum_r{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> d_value = LoadAll(tiles.At(row) + unit);
      const Vec<Real> r = LoadAll(gate_rows.At(row) + block * 3 * V);
      const Vec<Real> h_prev = lanes.Load(previous.At(row) + unit);
      const Vec<Real> d_r = d_value * h_prev * r * (Real(1) - r);
      lanes.AddTo(carry.At(row) + unit, d_value * r);
      lanes.Store(gradient_rows.At(row) + unit, d_r);
      sum_r += d_r;
    }
    lanes.AddTo(args.sums + unit, sum_r);
  });
}

template <typename Real>
constexpr CellKernels<Real> kGruResetBeforeKernels = {
    {GruResetBeforeGates<Real>, GruResetBeforeOutput<Real>},
    {GruResetBeforeGatesBackward<Real>, GruResetBeforeOutputBackward<Real>}};

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_ISA

#endif  // FUSED_RNN_CELLS_GRU_RESET_BEFORE_H_
