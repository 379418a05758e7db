// The kernels of an instruction set one by one, for what does the same with each of them: tests and
// benchmarks.
//
// A kernel is a type here, so that a visitor with nothing to do for one of them does not compile.
// kName and kType (a type or a weight format) name it, Of(isa) is the function.
#ifndef FUSED_RNN_KERNELS_KERNEL_LIST_H_
#define FUSED_RNN_KERNELS_KERNEL_LIST_H_

#include "kernels/kernel_table.h"

namespace fused_rnn {
namespace kernel {

template <typename Format>
struct Gemm {
  static constexpr const char* kType = Format::kName;
  static constexpr const char* kName = "gemm";
  static auto Of(Isa isa) { return Panels<Format>(isa).gemm; }
};

template <typename Format>
struct RowGemm {
  static constexpr const char* kType = Format::kName;
  static constexpr const char* kName = "row_gemm";
  static auto Of(Isa isa) { return Panels<Format>(isa).row_gemm; }
};

template <typename Format>
struct PackTransposed {
  static constexpr const char* kType = Format::kName;
  static constexpr const char* kName = "pack_transposed";
  static auto Of(Isa isa) { return Panels<Format>(isa).pack_transposed; }
};

template <typename Format>
struct Pack {
  static constexpr const char* kType = Format::kName;
  static constexpr const char* kName = "pack";
  static auto Of(Isa isa) { return Panels<Format>(isa).pack; }
};

// Both passes of the cells of all modes.
template <typename Real>
struct Cells {
  static constexpr const char* kType = kTypeName<Real>;
  static constexpr const char* kName = "cells";
  static auto Of(Isa isa) { return Kernels<Real>(isa).cells; }
};

template <typename Real>
struct Sigmoid {
  static constexpr const char* kType = kTypeName<Real>;
  static constexpr const char* kName = "sigmoid";
  static auto Of(Isa isa) { return Kernels<Real>(isa).sigmoid; }
};

template <typename Real>
struct Tanh {
  static constexpr const char* kType = kTypeName<Real>;
  static constexpr const char* kName = "tanh";
  static auto Of(Isa isa) { return Kernels<Real>(isa).tanh; }
};

template <typename Real>
struct FmaRounds {
  static constexpr const char* kType = kTypeName<Real>;
  static constexpr const char* kName = "fma_rounds";
  static auto Of(Isa isa) { return Kernels<Real>(isa).fma_rounds; }
};

template <typename Real>
struct ReadAll {
  static constexpr const char* kType = kTypeName<Real>;
  static constexpr const char* kName = "read_all";
  static auto Of(Isa isa) { return Kernels<Real>(isa).read_all; }
};

template <typename Half>
struct Widen {
  static constexpr const char* kType = kTypeName<Half>;
  static constexpr const char* kName = "widen";
  static auto Of(Isa isa) { return Converters<Half>(isa).widen; }
};

template <typename Half>
struct Narrow {
  static constexpr const char* kType = kTypeName<Half>;
  static constexpr const char* kName = "narrow";
  static auto Of(Isa isa) { return Converters<Half>(isa).narrow; }
};

}  // namespace kernel

// visit(K()) for each kernel K in a table. The members are named here so that one more in a table,
// which would be missing below, does not compile.
template <typename Format, typename Visitor>
void ForEachKernelOf(const PanelKernels<Format>& table, const Visitor& visit) {
  [[maybe_unused]] const auto& [gemm, row_gemm, pack_transposed, pack] = table;
  visit(kernel::Gemm<Format>());
  visit(kernel::RowGemm<Format>());
  visit(kernel::PackTransposed<Format>());
  visit(kernel::Pack<Format>());
}

template <typename Half, typename Visitor>
void ForEachKernelOf(const ConvertKernels<Half>& table, const Visitor& visit) {
  [[maybe_unused]] const auto& [widen, narrow] = table;
  visit(kernel::Widen<Half>());
  visit(kernel::Narrow<Half>());
}

template <typename Real, typename Visitor>
void ForEachKernelOf(const KernelTable<Real>& table, const Visitor& visit) {
  [[maybe_unused]] const auto& [isa, lanes, cells, sigmoid, tanh, fma_rounds, read_all] = table;
  visit(kernel::Cells<Real>());
  visit(kernel::Sigmoid<Real>());
  visit(kernel::Tanh<Real>());
  visit(kernel::FmaRounds<Real>());
  visit(kernel::ReadAll<Real>());
}

// All kernels; every instruction set has the same.
template <typename Visitor>
void ForEachKernel(const Visitor& visit) {
  const auto& [f32, f64, f16, bf16, panels] = TablesOf(kIsas[0]);
#define FUSED_RNN_FORMAT(Format, dtype) ForEachKernelOf(panels.of_##Format, visit);
  FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_FORMAT)
#undef FUSED_RNN_FORMAT
  ForEachKernelOf(f32, visit);
  ForEachKernelOf(f64, visit);
  ForEachKernelOf(f16, visit);
  ForEachKernelOf(bf16, visit);
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_KERNEL_LIST_H_
