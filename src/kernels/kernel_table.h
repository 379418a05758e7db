// The one list of kernels: what each computes, on what layout, and how the build for the CPU at
// hand is chosen.
//
// Kernels work on plain pointers and strides. They do not allocate, start threads, throw or log;
// their callers (src/rnn) have checked everything. "_ld" is the distance between rows, in elements.
// V = `lanes` is the vector width in elements.
#ifndef FUSED_RNN_KERNELS_KERNEL_TABLE_H_
#define FUSED_RNN_KERNELS_KERNEL_TABLE_H_

#include <cstdint>

#include "base/cpu.h"
#include "base/half.h"

namespace fused_rnn {

// c [rows, count*V] = (accumulate ? c : 0) + a [rows, K] * panels.
// A panel holds V columns of the right-hand matrix for all K: element (k, j) at k*V + j, 64-byte
// aligned; `count` panels lie one after another. Their elements are stored as Weight. While it
// computes, it fetches the same number of bytes from `prefetch` (may be null) towards the cache.
template <typename Real, typename Weight>
struct PanelGemmArgs {
  int64_t rows, K, count;
  const Real* a;
  int64_t a_ld;
  const Weight* panels;
  Real* c;
  int64_t c_ld;
  bool accumulate;
  const Weight* prefetch;
};

// c [rows, columns] = a [rows, K] * w^T, w [columns, K] as the caller stores it.
template <typename Real, typename Weight>
struct RowGemmArgs {
  int64_t rows, K, columns;
  const Real* a;
  int64_t a_ld;
  const Weight* w;
  int64_t w_ld;
  Real* c;
  int64_t c_ld;
};

// The forward gate arithmetic of `units` hidden units for `rows` sequences at one time step.
// Pointers are those of the first of these units; units may be any number >= 1.
// "Panel order" puts gate g of unit block b (V units) at column (b*G + g)*V, as products with
// panels come out; lanes beyond the last unit are there and mean nothing.
template <typename Real>
struct CellForwardArgs {
  int64_t rows, units;
  const Real* tile;  // R h_{t-1}, panel order
  int64_t tile_ld;
  // In: W x_t, panel order. Out, if `keep`: the gates after their activation, panel order.
  Real* gates;
  int64_t gates_ld;
  bool keep;
  // Gate g at g*bias_stride: bW + bR. For a GRU without bR of the n gate, which follows as a
  // fourth.
  const Real* bias;
  int64_t bias_stride;
  Real* recurrent_n;  // GRU, if `keep`: out, R h_{t-1} + bR of the n gate; unit u at column u,
                      // whole blocks
  int64_t recurrent_n_ld;
  const Real* h_prev;  // GRU
  int64_t h_prev_ld;
  const Real* c_prev;  // LSTM
  int64_t c_prev_ld;
  Real* c;  // LSTM; may be c_prev
  int64_t c_ld;
  Real* h;
  int64_t h_ld;
  bool clip, clip_nan;  // LSTM
  Real clip_min, clip_max;
};

// The backward gate arithmetic. dh = dy + tile + carry, each null where it is zero.
template <typename Real>
struct CellBackwardArgs {
  int64_t rows, units;
  const Real* tile;  // dgates_{t+1} R, unit u at column u
  int64_t tile_ld;
  const Real* carry;  // the part of dh that did not go through the gates of step t+1 (GRU), or dhN
  int64_t carry_ld;
  const Real* dy;
  int64_t dy_ld;
  Real* carry_out;  // GRU: z dh, what dh_{t-1} gets beside the gates; may be `carry`
  int64_t carry_out_ld;
  const Real* gates;  // as kept by the forward
  int64_t gates_ld;
  const Real* recurrent_n;  // GRU: as kept by the forward
  int64_t recurrent_n_ld;
  const Real* h;  // rnn: the step's output
  int64_t h_ld;
  const Real* h_prev;  // GRU
  int64_t h_prev_ld;
  const Real* c;  // LSTM
  int64_t c_ld;
  const Real* c_prev;  // LSTM
  int64_t c_prev_ld;
  const Real* dc;  // LSTM: dc_t from step t+1, or dcN; may be null
  int64_t dc_ld;
  Real* dc_out;  // LSTM: dc_{t-1}; may be `dc`
  int64_t dc_out_ld;
  // Gradients of the pre-activations, gate g at column g*gate_stride. LSTM: i, f, g, o. rnn: one.
  // GRU: n' (of R h + bR inside the reset product), r, z, n, so that columns [0, 3) belong to the
  // recurrent side and [1, 4) to the input side.
  Real* dgates;
  int64_t dgates_ld, dgate_stride;
  Real* db;           // sums of dgates over rows are added here, gate g at g*dgate_stride
  Real* unprojected;  // LSTM: receives o tanh(c); null: not wanted
  int64_t unprojected_ld;
  bool clip;  // LSTM
  Real clip_min, clip_max;
};

template <typename Real, typename Weight>
struct PanelKernels {
  void (*gemm)(const PanelGemmArgs<Real, Weight>&);
  void (*row_gemm)(const RowGemmArgs<Real, Weight>&);  // without panels
  // panel (k, j) = w[j*ld + k], or w[k*ld + j], for j < columns; 0 for columns <= j < V. Element
  // (k, j) is at k*panel_ld + j, in a panel at k*V + j.
  void (*pack_transposed)(const Weight* w, int64_t ld, int64_t columns, int64_t K, Weight* panel,
                          int64_t panel_ld);
  void (*pack)(const Weight* w, int64_t ld, int64_t columns, int64_t K, Weight* panel);
};

// Arrays of a 16-bit type to float32 and back.
template <typename Half>
struct ConvertKernels {
  void (*widen)(const Half* from, float* to, int64_t n);
  void (*narrow)(const float* from, Half* to, int64_t n);
};

template <typename Real>
struct KernelTable {
  const char* isa;
  int lanes;
  PanelKernels<Real, Real> panels;
  // Indexed by Mode.
  void (*cell_forward[4])(const CellForwardArgs<Real>&);
  void (*cell_backward[4])(const CellBackwardArgs<Real>&);
  // y[i] = f(x[i]) for i < n: the activations of the cells, for tests of their error bounds.
  void (*sigmoid)(const Real* x, Real* y, int64_t n);
  void (*tanh)(const Real* x, Real* y, int64_t n);
  // Does `iterations` rounds of independent multiply-adds in registers; returns the operations (2
  // per multiply-add) done. `sink` receives a value that depends on all of them.
  double (*fma_rounds)(int64_t iterations, Real* sink);
  // Reads n elements, a multiple of 8*V (the rest is left out), as fast as loads go; returns a
  // value that depends on them.
  Real (*read_all)(const Real* data, int64_t n);
};

struct HalfKernelTable {
  PanelKernels<float, Float16> f16_panels;
  PanelKernels<float, BFloat16> bf16_panels;
  ConvertKernels<Float16> f16;
  ConvertKernels<BFloat16> bf16;
};

// The tables of an instruction set, by the types that are asked for: (float | double), and for
// panels also (float, 16-bit type).
template <typename Real>
const KernelTable<Real>& Kernels(Isa isa);
template <typename Real, typename Weight>
const PanelKernels<Real, Weight>& Panels(Isa isa);
template <typename Half>
const ConvertKernels<Half>& Converters(Isa isa);

// The tables themselves, one per build of kernels.cc.
#define FUSED_RNN_DECLARE_TABLES(isa)                  \
  namespace isa {                                      \
  extern const KernelTable<float> kKernelTableFloat;   \
  extern const KernelTable<double> kKernelTableDouble; \
  extern const HalfKernelTable kHalfKernelTable;       \
  }
FUSED_RNN_DECLARE_TABLES(scalar)
FUSED_RNN_DECLARE_TABLES(avx2)
FUSED_RNN_DECLARE_TABLES(avx512)
#undef FUSED_RNN_DECLARE_TABLES

}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_KERNEL_TABLE_H_
