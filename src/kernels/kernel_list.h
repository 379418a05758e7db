// The kernels of an instruction set one by one, for what does the same with each of them: tests and
// benchmarks.
//
// A kernel is a type here, so that a visitor with nothing to do for one of them does not compile.
// kName and kTypeName<Type> name it, Of(isa) is the function.
#ifndef FUSED_RNN_KERNELS_KERNEL_LIST_H_
#define FUSED_RNN_KERNELS_KERNEL_LIST_H_

#include "kernels/kernel_table.h"

namespace fused_rnn {

template <typename T>
constexpr const char* kTypeName = nullptr;
template <>
constexpr const char* kTypeName<float> = "float32";
template <>
constexpr const char* kTypeName<double> = "float64";
template <>
constexpr const char* kTypeName<Float16> = "float16";
template <>
constexpr const char* kTypeName<BFloat16> = "bfloat16";

namespace kernel {

template <typename Real, typename Weight>
struct Gemm {
  using Type = Weight;
  static constexpr const char* kName = "gemm";
  static auto Of(Isa isa) { return Panels<Real, Weight>(isa).gemm; }
};

template <typename Real, typename Weight>
struct RowGemm {
  using Type = Weight;
  static constexpr const char* kName = "row_gemm";
  static auto Of(Isa isa) { return Panels<Real, Weight>(isa).row_gemm; }
};

template <typename Real, typename Weight>
struct PackTransposed {
  using Type = Weight;
  static constexpr const char* kName = "pack_transposed";
  static auto Of(Isa isa) { return Panels<Real, Weight>(isa).pack_transposed; }
};

template <typename Real, typename Weight>
struct Pack {
  using Type = Weight;
  static constexpr const char* kName = "pack";
  static auto Of(Isa isa) { return Panels<Real, Weight>(isa).pack; }
};

// Both passes of the cells of all modes.
template <typename Real>
struct Cells {
  using Type = Real;
  static constexpr const char* kName = "cells";
  static auto Of(Isa isa) { return Kernels<Real>(isa).cells; }
};

template <typename Real>
struct Sigmoid {
  using Type = Real;
  static constexpr const char* kName = "sigmoid";
  static auto Of(Isa isa) { return Kernels<Real>(isa).sigmoid; }
};

template <typename Real>
struct Tanh {
  using Type = Real;
  static constexpr const char* kName = "tanh";
  static auto Of(Isa isa) { return Kernels<Real>(isa).tanh; }
};

template <typename Real>
struct FmaRounds {
  using Type = Real;
  static constexpr const char* kName = "fma_rounds";
  static auto Of(Isa isa) { return Kernels<Real>(isa).fma_rounds; }
};

template <typename Real>
struct ReadAll {
  using Type = Real;
  static constexpr const char* kName = "read_all";
  static auto Of(Isa isa) { return Kernels<Real>(isa).read_all; }
};

template <typename Half>
struct Widen {
  using Type = Half;
  static constexpr const char* kName = "widen";
  static auto Of(Isa isa) { return Converters<Half>(isa).widen; }
};

template <typename Half>
struct Narrow {
  using Type = Half;
  static constexpr const char* kName = "narrow";
  static auto Of(Isa isa) { return Converters<Half>(isa).narrow; }
};

}  // namespace kernel

// visit(K()) for each kernel K in a table. The members are named here so that one more in a table,
// which would be missing below, does not compile.
template <typename Real, typename Weight, typename Visitor>
void ForEachKernelOf(const PanelKernels<Real, Weight>& table, const Visitor& visit) {
  [[maybe_unused]] const auto& [gemm, row_gemm, pack_transposed, pack] = table;
  visit(kernel::Gemm<Real, Weight>());
  visit(kernel::RowGemm<Real, Weight>());
  visit(kernel::PackTransposed<Real, Weight>());
  visit(kernel::Pack<Real, Weight>());
}

template <typename Half, typename Visitor>
void ForEachKernelOf(const ConvertKernels<Half>& table, const Visitor& visit) {
  [[maybe_unused]] const auto& [widen, narrow] = table;
  visit(kernel::Widen<Half>());
  visit(kernel::Narrow<Half>());
}

template <typename Real, typename Visitor>
void ForEachKernelOf(const KernelTable<Real>& table, const Visitor& visit) {
  [[maybe_unused]] const auto& [isa, lanes, panels, cells, sigmoid, tanh, fma_rounds, read_all] =
      table;
  ForEachKernelOf(panels, visit);
  visit(kernel::Cells<Real>());
  visit(kernel::Sigmoid<Real>());
  visit(kernel::Tanh<Real>());
  visit(kernel::FmaRounds<Real>());
  visit(kernel::ReadAll<Real>());
}

template <typename Visitor>
void ForEachKernelOf(const HalfKernelTable& table, const Visitor& visit) {
  const auto& [f16_panels, bf16_panels, f16, bf16] = table;
  ForEachKernelOf(f16_panels, visit);
  ForEachKernelOf(bf16_panels, visit);
  ForEachKernelOf(f16, visit);
  ForEachKernelOf(bf16, visit);
}

// All kernels; every instruction set has the same.
template <typename Visitor>
void ForEachKernel(const Visitor& visit) {
  const auto& [f32, f64, half] = TablesOf(kIsas[0]);
  ForEachKernelOf(f32, visit);
  ForEachKernelOf(f64, visit);
  ForEachKernelOf(half, visit);
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_KERNEL_LIST_H_
