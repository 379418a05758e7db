// The LSTM (Gers, Schmidhuber, Cummins 2000; the clip is cuDNN's), without peepholes and with them
// (Gers, Schraudolph, Schmidhuber 2002): traits and arithmetic.
#ifndef FUSED_RNN_CELLS_LSTM_H_
#define FUSED_RNN_CELLS_LSTM_H_

#include "cells/cell.h"

namespace fused_rnn {

// Gates i, f, g, o; peepholes of i, f, o.
constexpr Cell LstmCell(const char* name, int peepholes) {
  Cell cell{};
  cell.name = name;
  cell.gates = cell.gradients = cell.biases = 4;
  cell.cell_state = true;
  cell.unit_weights = peepholes;
  for (int gate = 0; gate < 4; ++gate) cell.bias[gate] = {gate, gate};
  cell.stages = 1;
  cell.stage_gates[0] = 4;
  cell.keeps_gates = true;
  cell.parts = 1;
  cell.part[0] = {/*stage=*/0, /*gradient=*/0, /*gate=*/0, /*count=*/4};
  return cell;
}

inline constexpr Cell kLstmCell = LstmCell("lstm", 0);
inline constexpr Cell kLstmPeepholeCell = LstmCell("lstm_peephole", 3);

}  // namespace fused_rnn

#ifdef FUSED_RNN_ISA  // compiled once per instruction set (see kernels.cc)

#include "cells/hidden_gradient-inl.h"
#include "kernels/activations-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// i, f = sigmoid(. + p c_prev), g = tanh; c = f c_prev + i g, clipped; o = sigmoid(. + p c);
// h = o tanh(c). p: peepholes, or nothing.
template <typename Real, bool kPeephole>
void LstmForward(const CellForwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> tiles = args.in[ForwardIn::kTile], c_prev = args.in[ForwardIn::kCell];
  const Rows<Real> gate_rows = args.out[ForwardOut::kGates], c_rows = args.out[ForwardOut::kCell],
                   h_rows = args.out[ForwardOut::kH];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    const Real* bias = args.bias + unit;
    const auto vector = [&](int number) { return lanes.Load(bias + number * args.bias_stride); };
    const Vec<Real> bias_i = vector(0), bias_f = vector(1), bias_g = vector(2), bias_o = vector(3);
    Vec<Real> p_i{}, p_f{}, p_o{};
    if constexpr (kPeephole) {
      p_i = vector(4);
      p_f = vector(5);
      p_o = vector(6);
    }
    for (int64_t row = 0; row < args.rows; ++row) {
      const Real* tile = tiles.At(row) + block * 4 * V;
      Real* gates = gate_rows.At(row) + block * 4 * V;
      Vec<Real> a_i = LoadAll(tile) + LoadAll(gates) + bias_i;
      Vec<Real> a_f = LoadAll(tile + V) + LoadAll(gates + V) + bias_f;
      const Vec<Real> a_g = LoadAll(tile + 2 * V) + LoadAll(gates + 2 * V) + bias_g;
      Vec<Real> a_o = LoadAll(tile + 3 * V) + LoadAll(gates + 3 * V) + bias_o;
      const Vec<Real> previous = lanes.Load(c_prev.At(row) + unit);
      if constexpr (kPeephole) {
        a_i += p_i * previous;
        a_f += p_f * previous;
      }
      const Vec<Real> i = Sigmoid<Real>(a_i), f = Sigmoid<Real>(a_f), g = Tanh<Real>(a_g);
      Vec<Real> c = f * previous + i * g;
      if (args.clip) {
        if (args.clip_nan) c = c == c ? c : Broadcast(args.clip_min);
        c = AtLeast<Real>(AtMost<Real>(c, args.clip_max), args.clip_min);
      }
      if constexpr (kPeephole) a_o += p_o * c;
      const Vec<Real> o = Sigmoid<Real>(a_o);
      lanes.Store(c_rows.At(row) + unit, c);
      lanes.Store(h_rows.At(row) + unit, o * Tanh<Real>(c));
      if (args.keep) {
        StoreAll(gates, i);
        StoreAll(gates + V, f);
        StoreAll(gates + 2 * V, g);
        StoreAll(gates + 3 * V, o);
      }
    }
  });
}

