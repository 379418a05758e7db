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

#define FUSED_RNN_FORMAT(Format, dtype)                 \
  template <>                                           \
  const PanelKernels<Format>& Panels<Format>(Isa isa) { \
    return TablesOf(isa).panels.of_##Format;            \
  }
FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_FORMAT)
#undef FUSED_RNN_FORMAT

template <>
const ConvertKernels<Float16>& Converters<Float16>(Isa isa) {
  return TablesOf(isa).f16;
}
template <>
const ConvertKernels<BFloat16>& Converters<BFloat16>(Isa isa) {
  return TablesOf(isa).bf16;
}

}  // namespace fused_rnn
