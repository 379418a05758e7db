#include "rnn/packed_weights.h"

#include <cstring>

#include "base/check.h"
#include "base/execution.h"
#include "base/team.h"
#include "rnn/param_layout.h"
#include "rnn/weight_format.h"

namespace fused_rnn {
namespace {

template <typename Format>
void PackAll(const Execution& execution, const Dims& dims, const typename Format::Weight* params,
             const PackedPlan& plan, void* data) {
  const PanelKernels<Format>& kernels = Panels<Format>(execution.isa());
  const ForwardPlan layouts(dims, /*training=*/false, LanesFor(dims, execution.isa()));
  const ParamLayout where(dims);
  for (int64_t l = 0; l < dims.L; ++l) {
    for (int64_t d = 0; d < dims.D; ++d) {
      const PackedPart<Format> part(dims, layouts, plan, data, l, d);
      const auto pack = [&](const PanelLayout& layout, int64_t from,
                            typename Format::Packed* panels) {
        const double work = static_cast<double>(layout.size());
        ParallelFor(execution, work, layout.blocks(), [&](int64_t begin, int64_t end) {
          PackBlocks(kernels, layout, params + from, begin, end - begin, panels);
        });
      };
      FoldBiases(dims, params + where.bW(l, d), params + where.bR(l, d),
                 params + where.UnitWeights(l, d), part.bias);
      pack(layouts.Input(l), where.W(l, d), part.input);
      for (int64_t s = 0; s < layouts.recurrent.stages; ++s) {
        pack(layouts.recurrent.stage[s],
             where.R(l, d) + dims.cell().FirstGate(static_cast<int>(s)) * dims.H * dims.S,
             part.recurrent + layouts.recurrent.Offset(s));
      }
      pack(layouts.projection, where.Wp(l, d), part.projection);
    }
  }
}

}  // namespace

PackedPlan::PackedPlan(const Dims& dims, int64_t V) : RegionPlan(0) {
  const ForwardPlan layouts(dims, /*training=*/false, V);
  const int64_t LD = dims.L * dims.D, real = dims.ComputedBytes(), weight = PackedBytes(dims);
  bias = Add(real * LD * dims.cell().vectors() * dims.H);
  first_input = Add(weight * dims.D * layouts.Input(0).size());
  upper_inputs = Add(weight * (LD - dims.D) * layouts.Input(1).size());
  recurrent = Add(weight * LD * layouts.recurrent.size());
  projection = Add(weight * LD * layouts.projection.size());
}

PackedWeights::PackedWeights(const Problem& problem, const void* params, const Interrupt& interrupt)
    : problem_(problem) {
  const Dims dims(problem);
  const Execution execution(interrupt);
  isa_ = IsaName(execution.isa());
  FUSED_RNN_CHECK(params != nullptr, "params: expected %lld elements, got null",
                  static_cast<long long>(ParamLayout(dims).size()));
  const PackedPlan plan(dims, LanesFor(dims, execution.isa()));
  bytes_ = static_cast<size_t>(plan.bytes());
  void* data = memory_.Resize(bytes_);
  WithFormat(dims, [&](auto format) {
    using Format = decltype(format);
    PackAll<Format>(execution, dims, static_cast<const typename Format::Weight*>(params), plan,
                    data);
  });
  execution.ThrowIfInterrupted();
}

void PackedWeights::CheckFits(const Problem& problem, const char* isa) const {
  const Problem& own = problem_;
  FUSED_RNN_CHECK(own.mode == problem.mode && own.dtype == problem.dtype && own.I == problem.I &&
                      own.H == problem.H && own.L == problem.L && own.D == problem.D &&
                      own.P == problem.P,
                  "packed: expected weights of a problem with this mode, dtype, I, H, L, D and P, "
                  "got those of another");
  FUSED_RNN_CHECK(std::strcmp(isa_, isa) == 0, "packed: expected weights packed for '%s', got '%s'",
                  isa, isa_);
}

}  // namespace fused_rnn
