// The simple recurrent cell (Elman 1990), h = act(a + b) with act = tanh or relu: trait and
// arithmetic.
#ifndef FUSED_RNN_CELLS_ELMAN_H_
#define FUSED_RNN_CELLS_ELMAN_H_

#include "cells/cell.h"

namespace fused_rnn {

// Keeps nothing: its derivative follows from its output.
constexpr Cell ElmanCell(const char* name) {
  Cell cell{};
  cell.name = name;
  cell.gates = cell.gradients = 1;
  cell.biases = 1;
  cell.bias[0] = {0, 0};
  cell.stages = 1;
  cell.stage_gates[0] = 1;
  cell.parts = 1;
  cell.part[0] = {/*stage=*/0, /*gradient=*/0, /*gate=*/0, /*count=*/1};
  return cell;
}

inline constexpr Cell kRnnReluCell = ElmanCell("rnn_relu");
inline constexpr Cell kRnnTanhCell = ElmanCell("rnn_tanh");

}  // namespace fused_rnn

#ifdef FUSED_RNN_ISA  // compiled once per instruction set (see kernels.cc)

#include "cells/hidden_gradient-inl.h"
#include "kernels/activations-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

struct TanhActivation {
  template <typename Real>
  static Vec<Real> Value(Vec<Real> x) {
    return Tanh<Real>(x);
  }
  // The derivative from the value h = act(x).
  template <typename Real>
  static Vec<Real> Derivative(Vec<Real> h) {
    return Real(1) - h * h;
  }
};

struct ReluActivation {
  template <typename Real>
  static Vec<Real> Value(Vec<Real> x) {
    return AtLeast<Real>(x, 0);
  }
  template <typename Real>
  static Vec<Real> Derivative(Vec<Real> h) {
    return h > Real(0) ? Broadcast<Real>(1) : Vec<Real>{};
  }
};

template <typename Real, typename Activation>
void ElmanForward(const CellForwardArgs<Real>& args) {
  const Rows<const Real> tile = args.in[ForwardIn::kTile];
  const Rows<Real> gates = args.out[ForwardOut::kGates], h = args.out[ForwardOut::kH];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t) {
    const Vec<Real> bias = lanes.Load(args.bias + unit);
    for (int64_t row = 0; row < args.rows; ++row) {  // of one gate, panel order is that of units
      const Vec<Real> x = LoadAll(tile.At(row) + unit) + LoadAll(gates.At(row) + unit) + bias;
      lanes.Store(h.At(row) + unit, Activation::template Value<Real>(x));
    }
  });
}

template <typename Real, typename Activation>
void ElmanBackward(const CellBackwardArgs<Real>& args) {
  const Rows<const Real> h_rows = args.in[BackwardIn::kH];
  const Rows<Real> gradients = args.out[BackwardOut::kGradients];
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t) {
    Vec<Real> sum{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> h = lanes.Load(h_rows.At(row) + unit);
      const Vec<Real> d =
          HiddenGradient<Real>(args, lanes, row, unit) * Activation::template Derivative<Real>(h);
      lanes.Store(gradients.At(row) + unit, d);
      sum += d;
    }
    lanes.AddTo(args.sums + unit, sum);
  });
}

template <typename Real>
constexpr CellKernels<Real> kRnnReluKernels = {{ElmanForward<Real, ReluActivation>},
                                               {ElmanBackward<Real, ReluActivation>}};
template <typename Real>
constexpr CellKernels<Real> kRnnTanhKernels = {{ElmanForward<Real, TanhActivation>},
                                               {ElmanBackward<Real, TanhActivation>}};

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_ISA

#endif  // FUSED_RNN_CELLS_ELMAN_H_
