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

struct HalfKernelTable {
  PanelKernels<float, Float16> f16_panels;
  PanelKernels<float, BFloat16> bf16_panels;
  ConvertKernels<Float16> f16;
  ConvertKernels<BFloat16> bf16;
};

// All tables of an instruction set.
struct IsaTables {
  KernelTable<float> f32;
  KernelTable<double> f64;
  HalfKernelTable half;
};
const IsaTables& TablesOf(Isa isa);

// The same by the types that are asked for: (float | double), and for panels also (float, 16-bit
// type).
template <typename Real>
const KernelTable<Real>& Kernels(Isa isa);
template <typename Real, typename Weight>
const PanelKernels<Real, Weight>& Panels(Isa isa);
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
