#include "kernels/kernel_table.h"

namespace fused_rnn {

const IsaTables& TablesOf(Isa isa) {
  static constexpr const IsaTables* kByIsa[] = {
#define FUSED_RNN_ISA_ENTRY(name, base, flags, features) &name::kTables,
#include "base/isas.def"
  };
  return *kByIsa[static_cast<int>(isa)];
}

template <>
const KernelTable<float>& Kernels<float>(Isa isa) {
  return TablesOf(isa).f32;
}
template <>
const KernelTable<double>& Kernels<double>(Isa isa) {
  return TablesOf(isa).f64;
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
  return TablesOf(isa).half.f16_panels;
}
template <>
const PanelKernels<float, BFloat16>& Panels<float, BFloat16>(Isa isa) {
  return TablesOf(isa).half.bf16_panels;
}

template <>
const ConvertKernels<Float16>& Converters<Float16>(Isa isa) {
  return TablesOf(isa).half.f16;
}
template <>
const ConvertKernels<BFloat16>& Converters<BFloat16>(Isa isa) {
  return TablesOf(isa).half.bf16;
}

}  // namespace fused_rnn
