// The GRU (Cho et al. 2014, in cuDNN's form: the reset gate acts after the recurrent product):
// trait and arithmetic.
#ifndef FUSED_RNN_CELLS_GRU_H_
#define FUSED_RNN_CELLS_GRU_H_

#include "cells/cell.h"

namespace fused_rnn {

// Gates r, z, n. Gradients: of b_n = (R h)_n + bR_n, inside the reset product, and of r, z, n; so
// the first three belong to the recurrent side and the last three to the input side.
constexpr Cell GruCell() {
  Cell cell{};
  cell.name = "gru";
  cell.gates = 3;
  cell.biases = 4;
  cell.bias[0] = {0, 0};
  cell.bias[1] = {1, 1};
  cell.bias[2] = {2, kNoGate};
  cell.bias[3] = {kNoGate, 2};
  cell.stages = 1;
  cell.stage_gates[0] = 3;
  cell.keeps_gates = true;
  cell.keeps_value = true;  // b_n
  cell.carries = true;
  cell.gradients = 4;
  cell.input_gradient = 1;
  cell.parts = 2;
  cell.part[0] = {/*stage=*/0, /*gradient=*/1, /*gate=*/0, /*count=*/2};
  cell.part[1] = {/*stage=*/0, /*gradient=*/0, /*gate=*/2, /*count=*/1};
  return cell;
}

inline constexpr Cell kGruCell = GruCell();

}  // namespace fused_rnn

#ifdef FUSED_RNN_ISA  // compiled once per instruction set (see kernels.cc)

#include "cells/hidden_gradient-inl.h"
#include "kernels/activations-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// r, z = sigmoid; n = tanh(a_n + r b_n); h = n + z (h_prev - n).
template <typename Real>
void GruForward(const CellForwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> tiles = args.in[ForwardIn::kTile], previous = args.in[ForwardIn::kH];
  const Rows<Real> gate_rows = args.out[ForwardOut::kGates], b_rows = args.out[ForwardOut::kValue],
                   h_rows = args.out[ForwardOut::kH];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    const Real* bias = args.bias + unit;
    const Vec<Real> bias_r = lanes.Load(bias);
    const Vec<Real> bias_z = lanes.Load(bias + args.bias_stride);
    const Vec<Real> bias_n = lanes.Load(bias + 2 * args.bias_stride);
    const Vec<Real> bias_b = lanes.Load(bias + 3 * args.bias_stride);
    for (int64_t row = 0; row < args.rows; ++row) {
      const Real* tile = tiles.At(row) + block * 3 * V;
      Real* gates = gate_rows.At(row) + block * 3 * V;
      const Vec<Real> r = Sigmoid<Real>(LoadAll(tile) + LoadAll(gates) + bias_r);
      const Vec<Real> z = Sigmoid<Real>(LoadAll(tile + V) + LoadAll(gates + V) + bias_z);
      const Vec<Real> b_n = LoadAll(tile + 2 * V) + bias_b;
      const Vec<Real> n = Tanh<Real>(LoadAll(gates + 2 * V) + bias_n + r * b_n);
      const Vec<Real> h_prev = lanes.Load(previous.At(row) + unit);
      lanes.Store(h_rows.At(row) + unit, n + z * (h_prev - n));
      if (args.keep) {
        StoreAll(gates, r);
        StoreAll(gates + V, z);
        StoreAll(gates + 2 * V, n);
        StoreAll(b_rows.At(row) + unit, b_n);
      }
    }
  });
}

template <typename Real>
void GruBackward(const CellBackwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> gate_rows = args.in[BackwardIn::kGates],
                         b_rows = args.in[BackwardIn::kValue],
                         previous = args.in[BackwardIn::kPreviousH];
  const Rows<Real> gradient_rows = args.out[BackwardOut::kGradients],
                   carry = args.out[BackwardOut::kCarry];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    Vec<Real> sum_b{}, sum_r{}, sum_z{}, sum_n{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> dh = HiddenGradient<Real>(args, lanes, row, unit);
      const Real* gates = gate_rows.At(row) + block * 3 * V;
      const Vec<Real> r = LoadAll(gates);
      const Vec<Real> z = LoadAll(gates + V);
      const Vec<Real> n = LoadAll(gates + 2 * V);
      const Vec<Real> b_n = LoadAll(b_rows.At(row) + unit);
      const Vec<Real> h_prev = lanes.Load(previous.At(row) + unit);
      const Vec<Real> d_n = dh * (Real(1) - z) * (Real(1) - n * n);
      const Vec<Real> d_z = dh * (h_prev - n) * z * (Real(1) - z);
      const Vec<Real> d_r = d_n * b_n * r * (Real(1) - r);
      const Vec<Real> d_b = d_n * r;
      lanes.Store(carry.At(row) + unit, dh * z);
      Real* gradients = gradient_rows.At(row) + unit;
      lanes.Store(gradients, d_b);
      lanes.Store(gradients + args.stride, d_r);
      lanes.Store(gradients + 2 * args.stride, d_z);
      lanes.Store(gradients + 3 * args.stride, d_n);
      sum_b += d_b;
      sum_r += d_r;
      sum_z += d_z;
      sum_n += d_n;
    }
    Real* sums = args.sums + unit;
    lanes.AddTo(sums, sum_b);
    lanes.AddTo(sums + args.stride, sum_r);
    lanes.AddTo(sums + 2 * args.stride, sum_z);
    lanes.AddTo(sums + 3 * args.stride, sum_n);
  });
}

template <typename Real>
constexpr CellKernels<Real> kGruKernels = {{GruForward<Real>}, {GruBackward<Real>}};

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_ISA

#endif  // FUSED_RNN_CELLS_GRU_H_
