#include "kernels/kernel_table.h"

namespace fused_rnn {

template <>
const KernelTable<float>& Kernels<float>() {
  switch (ActiveIsa()) {
    case Isa::kAvx512: return avx512::kKernelTableFloat;
    case Isa::kAvx2: return avx2::kKernelTableFloat;
    default: return scalar::kKernelTableFloat;
  }
}

template <>
const KernelTable<double>& Kernels<double>() {
  switch (ActiveIsa()) {
    case Isa::kAvx512: return avx512::kKernelTableDouble;
    case Isa::kAvx2: return avx2::kKernelTableDouble;
    default: return scalar::kKernelTableDouble;
  }
}

}  // namespace fused_rnn
