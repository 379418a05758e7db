// The backward pass. Per layer, from the last: one parallel region runs the recurrence from the
// last step to the first, in the same manner as the forward: dh_{t-1} = dgates_t R for the thread's
// own hidden units, then the gate arithmetic of step t-1. It leaves the gradients of all
// pre-activations, from which large products make those of weights and inputs.
#include "rnn/backward_layer.h"
#include "rnn/dropout.h"
#include "rnn/passes.h"

namespace fused_rnn {

template <typename Format>
void RunBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                 const BackwardArgs& args, const typename Format::Weight* weights,
                 const BackwardPlan& plan, const ReservePlan& reserve) {
  using Real = typename Format::Real;
  using Packed = typename Format::Packed;
  const ParamLayout layout(dims);
  const Cell& cell = dims.cell();
  const Real* params = static_cast<const Real*>(args.params);
  void* ws = args.workspace;
  const int64_t N = dims.N, H = dims.H, S = dims.S, D = dims.D, rows = dims.T * N, out = D * S;
  const Output<Real> dx(args.dx, args.dx_req), dparams(args.dparams, args.dparams_req);
  const Output<Real> dh0(args.dh0, args.dh0_req), dc0(args.dc0, args.dc0_req);
  LayerBackward<Format> layer(execution, dims, steps, plan);
  const LargeProducts<Format> products(execution, dims, steps, layer.Hp());

  const Real* x = static_cast<const Real*>(args.x);
  const Real* y_top = static_cast<const Real*>(args.y);
  const Real* dy = static_cast<const Real*>(args.dy);
  Real* dx_rows = dx.data;
  bool dx_add = dx.add;
  if (steps.packed()) {
    const auto pack = [&](int64_t width, const Real* full, const Region& region) -> const Real* {
      if (full == nullptr) return nullptr;
      PackRows(execution, steps, width, full, region.In<Real>(ws));
      return region.In<Real>(ws);
    };
    x = pack(dims.I, x, plan.x);
    y_top = pack(out, y_top, plan.y_top);
    dy = pack(out, dy, plan.dy_top);
    if (dx.data != nullptr) {
      dx_rows = plan.dx.In<Real>(ws);
      dx_add = false;
    }
  }
  // What layer l + 1 reads: the output of layer l, dropped if dropout acts.
  const auto kept_y = [&](int64_t l) { return reserve.y.In<Real>(args.reserve) + l * rows * out; };
  const auto mask = [&](int64_t l) {
    return reserve.mask.In<uint8_t>(args.reserve) + l * rows * out;
  };

  for (int64_t l = dims.L - 1; l >= 0; --l) {
    const Real* y = l == dims.L - 1 ? y_top : kept_y(l);
    for (int64_t d = 0; d < D; ++d) {
      const int64_t k = l * D + d;
      BackwardDirection<Format>& dir = layer.direction(d);
      const auto state = [&](const void* states, int64_t size, const Region& copy) -> const Real* {
        if (states == nullptr) return nullptr;
        return PackState(steps, size, static_cast<const Real*>(states) + k * N * size,
                         copy.In<Real>(ws) + d * N * size);
      };
      dir.W = params + layout.W(l, d);
      dir.R = weights + layout.R(l, d);
      dir.Wp = weights + layout.Wp(l, d);
      dir.h0 = state(args.h0, S, plan.h0);
      dir.dhN = state(args.dhN, S, plan.dhN);
      dir.c0 = cell.cell_state ? state(args.c0, H, plan.c0) : nullptr;
      dir.dcN = cell.cell_state ? state(args.dcN, H, plan.dcN) : nullptr;
      dir.unit_weights = params + layout.UnitWeights(l, d);
      dir.gates = reserve.gates.In<Real>(args.reserve) + k * rows * dims.kept_gates * layer.Hp();
      dir.value =
          cell.keeps_value ? reserve.value.In<Real>(args.reserve) + k * rows * layer.Hp() : nullptr;
      dir.c = cell.cell_state ? reserve.c.In<Real>(args.reserve) + k * rows * H : nullptr;
      dir.y = y + d * S;
      dir.dy = dy != nullptr ? dy + d * S : nullptr;
      dir.y_ld = out;
      dir.dh0 = dh0.Part(k * N * S);
      dir.dc0 = dc0.Part(k * N * H);
      dir.panels = plan.panels.In<Packed>(ws) + d * plan.recurrent.size();
      dir.projection = plan.projection_panels.In<Packed>(ws) + d * plan.projection.size();
      dir.gradients = plan.gradients.In<Real>(ws) + d * rows * cell.gradients * H;
      dir.sums = plan.sums.In<Real>(ws) + d * cell.sums() * H;
      dir.dc = cell.cell_state ? plan.dc.In<Real>(ws) + d * N * H : nullptr;
      dir.carry = cell.carries ? plan.carry.In<Real>(ws) + d * N * H : nullptr;
      dir.dh = plan.dh.In<Real>(ws) + d * rows * dims.P;
      dir.unprojected = plan.unprojected.In<Real>(ws) + d * rows * H;
    }
    layer.RunRecurrence();
    execution.ThrowIfInterrupted();

    const Real* input = l == 0 ? x : kept_y(l - 1);
    if (l > 0 && dims.drops && dparams.data != nullptr) {
      ApplyMask(execution, steps.rows(), out, dims.dropout, mask(l - 1), input,
                plan.dropped.In<Real>(ws));
      input = plan.dropped.In<Real>(ws);
    }
    for (int64_t d = 0; d < D; ++d) {
      products.WeightGradients(layer.direction(d), l, d, input, layout, dparams,
                               plan.h_prev.In<Real>(ws));
    }
    Real* dinput = l == 0 ? dx_rows : plan.dy[(l - 1) % 2].In<Real>(ws);
    if (dinput == nullptr) continue;
    for (int64_t d = 0; d < D; ++d)
      products.InputGradient(layer.direction(d), l, dinput, d > 0 || (l == 0 && dx_add));
    if (l > 0 && dims.drops)
      ApplyMask(execution, steps.rows(), out, dims.dropout, mask(l - 1), dinput, dinput);
    dy = dinput;
  }
  if (steps.packed() && dx.data != nullptr)
    UnpackRows(execution, steps, dims.I, dx_rows, dx.data, dx.add);
}

#define FUSED_RNN_INSTANTIATE(Format, dtype)                                             \
  template void RunBackward<Format>(const Execution&, const Dims&, const Steps&,         \
                                    const BackwardArgs&, const typename Format::Weight*, \
                                    const BackwardPlan&, const ReservePlan&);
FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_INSTANTIATE)
#undef FUSED_RNN_INSTANTIATE

}  // namespace fused_rnn
