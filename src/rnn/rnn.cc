// The entry points of rnn.h: checks, plans, and the choice of weight format.
#include "fused_rnn/rnn.h"

#include <string>

#include "base/check.h"
#include "base/cpu.h"
#include "base/execution.h"
#include "rnn/param_layout.h"
#include "rnn/passes.h"
#include "rnn/staged.h"
#include "rnn/weight_format.h"

namespace fused_rnn {
namespace {

// A null pointer is allowed where the tensor has no element.
void CheckPointer(const char* name, const void* pointer, int64_t elements) {
  FUSED_RNN_CHECK(pointer != nullptr || elements == 0, "%s: expected %lld elements, got null", name,
                  static_cast<long long>(elements));
}

template <typename Args>
void CheckInputs(const Dims& dims, const Args& args) {
  const int64_t LDN = dims.L * dims.D * dims.N;
  CheckPointer("x", args.x, dims.T * dims.N * dims.I);
  CheckPointer("params", args.params, ParamLayout(dims).size());
  CheckPointer("h0", args.h0, LDN * dims.S);
  if (dims.cell().cell_state) CheckPointer("c0", args.c0, LDN * dims.H);
  CheckPointer("y", args.y, dims.T * dims.N * dims.D * dims.S);
  CheckPointer("workspace", args.workspace, 1);
}

void CheckGradient(const char* name, const void* pointer, Request request) {
  FUSED_RNN_CHECK(request == Request::kNull || pointer != nullptr,
                  "%s: expected a buffer, as it is requested, got null", name);
}

}  // namespace

int64_t ParamCount(const Problem& problem) { return ParamLayout(Dims(problem)).size(); }

size_t ForwardWorkspaceBytes(const Problem& problem, bool training) {
  const Dims dims(problem);
  const int64_t bytes = ForwardPlan(dims, training, LanesFor(dims, ActiveIsa())).bytes();
  return dims.half() ? StagedForwardPlan(dims, training, bytes).bytes() : bytes;
}

size_t BackwardWorkspaceBytes(const Problem& problem) {
  const Dims dims(problem);
  const int64_t bytes = BackwardPlan(dims, LanesFor(dims, ActiveIsa())).bytes();
  return dims.half() ? StagedBackwardPlan(dims, bytes).bytes() : bytes;
}

size_t ReserveBytes(const Problem& problem) {
  const Dims dims(problem);
  return ReservePlan(dims, LanesFor(dims, ActiveIsa())).bytes();
}

void Forward(const Problem& problem, const ForwardArgs& args) {
  const Dims dims(problem);
  const Execution execution(args.interrupt);
  CheckInputs(dims, args);
  if (args.packed != nullptr) args.packed->CheckFits(problem, IsaName(execution.isa()));
  const Steps steps(dims, args.lengths);
  const int64_t lanes = LanesFor(dims, execution.isa());
  const bool training = args.reserve != nullptr;
  const ForwardPlan plan(dims, training, lanes);
  const ReservePlan reserve(dims, lanes);
  if (dims.half()) {
    const StagedForwardPlan staged(dims, training, plan.bytes());
    RunStagedForward(execution, dims, steps, args, staged, plan, reserve);
  } else {
    WithFormat(dims, [&](auto format) {
      RunForward<decltype(format)>(execution, dims, steps, args, plan, reserve);
    });
  }
  execution.ThrowIfInterrupted();
}

void Backward(const Problem& problem, const BackwardArgs& args) {
  const Dims dims(problem);
  const Execution execution(args.interrupt);
  CheckInputs(dims, args);
  const int64_t lanes = LanesFor(dims, execution.isa());
  const ReservePlan reserve(dims, lanes);
  CheckPointer("reserve", args.reserve, reserve.bytes());
  CheckGradient("dx", args.dx, dims.T * dims.N * dims.I > 0 ? args.dx_req : Request::kNull);
  CheckGradient("dparams", args.dparams, args.dparams_req);
  CheckGradient("dh0", args.dh0, dims.N > 0 ? args.dh0_req : Request::kNull);
  CheckGradient("dc0", args.dc0,
                dims.N > 0 && dims.cell().cell_state ? args.dc0_req : Request::kNull);
  const Steps steps(dims, args.lengths);
  const BackwardPlan plan(dims, lanes);
  if (dims.half()) {
    const StagedBackwardPlan staged(dims, plan.bytes());
    RunStagedBackward(execution, dims, steps, args, staged, plan, reserve);
  } else {
    WithFormat(dims, [&](auto format) {
      using Format = decltype(format);
      const auto* weights = static_cast<const typename Format::Weight*>(args.params);
      RunBackward<Format>(execution, dims, steps, args, weights, plan, reserve);
    });
  }
  execution.ThrowIfInterrupted();
}

const char* IsaName() { return IsaName(ActiveIsa()); }

int NumThreads() { return ActiveThreads(); }

void SetNumThreads(int threads) { SetActiveThreads(threads); }

const char* SupportedIsaNames() {
  static const std::string names = [] {
    std::string joined;
    for (Isa isa : kIsas) {
      if (IsSupported(isa)) joined += std::string(joined.empty() ? "" : " ") + IsaName(isa);
    }
    return joined;
  }();
  return names.c_str();
}

}  // namespace fused_rnn
