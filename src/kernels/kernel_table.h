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
#include "cells/cell.h"
#include "kernels/weight_formats.h"

namespace fused_rnn {

// c [rows, count*V] = (accumulate ? c : 0) + a [rows, K] * panels.
// A panel holds V columns of the right-hand matrix for all K, as the format says
// (weight_formats.h), 64-byte aligned; `count` panels lie one after another. While it computes, it
// fetches the same number of bytes from `prefetch` (may be null) towards the cache.
template <typename Format>
struct PanelGemmArgs {
  using Real = typename Format::Real;
  using Packed = typename Format::Packed;
  int64_t rows, K, count;
  const Real* a;
  int64_t a_ld;
  const Packed* panels;
  Real* c;
  int64_t c_ld;
  bool accumulate;
  const Packed* prefetch;
};

// c [rows, columns] = a [rows, K] * w^T, w [columns, K] as the caller stores it.
template <typename Format>
struct RowGemmArgs {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  int64_t rows, K, columns;
  const Real* a;
  int64_t a_ld;
  const Weight* w;
  int64_t w_ld;
  Real* c;
  int64_t c_ld;
};

// The kernels of a weight format.
template <typename Format>
struct PanelKernels {
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;
  void (*gemm)(const PanelGemmArgs<Format>&);
  void (*row_gemm)(const RowGemmArgs<Format>&);  // without panels
  // panel (k, j) = w[j*ld + k], or w[k*ld + j], for j < columns; 0 for columns <= j < V. panel_ld
  // is V, or, where the format has no groups, any other distance of k's.
  void (*pack_transposed)(const Weight* w, int64_t ld, int64_t columns, int64_t K, Packed* panel,
                          int64_t panel_ld);
  void (*pack)(const Weight* w, int64_t ld, int64_t columns, int64_t K, Packed* panel);
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
  const CellKernels<Real>* cells;  // indexed by Mode
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

// All tables of an instruction set.
struct IsaTables {
  KernelTable<float> f32;
  KernelTable<double> f64;
  ConvertKernels<Float16> f16;
  ConvertKernels<BFloat16> bf16;
  struct {
#define FUSED_RNN_FORMAT(Format, dtype) PanelKernels<Format> of_##Format;
    FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_FORMAT)
#undef FUSED_RNN_FORMAT
  } panels;
};
const IsaTables& TablesOf(Isa isa);

// The same by the types that are asked for: (float | double), a weight format, a 16-bit type.
template <typename Real>
const KernelTable<Real>& Kernels(Isa isa);
template <typename Format>
const PanelKernels<Format>& Panels(Isa isa);
template <typename Half>
const ConvertKernels<Half>& Converters(Isa isa);

// The tables themselves, one per build of kernels.cc.
#define FUSED_RNN_ISA_ENTRY(name, base, flags, features) \
  namespace name {                                       \
  extern const IsaTables kTables;                        \
  }
#include "base/isas.def"

}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_KERNEL_TABLE_H_
