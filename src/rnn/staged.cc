#include "rnn/staged.h"

#include <type_traits>

#include "base/team.h"
#include "kernels/kernel_table.h"
#include "rnn/weight_format.h"

namespace fused_rnn {
namespace {

template <typename Half>
class Stage {
 public:
  Stage(const Execution& execution, void* workspace)
      : execution_(execution), workspace_(workspace) {}

  // The tensor in float32, in `region`. Null stays null.
  const float* In(const void* tensor, const Region& region) const {
    if (tensor == nullptr) return nullptr;
    const Half* from = static_cast<const Half*>(tensor);
    float* to = Buffer(region);
    ForEachPart(region, [&](int64_t begin, int64_t end) {
      kernels_.widen(from + begin, to + begin, end - begin);
    });
    return to;
  }

  float* Buffer(const Region& region) const { return region.template In<float>(workspace_); }
  float* BufferFor(const void* tensor, const Region& region) const {
    return tensor != nullptr ? Buffer(region) : nullptr;
  }

  // The caller's tensor = `region`.
  void Out(const Region& region, void* tensor) const {
    if (tensor != nullptr) Out(Buffer(region), region, tensor);
  }
  // The caller's tensor = what is at `from`, in the shape of `region`.
  void Out(const float* from, const Region& region, void* tensor) const {
    Half* to = static_cast<Half*>(tensor);
    ForEachPart(region, [&](int64_t begin, int64_t end) {
      kernels_.narrow(from + begin, to + begin, end - begin);
    });
  }

 private:
  template <typename Body>
  void ForEachPart(const Region& region, const Body& body) const {
    const int64_t n = region.bytes / 4;
    ParallelFor(execution_, static_cast<double>(n), n, body);
  }

  const Execution& execution_;
  void* workspace_;
  const ConvertKernels<Half>& kernels_ = Converters<Half>(execution_.isa());
};

template <typename Format>
void StageForward(const Execution& execution, const Dims& dims, const Steps& steps,
                  const ForwardArgs& args, const StagedForwardPlan& staged, const ForwardPlan& plan,
                  const ReservePlan& reserve) {
  const Stage<typename Format::Weight> stage(execution, args.workspace);
  ForwardArgs inner = args;
  inner.x = stage.In(args.x, staged.x);
  inner.h0 = stage.In(args.h0, staged.h0);
  inner.c0 = stage.In(args.c0, staged.c0);
  const bool training = args.reserve != nullptr;
  float* y = training ? reserve.y_top.In<float>(args.reserve) : stage.Buffer(staged.y);
  inner.y = y;
  inner.hN = stage.BufferFor(args.hN, staged.hN);
  inner.cN = stage.BufferFor(args.cN, staged.cN);
  inner.workspace = staged.inner.In<void>(args.workspace);
  RunForward<Format>(execution, dims, steps, inner, plan, reserve);
  stage.Out(y, training ? reserve.y_top : staged.y, args.y);
  stage.Out(staged.hN, args.hN);
  stage.Out(staged.cN, args.cN);
}

template <typename Format>
void StageBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                   const BackwardArgs& args, const StagedBackwardPlan& staged,
                   const BackwardPlan& plan, const ReservePlan& reserve) {
  using Weight = typename Format::Weight;
  const Stage<Weight> stage(execution, args.workspace);
  BackwardArgs inner = args;
  inner.x = stage.In(args.x, staged.x);
  inner.params = stage.In(args.params, staged.params);
  inner.h0 = stage.In(args.h0, staged.h0);
  inner.c0 = stage.In(args.c0, staged.c0);
  inner.y = reserve.y_top.In<float>(args.reserve);
  inner.dy = stage.In(args.dy, staged.dy);
  inner.dhN = stage.In(args.dhN, staged.hN);
  inner.dcN = stage.In(args.dcN, staged.cN);
  // With kAdd the copy starts as what is there, so that the sum is rounded once.
  const auto gradient = [&](void* tensor, Request request, const Region& region) -> float* {
    if (request == Request::kNull || tensor == nullptr) return nullptr;
    if (request == Request::kAdd) stage.In(tensor, region);
    return stage.Buffer(region);
  };
  inner.dx = gradient(args.dx, args.dx_req, staged.dx);
  inner.dparams = gradient(args.dparams, args.dparams_req, staged.dparams);
  inner.dh0 = gradient(args.dh0, args.dh0_req, staged.dh0);
  inner.dc0 = gradient(args.dc0, args.dc0_req, staged.dc0);
  inner.workspace = staged.inner.In<void>(args.workspace);
  RunBackward<Format>(execution, dims, steps, inner, static_cast<const Weight*>(args.params), plan,
                      reserve);
  if (inner.dx != nullptr) stage.Out(staged.dx, args.dx);
  if (inner.dparams != nullptr) stage.Out(staged.dparams, args.dparams);
  if (inner.dh0 != nullptr) stage.Out(staged.dh0, args.dh0);
  if (inner.dc0 != nullptr) stage.Out(staged.dc0, args.dc0);
}

// Whether tensors with such weights are stored in another type than they are computed in.
template <typename Format>
constexpr bool kStaged = !std::is_same_v<typename Format::Real, typename Format::Weight>;

}  // namespace

void RunStagedForward(const Execution& execution, const Dims& dims, const Steps& steps,
                      const ForwardArgs& args, const StagedForwardPlan& staged,
                      const ForwardPlan& plan, const ReservePlan& reserve) {
  WithFormat(dims, [&](auto format) {
    using Format = decltype(format);
    if constexpr (kStaged<Format>)
      StageForward<Format>(execution, dims, steps, args, staged, plan, reserve);
  });
}

void RunStagedBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                       const BackwardArgs& args, const StagedBackwardPlan& staged,
                       const BackwardPlan& plan, const ReservePlan& reserve) {
  WithFormat(dims, [&](auto format) {
    using Format = decltype(format);
    if constexpr (kStaged<Format>)
      StageBackward<Format>(execution, dims, steps, args, staged, plan, reserve);
  });
}

}  // namespace fused_rnn
