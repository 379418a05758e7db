#include "kernels/kernel_table.h"

namespace fused_rnn {
namespace {

template <typename Table>
const Table& Choose(Isa isa, const Table& scalar_table, const Table& avx2_table,
                    const Table& avx512_table) {
  switch (isa) {
    case Isa::kAvx512:
      return avx512_table;
    case Isa::kAvx2:
      return avx2_table;
    default:
      return scalar_table;
  }
}

const HalfKernelTable& HalfKernels(Isa isa) {
  return Choose(isa, scalar::kHalfKernelTable, avx2::kHalfKernelTable, avx512::kHalfKernelTable);
}

}  // namespace

template <>
const KernelTable<float>& Kernels<float>(Isa isa) {
  return Choose(isa, scalar::kKernelTableFloat, avx2::kKernelTableFloat, avx512::kKernelTableFloat);
}
template <>
const KernelTable<double>& Kernels<double>(Isa isa) {
  return Choose(isa, scalar::kKernelTableDouble, avx2::kKernelTableDouble,
                avx512::kKernelTableDouble);
}

template <>
const PanelKernels<float, float>& Panels<float, float>(Isa isa) {
  return Kernels<float>(isa).panels;
}
template <>
const PanelKernels<double, double>& Panels<double, double>(Isa isa) {
  return Kernels<double>(isa).panels;
}
template <>
const PanelKernels<float, Float16>& Panels<float, Float16>(Isa isa) {
  return HalfKernels(isa).f16_panels;
}
template <>
const PanelKernels<float, BFloat16>& Panels<float, BFloat16>(Isa isa) {
  return HalfKernels(isa).bf16_panels;
}

template <>
const ConvertKernels<Float16>& Converters<Float16>(Isa isa) {
  return HalfKernels(isa).f16;
}
template <>
const ConvertKernels<BFloat16>& Converters<BFloat16>(Isa isa) {
  return HalfKernels(isa).bf16;
}

}  // namespace fused_rnn
