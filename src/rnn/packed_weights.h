// Weights in the kernels' own layout (panel_layout.h): packed by a forward for itself, or once for
// many (rnn.h, PackedWeights).
#ifndef FUSED_RNN_RNN_PACKED_WEIGHTS_H_
#define FUSED_RNN_RNN_PACKED_WEIGHTS_H_

#include "kernels/kernel_table.h"
#include "rnn/memory_plan.h"
#include "rnn/pack.h"

namespace fused_rnn {

// bias [(G + 1)*H] as CellForwardArgs wants it: both biases of a gate add up, but for a GRU's n
// gate, whose bR is inside the reset product.
template <typename Real, typename Weight>
void FoldBiases(const Dims& dims, const Weight* bW, const Weight* bR, Real* bias) {
  const int64_t GH = dims.G * dims.H, folded = dims.gru() ? 2 * dims.H : GH;
  for (int64_t j = 0; j < folded; ++j) bias[j] = Real(Widen(bW[j])) + Widen(bR[j]);
  for (int64_t j = folded; j < GH; ++j) {
    bias[j] = Widen(bW[j]);
    bias[j + dims.H] = Widen(bR[j]);
  }
}

// Where a PackedWeights keeps what; everything [L][D], but for the input panels, whose sizes differ
// between layers.
struct PackedPlan : RegionPlan {
  PackedPlan(const Dims& dims, int64_t V);
  Region bias, first_input, upper_inputs, recurrent, projection;
};

// The packed parts of layer l, direction d.
template <typename Real, typename Weight>
struct PackedPart {
  PackedPart(const Dims& dims, const ForwardPlan& layouts, const PackedPlan& plan, void* data,
             int64_t l, int64_t d);
  Real* bias;
  Weight* input;
  Weight* recurrent;
  Weight* projection;
};

template <typename Real, typename Weight>
PackedPart<Real, Weight>::PackedPart(const Dims& dims, const ForwardPlan& layouts,
                                     const PackedPlan& plan, void* data, int64_t l, int64_t d) {
  const int64_t k = l * dims.D + d;
  bias = plan.bias.In<Real>(data) + k * (dims.G + 1) * dims.H;
  input = l == 0 ? plan.first_input.In<Weight>(data) + d * layouts.Input(0).size()
                 : plan.upper_inputs.In<Weight>(data) + (k - dims.D) * layouts.Input(1).size();
  recurrent = plan.recurrent.In<Weight>(data) + k * layouts.recurrent.size();
  projection = plan.projection.In<Weight>(data) + k * layouts.projection.size();
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PACKED_WEIGHTS_H_
