// GRU gate arithmetic (Cho et al. 2014, in cuDNN's form: the reset gate acts after the recurrent
// product). Compiled once per instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_GRU_INL_H_
#define FUSED_RNN_KERNELS_GRU_INL_H_

#include "kernels/activations-inl.h"
#include "kernels/cell_common-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// r, z = sigmoid; n = tanh(a_n + r b_n), b_n = (R h)_n + bR_n; h = n + z (h_prev - n).
template <typename Real>
void GruForward(const CellForwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    const Real* bias = args.bias + unit;
    const Vec<Real> bias_r = lanes.Load(bias);
    const Vec<Real> bias_z = lanes.Load(bias + args.bias_stride);
    const Vec<Real> bias_n = lanes.Load(bias + 2 * args.bias_stride);
    const Vec<Real> bias_b = lanes.Load(bias + 3 * args.bias_stride);
    for (int64_t row = 0; row < args.rows; ++row) {
      const Real* tile = args.tile + row * args.tile_ld + block * 3 * V;
      Real* gates = args.gates + row * args.gates_ld + block * 3 * V;
      const Vec<Real> r = Sigmoid<Real>(LoadAll(tile) + LoadAll(gates) + bias_r);
      const Vec<Real> z = Sigmoid<Real>(LoadAll(tile + V) + LoadAll(gates + V) + bias_z);
      const Vec<Real> b_n = LoadAll(tile + 2 * V) + bias_b;
      const Vec<Real> n = Tanh<Real>(LoadAll(gates + 2 * V) + bias_n + r * b_n);
      const Vec<Real> h_prev = lanes.Load(args.h_prev + row * args.h_prev_ld + unit);
      lanes.Store(args.h + row * args.h_ld + unit, n + z * (h_prev - n));
      if (args.keep) {
        StoreAll(gates, r);
        StoreAll(gates + V, z);
        StoreAll(gates + 2 * V, n);
        StoreAll(args.recurrent_n + row * args.recurrent_n_ld + unit, b_n);
      }
    }
  });
}

template <typename Real>
void GruBackward(const CellBackwardArgs<Real>& args) {
  constexpr int V = kLanes<Real>;
  ForEachBlock<Real>(args.units, [&](auto lanes, int64_t unit, int64_t block) {
    Vec<Real> db_b{}, db_r{}, db_z{}, db_n{};
    for (int64_t row = 0; row < args.rows; ++row) {
      const Vec<Real> dh = HiddenGradient<Real>(args, lanes, row, unit);
      const Real* gates = args.gates + row * args.gates_ld + block * 3 * V;
      const Vec<Real> r = LoadAll(gates);
      const Vec<Real> z = LoadAll(gates + V);
      const Vec<Real> n = LoadAll(gates + 2 * V);
      const Vec<Real> b_n = LoadAll(args.recurrent_n + row * args.recurrent_n_ld + unit);
      const Vec<Real> h_prev = lanes.Load(args.h_prev + row * args.h_prev_ld + unit);
      const Vec<Real> d_n = dh * (Real(1) - z) * (Real(1) - n * n);
      const Vec<Real> d_z = dh * (h_prev - n) * z * (Real(1) - z);
      const Vec<Real> d_r = d_n * b_n * r * (Real(1) - r);
      const Vec<Real> d_b = d_n * r;
      lanes.Store(args.carry_out + row * args.carry_out_ld + unit, dh * z);
      Real* dgates = args.dgates + row * args.dgates_ld + unit;
      lanes.Store(dgates, d_b);
      lanes.Store(dgates + args.dgate_stride, d_r);
      lanes.Store(dgates + 2 * args.dgate_stride, d_z);
      lanes.Store(dgates + 3 * args.dgate_stride, d_n);
      db_b += d_b;
      db_r += d_r;
      db_z += d_z;
      db_n += d_n;
    }
    Real* db = args.db + unit;
    lanes.AddTo(db, db_b);
    lanes.AddTo(db + args.dgate_stride, db_r);
    lanes.AddTo(db + 2 * args.dgate_stride, db_z);
    lanes.AddTo(db + 3 * args.dgate_stride, db_n);
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_GRU_INL_H_