// The chain rule of the above. The kept c is the clipped one, so a unit was clipped where c is at a
// bound.
template <typename Real, bool kPeephole>
void LstmBackward(const CellBackwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  const Rows<const Real> gate_rows = args.in[BackwardIn::kGates],
                         c_rows = args.in[BackwardIn::kCell],
                         c_prev = args.in[BackwardIn::kPreviousCell],
                         dc_rows = args.in[BackwardIn::kCellGradient];
  const Rows<Real> gradient_rows = args.out[BackwardOut::kGradients],
                   dc_prev = args.out[BackwardOut::kCellGradient],
                   unprojected = args.out[BackwardOut::kUnprojected];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    Vec<Real> sum_i{}, sum_f{}, sum_g{}, sum_o{}, sum_p_i{}, sum_p_f{}, sum_p_o{};
    Vec<Real> p_i{}, p_f{}, p_o{};
    if constexpr (kPeephole) {
      const Real* weights = args.unit_weights + unit;
      p_i = lanes.Load(weights);
      p_f = lanes.Load(weights + args.stride);
      p_o = lanes.Load(weights + 2 * args.stride);
    }
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> dh = HiddenGradient<Real>(args, lanes, row, unit);
      const Real* gates = gate_rows.At(row) + block * 4 * V;
      const Vec<Real> i = LoadAll(gates);
      const Vec<Real> f = LoadAll(gates + V);
      const Vec<Real> g = LoadAll(gates + 2 * V);
      const Vec<Real> o = LoadAll(gates + 3 * V);
      const Vec<Real> c = lanes.Load(c_rows.At(row) + unit);
      const Vec<Real> tanh_c = Tanh<Real>(c);
      if (unprojected.data != nullptr) lanes.Store(unprojected.At(row) + unit, o * tanh_c);
      const Vec<Real> d_o = dh * tanh_c * o * (Real(1) - o);
      Vec<Real> dc = dh * o * (Real(1) - tanh_c * tanh_c);
      if (dc_rows.data != nullptr) dc += lanes.Load(dc_rows.At(row) + unit);
      if constexpr (kPeephole) dc += d_o * p_o;
      if (args.clip) {
        dc = c > args.clip_min ? dc : Vec<Real>{};
        dc = c < args.clip_max ? dc : Vec<Real>{};
      }
      const Vec<Real> previous = lanes.Load(c_prev.At(row) + unit);
      const Vec<Real> d_i = dc * g * i * (Real(1) - i);
      const Vec<Real> d_f = dc * previous * f * (Real(1) - f);
      const Vec<Real> d_g = dc * i * (Real(1) - g * g);
      Vec<Real> to_previous = dc * f;
      if constexpr (kPeephole) {
        to_previous += d_i * p_i + d_f * p_f;
        sum_p_i += d_i * previous;
        sum_p_f += d_f * previous;
        sum_p_o += d_o * c;
      }
      lanes.Store(dc_prev.At(row) + unit, to_previous);
      Real* gradients = gradient_rows.At(row) + unit;
      lanes.Store(gradients, d_i);
      lanes.Store(gradients + args.stride, d_f);
      lanes.Store(gradients + 2 * args.stride, d_g);
      lanes.Store(gradients + 3 * args.stride, d_o);
      sum_i += d_i;
      sum_f += d_f;
      sum_g += d_g;
      sum_o += d_o;
    }
    Real* sums = args.sums + unit;
    lanes.AddTo(sums, sum_i);
    lanes.AddTo(sums + args.stride, sum_f);
    lanes.AddTo(sums + 2 * args.stride, sum_g);
    lanes.AddTo(sums + 3 * args.stride, sum_o);
    if constexpr (kPeephole) {
      lanes.AddTo(sums + 4 * args.stride, sum_p_i);
      lanes.AddTo(sums + 5 * args.stride, sum_p_f);
      lanes.AddTo(sums + 6 * args.stride, sum_p_o);
    }
  });
}

template <typename Real>
constexpr CellKernels<Real> kLstmKernels = {{LstmForward<Real, false>},
                                            {LstmBackward<Real, false>}};
template <typename Real>
constexpr CellKernels<Real> kLstmPeepholeKernels = {{LstmForward<Real, true>},
                                                    {LstmBackward<Real, true>}};

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_ISA

#endif  // FUSED_RNN_CELLS_LSTM_H_
