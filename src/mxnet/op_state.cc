#include "op_state.h"

#include <mshadow/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_set>

#include "lengths.h"
#include "openmp.h"
#include "staging.h"

namespace fused_rnn {
namespace mx {
namespace {

struct LiveStates {
  std::mutex mutex;
  std::unordered_set<const void*> states;

  // Outlives static destructors, as states do.
  static LiveStates& Get() {
    static LiveStates* live = new LiveStates;
    return *live;
  }
};

std::atomic<bool> recomputes{false};

size_t ByteCount(const Tensor& tensor) {
  return tensor.size * mshadow::mshadow_sizeof(tensor.type);
}

// Elements of the tensors that are sized by more than T, N and I.
struct Sizes {
  explicit Sizes(const Problem& problem) {
    const int64_t S = StateSize(problem);
    y = problem.T * problem.N * problem.D * S;
    h = problem.L * problem.D * problem.N * S;
    c = problem.L * problem.D * problem.N * problem.H;
  }
  int64_t y, h, c;
};

// The core wants a pointer even to nothing.
void* DataOf(const Tensor& tensor) {
  static char nothing;
  return ByteCount(tensor) == 0 ? &nothing : tensor.data;
}

// Shapes were inferred from the forward's inputs, but head gradients are what the caller gave.
void CheckTensor(const char* name, const Tensor& tensor, const Tensor& x, int64_t size) {
  if (tensor.type != x.type) {
    Fail(std::string(name) + " has type " + TypeName(tensor.type) + ", expected that of data, " +
         TypeName(x.type));
  }
  if (tensor.size != size) {
    Fail(std::string(name) + " has " + std::to_string(tensor.size) + " elements, expected " +
         std::to_string(size));
  }
}

uint64_t HashOf(const Tensor& tensor) { return HashBytes(tensor.data, ByteCount(tensor)); }

bool SameSizes(const Problem& a, const Problem& b) {
  return a.T == b.T && a.N == b.N && a.I == b.I && a.dtype == b.dtype;
}

// Multiply-adds of a forward: each weight meets each row.
double WorkOf(const Problem& problem) {
  return static_cast<double>(problem.T) * problem.N * ParamCount(problem);
}

uint64_t DrawSeed(const mxnet::OpContext& ctx) {
  for (const mxnet::Resource& resource : ctx.requested) {
    if (resource.req.type != mxnet::ResourceRequest::kRandom) continue;
    auto* generator = resource.get_random<mshadow::cpu, float>(nullptr);
    const uint64_t high = generator->GetRandInt();
    return high << 32 | generator->GetRandInt();
  }
  Fail("no random generator for dropout");
}

}  // namespace

OpState::Stamp OpState::StampOf(const Tensor& tensor) {
  return {tensor.data, tensor.variable, tensor.version, HashOf(tensor)};
}

// The same version says so at once. Another one does not mean a change: MXNet counts a write when
// the whole segment of operators that holds it ends, thus often between a forward and its backward.
// Then the contents decide.
bool OpState::IsUnchanged(const Stamp& stamp, const Tensor& tensor) {
  const bool same_version = stamp.variable != nullptr && stamp.variable == tensor.variable &&
                            stamp.version == tensor.version && stamp.data == tensor.data;
  return same_version || stamp.hash == HashOf(tensor);
}

OpState::OpState(const abi::RnnParam& param)
    : param_(param), slots_(param), backward_slots_(param) {
  LiveStates& live = LiveStates::Get();
  std::lock_guard<std::mutex> lock(live.mutex);
  live.states.insert(this);
}

OpState::~OpState() {
  LiveStates& live = LiveStates::Get();
  std::lock_guard<std::mutex> lock(live.mutex);
  live.states.erase(this);
}

bool OpState::IsLive(const void* state) {
  LiveStates& live = LiveStates::Get();
  std::lock_guard<std::mutex> lock(live.mutex);
  return live.states.count(state) > 0;
}

int64_t OpState::LiveCount() {
  LiveStates& live = LiveStates::Get();
  std::lock_guard<std::mutex> lock(live.mutex);
  return static_cast<int64_t>(live.states.size());
}

bool OpState::SetRecompute(bool on) { return recomputes.exchange(on); }

Problem OpState::ProblemFor(const Tensor& x) const {
  Problem problem = ProblemOf(param_);
  problem.dtype = DTypeOf(x.type);
  problem.T = x.shape[0];
  problem.N = x.shape[1];
  problem.I = x.shape[2];
  return problem;
}

void OpState::RunForward(const Problem& problem, ForwardArgs args, bool training) {
  size_t bytes = ForwardWorkspaceBytes(problem, training);
  if (training) {
    // As much as the backward will take, so that one block of the pool serves both.
    bytes = std::max(bytes, BackwardWorkspaceBytes(problem));
    args.reserve = reserve_.Resize(ReserveBytes(problem));
  }
  Buffer workspace(BufferKind::kWorkspace);
  args.workspace = workspace.Resize(bytes);
  EndIdleThreads(WorkOf(problem));
  fused_rnn::Forward(problem, args);
}

void OpState::Forward(const mxnet::OpContext& ctx, const Tensors& inputs, const Requests& requests,
                      const Tensors& outputs) {
  recorded_.valid = false;
  const bool nothing_wanted =
      std::all_of(requests.begin(), requests.end(),
                  [](mxnet::OpReqType request) { return request == mxnet::kNullOp; });
  if (nothing_wanted) return;

  const Tensor& x = inputs[slots_.x];
  Problem problem = ProblemFor(x);
  const bool keeps_reserve = (ctx.is_train || ctx.need_grad) && !recomputes;
  recorded_.lengths.clear();
  recorded_.dropout_seed = 0;
  if (ctx.is_train && param_.p > 0 && problem.L > 1) {
    problem.dropout = param_.p;
    recorded_.dropout_seed = DrawSeed(ctx);
  }

  ForwardArgs args;
  args.dropout_seed = recorded_.dropout_seed;
  args.x = DataOf(x);
  args.params = DataOf(inputs[slots_.params]);
  args.h0 = DataOf(inputs[slots_.h0]);
  if (slots_.c0 != kAbsent) args.c0 = DataOf(inputs[slots_.c0]);
  if (slots_.lengths != kAbsent) {
    const Tensor& lengths = inputs[slots_.lengths];
    recorded_.lengths = ReadLengths(lengths.data, lengths.type, problem.N, problem.T);
    args.lengths = recorded_.lengths.data();
  }

  Staging staging;
  for (const Tensor& input : inputs) staging.AddInput(input.data, ByteCount(input));
  const auto add_output = [&](int slot) {
    return staging.AddOutput(DataOf(outputs[slot]), ByteCount(outputs[slot]), requests[slot],
                             false);
  };
  const int y = requests[slots_.y] != mxnet::kNullOp
                    ? add_output(slots_.y)
                    : staging.AddUnwanted(Sizes(problem).y * mshadow::mshadow_sizeof(x.type));
  const int hN = slots_.hN != kAbsent ? add_output(slots_.hN) : kAbsent;
  const int cN = slots_.cN != kAbsent ? add_output(slots_.cN) : kAbsent;
  staging.Place();
  args.y = staging.target(y);
  if (hN != kAbsent) args.hN = staging.target(hN);
  if (cN != kAbsent) args.cN = staging.target(cN);

  if (keeps_reserve) {
    // Before the outputs are written: they may be inputs.
    recorded_.x = StampOf(x);
    recorded_.params = StampOf(inputs[slots_.params]);
    recorded_.h0 = StampOf(inputs[slots_.h0]);
    if (slots_.c0 != kAbsent) recorded_.c0 = StampOf(inputs[slots_.c0]);
    recorded_.y = DataOf(outputs[slots_.y]);
  }
  recorded_.problem = problem;
  // The core drops only where it can note in a reserve what it dropped. Otherwise a training
  // forward gives the bits of a prediction, which is faster.
  RunForward(problem, args, keeps_reserve || problem.dropout > 0);
  staging.Commit(x.type);
  recorded_.valid = keeps_reserve;
  if (!keeps_reserve) reserve_.Release();
}

bool OpState::IsRecorded(const Problem& problem, const std::vector<int64_t>& lengths,
                         const BackwardArgs& args, const Tensors& inputs) const {
  const BackwardSlots& slots = backward_slots_;
  return recorded_.valid && SameSizes(recorded_.problem, problem) && recorded_.lengths == lengths &&
         recorded_.y == args.y && IsUnchanged(recorded_.x, inputs[slots.x]) &&
         IsUnchanged(recorded_.params, inputs[slots.params]) &&
         IsUnchanged(recorded_.h0, inputs[slots.h0]) &&
         (slots.c0 == kAbsent || IsUnchanged(recorded_.c0, inputs[slots.c0]));
}

// Runs the forward of a backward whose reserve is not there: it was not kept (SetRecompute, predict
// mode), it has had its backward, the state has served another forward since, or an input was
// changed. Writes its y, and sets the problem's dropout.
void OpState::Recompute(Problem* problem, const BackwardArgs& args, void* y, size_t y_bytes) {
  // The reserve will be that of these inputs, which a third call may not share.
  recorded_.valid = false;
  if (SameSizes(recorded_.problem, *problem)) problem->dropout = recorded_.problem.dropout;
  ForwardArgs forward;
  forward.x = args.x;
  forward.params = args.params;
  forward.h0 = args.h0;
  forward.c0 = args.c0;
  forward.lengths = args.lengths;
  forward.y = y;
  forward.dropout_seed = recorded_.dropout_seed;
  RunForward(*problem, forward, true);
  // With dropout, only its output tells whether this was the forward in question.
  if (param_.p > 0 && problem->L > 1 && std::memcmp(y, args.y, y_bytes) != 0) {
    Fail(
        "backward: the dropout mask of its forward is lost, since the state has run another "
        "forward or an input has "
        "changed; run that forward again first");
  }
}

void OpState::Backward(const Tensors& inputs, const Requests& requests, const Tensors& outputs) {
  const BackwardSlots& slots = backward_slots_;
  if (static_cast<int>(inputs.size()) != slots.inputs) {
    Fail("backward: expected " + std::to_string(slots.inputs) + " inputs, got " +
         std::to_string(inputs.size()));
  }
  const Tensor& x = inputs[slots.x];
  Problem problem = ProblemFor(x);
  const Sizes sizes(problem);

  // A length is not differentiable: its gradient, if asked for, is zero.
  if (slots_.lengths != kAbsent && (requests[slots_.lengths] == mxnet::kWriteTo ||
                                    requests[slots_.lengths] == mxnet::kWriteInplace)) {
    std::memset(outputs[slots_.lengths].data, 0, ByteCount(outputs[slots_.lengths]));
  }

  BackwardArgs args;
  const auto input = [&](const char* name, int slot, int64_t size) -> const void* {
    if (slot == kAbsent) return nullptr;
    CheckTensor(name, inputs[slot], x, size);
    return DataOf(inputs[slot]);
  };
  args.x = DataOf(x);
  args.params = input("parameters", slots.params, ParamCount(problem));
  args.h0 = input("state", slots.h0, sizes.h);
  args.c0 = input("state_cell", slots.c0, sizes.c);
  args.y = input("output", slots.y, sizes.y);
  args.dy = input("the gradient of output", slots.dy, sizes.y);
  args.dhN = input("the gradient of state_output", slots.dhN, sizes.h);
  args.dcN = input("the gradient of statecell_output", slots.dcN, sizes.c);
  std::vector<int64_t> lengths;
  if (slots.lengths != kAbsent) {
    lengths =
        ReadLengths(inputs[slots.lengths].data, inputs[slots.lengths].type, problem.N, problem.T);
    args.lengths = lengths.data();
  }

  Staging staging;
  for (const Tensor& tensor : inputs) staging.AddInput(tensor.data, ByteCount(tensor));
  const auto add_output = [&](int slot) {
    return staging.AddOutput(DataOf(outputs[slot]), ByteCount(outputs[slot]), requests[slot], true);
  };
  const int dx = add_output(slots_.x);
  const int dparams = add_output(slots_.params);
  const int dh0 = add_output(slots_.h0);
  const int dc0 = slots_.c0 != kAbsent ? add_output(slots_.c0) : kAbsent;
  staging.Place();
  const auto place = [&](int output, void** gradient, Request* request) {
    if (output == kAbsent) return;
    *gradient = staging.target(output);
    *request = staging.request(output);
  };
  place(dx, &args.dx, &args.dx_req);
  place(dparams, &args.dparams, &args.dparams_req);
  place(dh0, &args.dh0, &args.dh0_req);
  place(dc0, &args.dc0, &args.dc0_req);
  const bool nothing_wanted =
      args.dx == nullptr && args.dparams == nullptr && args.dh0 == nullptr && args.dc0 == nullptr;
  if (nothing_wanted) return;

  Buffer recomputed_y(BufferKind::kWorkspace);
  if (IsRecorded(problem, lengths, args, inputs)) {
    problem.dropout = recorded_.problem.dropout;
  } else {
    const size_t y_bytes = ByteCount(inputs[slots.y]);
    void* y = recomputed_y.Resize(y_bytes);
    Recompute(&problem, args, y, y_bytes);
    args.y = y;
  }
  Buffer workspace(BufferKind::kWorkspace);
  args.workspace = workspace.Resize(BackwardWorkspaceBytes(problem));
  args.reserve = reserve_.data();
  EndIdleThreads(WorkOf(problem));
  fused_rnn::Backward(problem, args);
  staging.Commit(x.type);
  // The pool lends it to other states meanwhile (a model of many buckets has as many states). A
  // second backward of the same forward, which is rare, computes it anew.
  recorded_.valid = false;
  reserve_.Release();
}

}  // namespace mx
}  // namespace fused_rnn
