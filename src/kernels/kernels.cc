// All kernels for one instruction set. The build compiles this file once per set, with
// FUSED_RNN_ISA naming it and the flags of its entry in base/isas.def. Everything is in a namespace
// of that name and nothing from the standard library is instantiated here: an inline function
// compiled with AVX-512 could otherwise be the copy that the linker keeps for all.
#include "kernels/kernel_table.h"

// False alarms inside GCC's own intrinsics, whose "undefined" operands are never read (GCC bug
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include "cells/cells.h"
#include "kernels/half-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/panel_gemm-inl.h"
#include "kernels/probes-inl.h"
#include "kernels/row_gemm-inl.h"

#define FUSED_RNN_STRING(token) #token
#define FUSED_RNN_NAME(token) FUSED_RNN_STRING(token)

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// A format with kernels of its own specializes this.
template <typename Format>
constexpr PanelKernels<Format> MakePanels() {
  return {PanelGemm<Format>, RowGemm<Format>, PackPanelTransposed<Format>, PackPanel<Format>};
}

#define FUSED_RNN_CELL_KERNELS(name, c_name, value) k##name##Kernels<Real>,
template <typename Real>
constexpr CellKernels<Real> kCellKernels[] = {FUSED_RNN_MODES(FUSED_RNN_CELL_KERNELS)};

template <typename Real>
constexpr KernelTable<Real> MakeTable() {
  return {
      FUSED_RNN_NAME(FUSED_RNN_ISA),
      kLanes<Real>,
      kCellKernels<Real>,
      MapArray<Real, Sigmoid<Real>>,
      MapArray<Real, Tanh<Real>>,
      FmaRounds<Real>,
      ReadAll<Real>,
  };
}

}  // namespace

const IsaTables kTables = {
    MakeTable<float>(),
    MakeTable<double>(),
    {WidenArray<Float16>, NarrowArray<Float16>},
    {WidenArray<BFloat16>, NarrowArray<BFloat16>},
    {
#define FUSED_RNN_FORMAT(Format, dtype) MakePanels<Format>(),
        FUSED_RNN_WEIGHT_FORMATS(FUSED_RNN_FORMAT)
#undef FUSED_RNN_FORMAT
    },
};

}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn
