// The forward pass: the layers one after another, each with both of its directions.
#include "rnn/dropout.h"
#include "rnn/forward_layer.h"
#include "rnn/param_layout.h"
#include "rnn/passes.h"

namespace fused_rnn {
namespace {

// Copies the last states of layer l out to the caller's [L*D, N, size].
template <typename Real, typename LastState>
void StoreStates(const Dims& dims, const Steps& steps, int64_t l, int64_t size, Real* states,
                 const LastState& last) {
  if (states == nullptr) return;
  for (int64_t d = 0; d < dims.D; ++d) {
    Real* to = states + (l * dims.D + d) * dims.N * size;
    for (int64_t i = 0; i < dims.N; ++i) {
      const Real* from = last(d, i);
      std::copy(from, from + size, to + steps.order(i) * size);
    }
  }
}

// Where bias and panels are, or are to be made.
template <typename Format>
void PlacePanels(const Dims& dims, const ForwardArgs& args, const ForwardPlan& plan, int64_t l,
                 int64_t d, ForwardDirection<Format>* dir) {
  using Real = typename Format::Real;
  void* ws = args.workspace;
  dir->packed = args.packed != nullptr;
  if (dir->packed) {
    const PackedPart<Format> part(dims, plan, PackedPlan(dims, plan.recurrent.V()),
                                  args.packed->data(), l, d);
    const auto panels = [](WeightForm form, auto* packed) {
      return form != WeightForm::kRows ? packed : nullptr;
    };
    dir->bias = part.bias;
    dir->input_panels = panels(plan.input_form, part.input);
    dir->panels = panels(plan.recurrent_form, part.recurrent);
    dir->projection = panels(plan.recurrent_form, part.projection);
    return;
  }
  const auto panels = [&](WeightForm form, const Region& region, int64_t size) {
    return form == WeightForm::kPanels ? region.In<typename Format::Packed>(ws) + d * size
                                       : nullptr;
  };
  dir->bias = plan.bias.In<Real>(ws) + d * dims.cell().vectors() * dims.H;
  dir->input_panels = panels(plan.input_form, plan.input_panels, plan.Input(l).size());
  dir->panels = panels(plan.recurrent_form, plan.panels, plan.recurrent.size());
  dir->projection = panels(plan.recurrent_form, plan.projection_panels, plan.projection.size());
}

}  // namespace

template <typename Format>
void RunForward(const Execution& execution, const Dims& dims, const Steps& steps,
                const ForwardArgs& args, const ForwardPlan& plan, const ReservePlan& reserve) {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  const ParamLayout layout(dims);
  const Cell& cell = dims.cell();
  const Weight* params = static_cast<const Weight*>(args.params);
  void* ws = args.workspace;
  const bool training = args.reserve != nullptr;
  const int64_t rows = dims.T * dims.N, out = dims.D * dims.S;
  const int64_t Hp = plan.recurrent.padded_columns();
  LayerForward<Format> layer(execution, dims, steps, plan, training);

  const Real* input = static_cast<const Real*>(args.x);
  if (steps.packed()) {
    PackRows(execution, steps, dims.I, input, plan.x.In<Real>(ws));
    input = plan.x.In<Real>(ws);
  }
  Real* y_top = steps.packed() ? plan.y_top.In<Real>(ws) : static_cast<Real*>(args.y);
  for (int64_t l = 0; l < dims.L; ++l) {
    Real* y = l == dims.L - 1 ? y_top
              : training      ? reserve.y.In<Real>(args.reserve) + l * rows * out
                              : plan.y[l % 2].In<Real>(ws);
    for (int64_t d = 0; d < dims.D; ++d) {
      const int64_t k = l * dims.D + d;
      ForwardDirection<Format>& dir = layer.direction(d);
      dir.W = params + layout.W(l, d);
      dir.R = params + layout.R(l, d);
      dir.Wp = params + layout.Wp(l, d);
      dir.bW = params + layout.bW(l, d);
      dir.bR = params + layout.bR(l, d);
      dir.unit_weights = params + layout.UnitWeights(l, d);
      dir.h0 = PackState(steps, dims.S, static_cast<const Real*>(args.h0) + k * dims.N * dims.S,
                         plan.h0.In<Real>(ws) + d * dims.N * dims.S);
      PlacePanels(dims, args, plan, l, d, &dir);
      dir.gates = layer.keeps_gates()
                      ? reserve.gates.In<Real>(args.reserve) + k * rows * dims.G * Hp
                      : plan.gates.In<Real>(ws) + d * plan.chunk * dims.N * dims.G * Hp;
      dir.value = !cell.keeps_value ? nullptr
                  : training        ? reserve.value.In<Real>(args.reserve) + k * rows * Hp
                  : cell.stages > 1 ? plan.value.In<Real>(ws) + d * dims.N * Hp
                                    : nullptr;
      dir.c0 = dir.c = nullptr;
      if (cell.cell_state) {
        dir.c0 = PackState(steps, dims.H, static_cast<const Real*>(args.c0) + k * dims.N * dims.H,
                           plan.c0.In<Real>(ws) + d * dims.N * dims.H);
        dir.c = training ? reserve.c.In<Real>(args.reserve) + k * rows * dims.H
                         : plan.c.In<Real>(ws) + d * dims.N * dims.H;
      }
      dir.unprojected = plan.unprojected.In<Real>(ws) + d * dims.N * dims.H;
      dir.y = y + d * dims.S;
      dir.y_ld = out;
    }
    layer.Run(input, plan.Input(l));
    execution.ThrowIfInterrupted();
    StoreStates(dims, steps, l, dims.S, static_cast<Real*>(args.hN),
                [&](int64_t d, int64_t i) { return layer.LastHidden(d, i); });
    if (cell.cell_state) {
      StoreStates(dims, steps, l, dims.H, static_cast<Real*>(args.cN),
                  [&](int64_t d, int64_t i) { return layer.LastCell(d, i); });
    }
    input = y;
    if (training && dims.drops && l < dims.L - 1) {
      uint8_t* mask = reserve.mask.In<uint8_t>(args.reserve) + l * rows * out;
      DrawMask(execution, steps, out, dims.dropout, args.dropout_seed, l, mask);
      ApplyMask(execution, steps.rows(), out, dims.dropout, mask, y, plan.dropped.In<Real>(ws));
      input = plan.dropped.In<Real>(ws);
    }
  }
  if (steps.packed())
    UnpackRows(execution, steps, out, y_top, static_cast<Real*>(args.y), /*add=*/false);
}

#define FUSED_RNN_INSTANTIATE(Format, dtype)                                    \
  template void RunForward<Format>(const Execution&, const Dims&, const Steps&, \
                                   const ForwardArgs&, const ForwardPlan&, const ReservePlan&);
FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_INSTANTIATE)
#undef FUSED_RNN_INSTANTIATE

}  // namespace fused_rnn
