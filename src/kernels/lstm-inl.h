// LSTM gate arithmetic (Gers, Schmidhuber, Cummins 2000, without peepholes; the clip is cuDNN's).
// Compiled once per instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_LSTM_INL_H_
#define FUSED_RNN_KERNELS_LSTM_INL_H_

#include "kernels/activations-inl.h"
#include "kernels/cell_common-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// i, f, o = sigmoid, g = tanh; c = f c_prev + i g, clipped; h = o tanh(c).
template <typename Real>
void LstmForward(const CellForwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    const Real* bias = args.bias + unit;
    const Vec<Real> bias_i = lanes.Load(bias);
    const Vec<Real> bias_f = lanes.Load(bias + args.bias_stride);
    const Vec<Real> bias_g = lanes.Load(bias + 2 * args.bias_stride);
    const Vec<Real> bias_o = lanes.Load(bias + 3 * args.bias_stride);
    for (int64_t row = 0; row < args.rows; ++row) {
      const Real* tile = args.tile + row * args.tile_ld + block * 4 * V;
      Real* gates = args.gates + row * args.gates_ld + block * 4 * V;
      const Vec<Real> i = Sigmoid<Real>(LoadAll(tile) + LoadAll(gates) + bias_i);
      const Vec<Real> f = Sigmoid<Real>(LoadAll(tile + V) + LoadAll(gates + V) + bias_f);
      const Vec<Real> g = Tanh<Real>(LoadAll(tile + 2 * V) + LoadAll(gates + 2 * V) + bias_g);
      const Vec<Real> o = Sigmoid<Real>(LoadAll(tile + 3 * V) + LoadAll(gates + 3 * V) + bias_o);
      Vec<Real> c = f * lanes.Load(args.c_prev + row * args.c_prev_ld + unit) + i * g;
      if (args.clip) {
        if (args.clip_nan) c = c == c ? c : Broadcast(args.clip_min);
        c = AtLeast<Real>(AtMost<Real>(c, args.clip_max), args.clip_min);
      }
      lanes.Store(args.c + row * args.c_ld + unit, c);
      lanes.Store(args.h + row * args.h_ld + unit, o * Tanh<Real>(c));
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
template <typename Real>
void LstmBackward(const CellBackwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    Vec<Real> db_i{}, db_f{}, db_g{}, db_o{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> dh = HiddenGradient<Real>(args, lanes, row, unit);
      const Real* gates = args.gates + row * args.gates_ld + block * 4 * V;
      const Vec<Real> i = LoadAll(gates);
      const Vec<Real> f = LoadAll(gates + V);
      const Vec<Real> g = LoadAll(gates + 2 * V);
      const Vec<Real> o = LoadAll(gates + 3 * V);
      const Vec<Real> c = lanes.Load(args.c + row * args.c_ld + unit);
      const Vec<Real> tanh_c = Tanh<Real>(c);
      if (args.unprojected != nullptr) {
        lanes.Store(args.unprojected + row * args.unprojected_ld + unit, o * tanh_c);
      }
      Vec<Real> dc = dh * o * (Real(1) - tanh_c * tanh_c);
      if (args.dc != nullptr) dc += lanes.Load(args.dc + row * args.dc_ld + unit);
      if (args.clip) {
        dc = c > args.clip_min ? dc : Vec<Real>{};
        dc = c < args.clip_max ? dc : Vec<Real>{};
      }
      const Vec<Real> d_i = dc * g * i * (Real(1) - i);
      const Vec<Real> d_f =
          dc * lanes.Load(args.c_prev + row * args.c_prev_ld + unit) * f * (Real(1) - f);
      const Vec<Real> d_g = dc * i * (Real(1) - g * g);
      const Vec<Real> d_o = dh * tanh_c * o * (Real(1) - o);
      lanes.Store(args.dc_out + row * args.dc_out_ld + unit, dc * f);
      Real* dgates = args.dgates + row * args.dgates_ld + unit;
      lanes.Store(dgates, d_i);
      lanes.Store(dgates + args.dgate_stride, d_f);
      lanes.Store(dgates + 2 * args.dgate_stride, d_g);
      lanes.Store(dgates + 3 * args.dgate_stride, d_o);
      db_i += d_i;
      db_f += d_f;
      db_g += d_g;
      db_o += d_o;
    }
    Real* db = args.db + unit;
    lanes.AddTo(db, db_i);
    lanes.AddTo(db + args.dgate_stride, db_f);
    lanes.AddTo(db + 2 * args.dgate_stride, db_g);
    lanes.AddTo(db + 3 * args.dgate_stride, db_o);
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_LSTM_INL_H_
