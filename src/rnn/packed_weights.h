// Weights in the kernels' own layout (panel_layout.h): packed by a forward for itself, or once for
// many (rnn.h, PackedWeights).
#ifndef FUSED_RNN_RNN_PACKED_WEIGHTS_H_
#define FUSED_RNN_RNN_PACKED_WEIGHTS_H_

#include "kernels/kernel_table.h"
#include "rnn/memory_plan.h"
#include "rnn/pack.h"

namespace fused_rnn {

// bias [cell.biases + cell.unit_weights, H] as CellForwardArgs wants it.
template <typename Real, typename Weight>
void FoldBiases(const Dims& dims, const Weight* bW, const Weight* bR, const Weight* unit_weights,
                Real* bias) {
  const Cell& cell = dims.cell();
  const int64_t H = dims.H;
  for (int k = 0; k < cell.biases; ++k, bias += H) {
    const FoldedBias& from = cell.bias[k];
    const auto value = [&](const Weight* biases, int gate, int64_t j) {
      return Real(Widen(biases[gate * H + j]));
    };
    for (int64_t j = 0; j < H; ++j) {
      bias[j] = from.recurrent == kNoGate ? value(bW, from.input, j)
                : from.input == kNoGate   ? value(bR, from.recurrent, j)
                                          : value(bW, from.input, j) + value(bR, from.recurrent, j);
    }
  }
  for (int64_t j = 0; j < cell.unit_weights * H; ++j) bias[j] = Widen(unit_weights[j]);
}

// Where a PackedWeights keeps what; everything [L][D], but for the input panels, whose sizes differ
// between layers.
struct PackedPlan : RegionPlan {
  PackedPlan(const Dims& dims, int64_t V);
  Region bias, first_input, upper_inputs, recurrent, projection;
};

// The packed parts of layer l, direction d.
template <typename Format>
struct PackedPart {
  using Real = typename Format::Real;
  using Packed = typename Format::Packed;
  PackedPart(const Dims& dims, const ForwardPlan& layouts, const PackedPlan& plan, void* data,
             int64_t l, int64_t d);
  Real* bias;
  Packed* input;
  Packed* recurrent;
  Packed* projection;
};

template <typename Format>
PackedPart<Format>::PackedPart(const Dims& dims, const ForwardPlan& layouts, const PackedPlan& plan,
                               void* data, int64_t l, int64_t d) {
  const int64_t k = l * dims.D + d;
  bias = plan.bias.In<Real>(data) + k * dims.cell().vectors() * dims.H;
  input = l == 0 ? plan.first_input.In<Packed>(data) + d * layouts.Input(0).size()
                 : plan.upper_inputs.In<Packed>(data) + (k - dims.D) * layouts.Input(1).size();
  recurrent = plan.recurrent.In<Packed>(data) + k * layouts.recurrent.size();
  projection = plan.projection.In<Packed>(data) + k * layouts.projection.size();
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PACKED_WEIGHTS_H_
