#include "op_state.h"

#include <mshadow/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "lengths.h"
#include "openmp.h"
#include "staging.h"

namespace fused_rnn {
namespace mx {
namespace {

// Its address marks our states.
const char mark = 0;

std::atomic<int64_t> live_states{0};

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

// Multiply-adds of a forward: each weight meets each row.
double WorkOf(const Problem& problem) {
  return static_cast<double>(problem.T) * problem.N * ParamCount(problem);
}

// As a byte: where nobody has set it, it need not be a bool.
bool NeedsGrad(const mxnet::OpContext& ctx) {
  unsigned char byte;
  std::memcpy(&byte, &ctx.need_grad, 1);
  return byte != 0;
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

OpState::OpState(const nnvm::NodeAttrs& attrs, std::shared_ptr<Record> record,
                 std::shared_ptr<Record> original)
    : mark_{&mark, &live_states},
      param_(abi::GetParam(attrs)),
      problem_(ProblemOf(attrs)),
      slots_(param_),
      backward_slots_(param_),
      record_(std::move(record)),
      original_(std::move(original)) {
  ++live_states;
}

MemoryAccount OpState::memory;

OpState::~OpState() { --live_states; }

bool OpState::IsOne(const void* state) {
  const void* const ours[] = {&mark, &live_states};
  return std::memcmp(state, ours, sizeof(ours)) == 0;
}

int64_t OpState::LiveCount() { return live_states; }

bool OpState::SetRecompute(bool on) { return recomputes.exchange(on); }

Problem OpState::ProblemFor(const Tensor& x) const {
  Problem problem = problem_;
  problem.dtype = DTypeOf(x.type);
  problem.T = x.shape[0];
  problem.N = x.shape[1];
  problem.I = x.shape[2];
  return problem;
}

// Of blocks with static_shape MXNet leaves `need_grad` as the memory was, so a backward may come
// that it denies, and none where it announces one. What has come so far says more: a backward that
// found no reserve (and recomputed it), or several forwards in a row without one.
bool OpState::ExpectsBackward(bool need_grad, bool is_train) const {
  constexpr int kInVain = 2;
  return (need_grad || (is_train && was_denied_)) && forwards_in_vain_ < kInVain;
}

// The forward that a copy computes again. Its mask is the one in the output that the rest of the
// network has used.
const Stamp& OpState::Original(const Problem& problem, const InputHashes& hashes) const {
  if (original_->copies > 1) {
    Fail("memory mirroring copies several nodes named '" + original_->name +
         "', and their dropout masks cannot be told apart; give each a name of its own");
  }
  if (!original_->stamp.Fits(problem, hashes)) {
    Fail("node '" + record_->name + "' is taken for the copy of '" + original_->name +
         "' that MXNet's memory mirroring makes to compute it again, and needs its dropout mask, "
         "but '" +
         original_->name +
         "' has not run with these inputs. Do not change them between the passes; or leave the "
         "node out of mirroring (unset MXNET_BACKWARD_DO_MIRROR, and give __force_mirroring__ to "
         "other nodes only); or rename the node, if it is no copy");
  }
  return original_->stamp;
}

void OpState::Forward(const mxnet::OpContext& ctx, const Tensors& inputs, const Requests& requests,
                      const Tensors& outputs) {
  session_.Forget();
  record_->stamp = session_.stamp();
  const bool nothing_wanted =
      std::all_of(requests.begin(), requests.end(),
                  [](mxnet::OpReqType request) { return request == mxnet::kNullOp; });
  if (nothing_wanted) return;

  const Tensor& x = inputs[slots_.x];
  Problem problem = ProblemFor(x);
  const bool may_drop = param_.p > 0 && problem.L > 1;
  const bool need_grad = NeedsGrad(ctx), is_copy = original_ && need_grad;
  // The backward of a node that has a copy goes to the copy.
  const bool keeps_reserve =
      ExpectsBackward(need_grad, ctx.is_train) && !recomputes && record_->copies == 0;
  const bool keeps_stamp = need_grad && may_drop;
  const Keep keep = keeps_reserve ? Keep::kReserve : keeps_stamp ? Keep::kStamp : Keep::kNothing;

  ForwardArgs args;
  args.x = DataOf(x);
  args.params = DataOf(inputs[slots_.params]);
  args.h0 = DataOf(inputs[slots_.h0]);
  if (slots_.c0 != kAbsent) args.c0 = DataOf(inputs[slots_.c0]);
  std::vector<int64_t> lengths;
  if (slots_.lengths != kAbsent) {
    const Tensor& given = inputs[slots_.lengths];
    lengths = ReadLengths(given.data, given.type, problem.N, problem.T);
    args.lengths = lengths.data();
  }

  Staging staging(&memory);
  for (const Tensor& input : inputs) staging.AddInput(input.data, ByteCount(input));
  const auto add_output = [&](int slot) {
    return staging.AddOutput(DataOf(outputs[slot]), ByteCount(outputs[slot]), requests[slot],
                             false);
  };
  const size_t y_bytes = Sizes(problem).y * mshadow::mshadow_sizeof(x.type);
  const int y =
      requests[slots_.y] != mxnet::kNullOp ? add_output(slots_.y) : staging.AddUnwanted(y_bytes);
  const int hN = slots_.hN != kAbsent ? add_output(slots_.hN) : kAbsent;
  const int cN = slots_.cN != kAbsent ? add_output(slots_.cN) : kAbsent;
  staging.Place();
  args.y = staging.target(y);
  if (hN != kAbsent) args.hN = staging.target(hN);
  if (cN != kAbsent) args.cN = staging.target(cN);

  InputHashes hashes;
  const bool has_original = may_drop && is_copy;
  if (has_original) {
    hashes = HashInputs(problem, args);
    const Stamp& original = Original(problem, hashes);
    problem.dropout = original.problem.dropout;
    args.dropout_seed = original.dropout_seed;
  } else if (may_drop && ctx.is_train) {
    problem.dropout = param_.p;
    args.dropout_seed = DrawSeed(ctx);
  }
  EndIdleThreads(WorkOf(problem));
  session_.Forward(problem, args, keep, has_original ? &hashes : nullptr);
  staging.Commit(x.type);
  record_->stamp = session_.stamp();
  if (keeps_reserve) ++forwards_in_vain_;
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

  Staging staging(&memory);
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

  forwards_in_vain_ = 0;
  was_denied_ |= !session_.has_reserve() && !recomputes;
  problem.dropout = param_.p;
  EndIdleThreads(WorkOf(problem));
  // Whose decision by contents is the only one possible: MXNet counts a write late, when the
  // segment of operators that holds it ends, and those through NumPy not at all.
  session_.Backward(problem, args);
  staging.Commit(x.type);
}

}  // namespace mx
}  // namespace fused_rnn
