#include "op_state.h"

#include <mshadow/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "fused_rnn/measure.h"
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

uint64_t HashOf(const Tensor& tensor) { return HashBytes(tensor.data, ByteCount(tensor)); }

InputHashes HashInputs(const OpState::Tensors& inputs, int x, int params, int h0, int c0) {
  InputHashes hashes;
  hashes.x = HashOf(inputs[x]);
  hashes.params = HashOf(inputs[params]);
  hashes.h0 = HashOf(inputs[h0]);
  if (c0 != kAbsent) hashes.c0 = HashOf(inputs[c0]);
  return hashes;
}

bool SameSizes(const Problem& a, const Problem& b) {
  return a.T == b.T && a.N == b.N && a.I == b.I && a.dtype == b.dtype;
}

// Whether a recorded forward had these inputs.
bool IsRecorded(const Record& record, const Problem& problem, const std::vector<int64_t>& lengths,
                const InputHashes& hashes) {
  return record.hashed && SameSizes(record.problem, problem) && record.lengths == lengths &&
         record.inputs == hashes;
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

void OpState::RunForward(const Problem& problem, ForwardArgs args, bool training) {
  size_t bytes = ForwardWorkspaceBytes(problem, training);
  reserve_is_recorded_ = false;  // until it is whole
  if (training) {
    // As much as the backward will take, so that one block of the pool serves both.
    bytes = std::max(bytes, BackwardWorkspaceBytes(problem));
    args.reserve = reserve_.Resize(ReserveBytes(problem));
  }
  Buffer workspace(MemoryKind::kWorkspace, &memory);
  args.workspace = workspace.Resize(bytes);
  EndIdleThreads(WorkOf(problem));
  fused_rnn::Forward(problem, args);
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
const Record& OpState::Original(const Problem& problem, const std::vector<int64_t>& lengths,
                                const InputHashes& hashes) const {
  if (original_->copies > 1) {
    Fail("memory mirroring copies several nodes named '" + original_->name +
         "', and their dropout masks cannot be told apart; give each a name of its own");
  }
  if (!IsRecorded(*original_, problem, lengths, hashes)) {
    Fail("node '" + record_->name + "' is taken for the copy of '" + original_->name +
         "' that MXNet's memory mirroring makes to compute it again, and needs its dropout mask, "
         "but '" +
         original_->name +
         "' has not run with these inputs. Do not change them between the passes; or leave the "
         "node out of mirroring (unset MXNET_BACKWARD_DO_MIRROR, and give __force_mirroring__ to "
         "other nodes only); or rename the node, if it is no copy");
  }
  return *original_;
}

void OpState::Forward(const mxnet::OpContext& ctx, const Tensors& inputs, const Requests& requests,
                      const Tensors& outputs) {
  Record& record = *record_;
  record.hashed = false;
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
      ExpectsBackward(need_grad, ctx.is_train) && !recomputes && record.copies == 0;
  const bool hashes = keeps_reserve || (need_grad && may_drop);

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

  // Before the outputs are written: they may be inputs.
  if (hashes) record.inputs = HashInputs(inputs, slots_.x, slots_.params, slots_.h0, slots_.c0);
  if (may_drop && is_copy) {
    const Record& original = Original(problem, lengths, record.inputs);
    problem.dropout = original.problem.dropout;
    args.dropout_seed = original.dropout_seed;
  } else if (may_drop && ctx.is_train) {
    problem.dropout = param_.p;
    args.dropout_seed = DrawSeed(ctx);
  }
  record.problem = problem;
  record.lengths = std::move(lengths);
  record.dropout_seed = args.dropout_seed;
  // The core drops only where it can note in a reserve what it dropped. Otherwise a training
  // forward gives the bits of a prediction, which is faster.
  RunForward(problem, args, keeps_reserve || problem.dropout > 0);
  // What was computed: the request may be to add it to something.
  if (hashes) record.y = HashBytes(args.y, y_bytes);
  staging.Commit(x.type);
  if (!keeps_reserve) reserve_.Release();
  reserve_is_recorded_ = keeps_reserve;
  if (keeps_reserve) ++forwards_in_vain_;
  record.hashed = hashes;
}

// Runs the forward of a backward whose reserve is not there: it was not kept (SetRecompute), it has
// had its backward, or an input or the output was changed. Writes its y, and sets the problem's
// dropout.
void OpState::Recompute(Problem* problem, const BackwardArgs& args, bool same_inputs, void* y,
                        size_t y_bytes) {
  const Record& record = *record_;
  if (SameSizes(record.problem, *problem)) problem->dropout = record.problem.dropout;
  ForwardArgs forward;
  forward.x = args.x;
  forward.params = args.params;
  forward.h0 = args.h0;
  forward.c0 = args.c0;
  forward.lengths = args.lengths;
  forward.y = y;
  forward.dropout_seed = record.dropout_seed;
  RunForward(*problem, forward, true);
  // A mask belongs to the forward that drew it. Of other inputs, only the output tells whether this
  // is it.
  const bool dropped = problem->dropout > 0 || !SameSizes(record.problem, *problem);
  const bool may_drop = param_.p > 0 && problem->L > 1 && dropped;
  if (may_drop && !same_inputs && std::memcmp(y, args.y, y_bytes) != 0) {
    Fail(
        "backward: an input has changed since the forward, to which its dropout mask belongs; run "
        "the forward again first");
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
  was_denied_ |= !reserve_is_recorded_ && !recomputes;
  // Contents decide: MXNet counts a write late, when the segment of operators that holds it ends,
  // and those through NumPy not at all.
  const Record& record = *record_;
  const bool same_inputs =
      record.hashed && IsRecorded(record, problem, lengths,
                                  HashInputs(inputs, slots.x, slots.params, slots.h0, slots.c0));
  Buffer recomputed_y(MemoryKind::kWorkspace, &memory);
  if (same_inputs && reserve_is_recorded_ && record.y == HashOf(inputs[slots.y])) {
    problem.dropout = record.problem.dropout;
  } else {
    const size_t y_bytes = ByteCount(inputs[slots.y]);
    void* y = recomputed_y.Resize(y_bytes);
    Recompute(&problem, args, same_inputs, y, y_bytes);
    args.y = y;
  }
  Buffer workspace(MemoryKind::kWorkspace, &memory);
  args.workspace = workspace.Resize(BackwardWorkspaceBytes(problem));
  args.reserve = reserve_.data();
  EndIdleThreads(WorkOf(problem));
  fused_rnn::Backward(problem, args);
  staging.Commit(x.type);
  // The pool lends it to other states meanwhile (a model of many buckets has as many states). A
  // second backward of the same forward, which is rare, computes it anew.
  reserve_is_recorded_ = false;
  reserve_.Release();
}

}  // namespace mx
}  // namespace fused_rnn
