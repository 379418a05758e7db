// Gate arithmetic of the simple recurrent cell (Elman 1990), h = act(a + b) with act = tanh or
// relu. Compiled once per instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_RNN_CELL_INL_H_
#define FUSED_RNN_KERNELS_RNN_CELL_INL_H_

#include "kernels/activations-inl.h"
#include "kernels/cell_common-inl.h"

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
void RnnForward(const CellForwardArgs<Real>& args) {
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t) {
    const Vec<Real> bias = lanes.Load(args.bias + unit);
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> x = LoadAll(args.tile + row * args.tile_ld + unit) +
                          LoadAll(args.gates + row * args.gates_ld + unit) + bias;
      lanes.Store(args.h + row * args.h_ld + unit, Activation::template Value<Real>(x));
    }
  });
}

template <typename Real, typename Activation>
void RnnBackward(const CellBackwardArgs<Real>& args) {
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t) {
    Vec<Real> db{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> h = lanes.Load(args.h + row * args.h_ld + unit);
      const Vec<Real> d =
          HiddenGradient<Real>(args, lanes, row, unit) * Activation::template Derivative<Real>(h);
      lanes.Store(args.dgates + row * args.dgates_ld + unit, d);
      db += d;
    }
    lanes.AddTo(args.db + unit, db);
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_RNN_CELL_INL_H_
