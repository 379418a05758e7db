#include "fused_rnn/session.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "fused_rnn/measure.h"

namespace fused_rnn {
namespace {

// Bytes of the tensors of a problem.
struct TensorBytes {
  explicit TensorBytes(const Problem& problem) {
    params = ParamCount(problem) * ElementBytes(problem.dtype);  // checks the problem
    const size_t element = ElementBytes(problem.dtype);
    const size_t rows = problem.T * problem.N, states = problem.L * problem.D * problem.N;
    const size_t S = problem.P > 0 ? problem.P : problem.H;
    x = rows * problem.I * element;
    h = states * S * element;
    c = HasCellState(problem.mode) ? states * problem.H * element : 0;
    y = rows * problem.D * S * element;
    lengths = problem.variable_length ? problem.N * sizeof(int64_t) : 0;
  }
  size_t x, params, h, c, y, lengths;
};

void CheckPointer(const char* name, const void* data, size_t bytes) {
  FUSED_RNN_CHECK(data != nullptr || bytes == 0, "%s: expected %zu bytes, got null", name, bytes);
}

uint64_t HashOf(const char* name, const void* data, size_t bytes) {
  CheckPointer(name, data, bytes);
  return HashBytes(data, bytes);
}

// Of the inputs of either pass.
template <class Args>
InputHashes HashInputsOf(const Problem& problem, const Args& args) {
  const TensorBytes bytes(problem);
  InputHashes hashes;
  hashes.x = HashOf("x", args.x, bytes.x);
  hashes.params = HashOf("params", args.params, bytes.params);
  hashes.h0 = HashOf("h0", args.h0, bytes.h);
  if (bytes.c > 0) hashes.c0 = HashOf("c0", args.c0, bytes.c);
  if (bytes.lengths > 0) hashes.lengths = HashOf("lengths", args.lengths, bytes.lengths);
  return hashes;
}

bool SameSizes(const Problem& a, const Problem& b) {
  return a.T == b.T && a.N == b.N && a.I == b.I && a.dtype == b.dtype;
}

}  // namespace

InputHashes HashInputs(const Problem& problem, const ForwardArgs& args) {
  return HashInputsOf(problem, args);
}

bool Stamp::Fits(const Problem& with, const InputHashes& hashes) const {
  return hashed && SameSizes(problem, with) && inputs == hashes;
}

void Session::Run(const Problem& problem, ForwardArgs args, bool training) {
  size_t bytes = ForwardWorkspaceBytes(problem, training);
  reserve_is_whole_ = false;
  args.reserve = nullptr;
  if (training) {
    // As much as the backward will take, so that one block of the pool serves both.
    bytes = std::max(bytes, BackwardWorkspaceBytes(problem));
    args.reserve = reserve_.Resize(ReserveBytes(problem));
  }
  Buffer workspace(MemoryKind::kWorkspace, account_);
  args.workspace = workspace.Resize(bytes);
  fused_rnn::Forward(problem, args);
}

void Session::Forward(const Problem& problem, ForwardArgs args, Keep keep,
                      const InputHashes* inputs) {
  stamp_.hashed = false;
  const bool hashes = keep != Keep::kNothing;
  // Before the outputs are written: a front end may let them be inputs.
  if (hashes) stamp_.inputs = inputs != nullptr ? *inputs : HashInputs(problem, args);
  stamp_.problem = problem;
  stamp_.dropout_seed = args.dropout_seed;
  // The core drops only where it can note in a reserve what it dropped. Otherwise a forward gives
  // the bits of a prediction, which is faster.
  Run(problem, args, keep == Keep::kReserve || problem.dropout > 0);
  if (hashes) stamp_.y = HashBytes(args.y, TensorBytes(problem).y);
  if (keep != Keep::kReserve) reserve_.Release();
  reserve_is_whole_ = keep == Keep::kReserve;
  stamp_.hashed = hashes;
}

// Runs the forward of a backward whose reserve is not there: it was not kept, it has had its
// backward, or an input or the output was changed. Writes its y, and sets the problem's dropout.
void Session::Recompute(Problem* problem, const BackwardArgs& args, bool same_inputs, void* y) {
  const bool same_sizes = SameSizes(stamp_.problem, *problem);
  const bool may_have_dropped =
      problem->dropout > 0 && problem->L > 1 && (stamp_.problem.dropout > 0 || !same_sizes);
  problem->dropout = same_sizes ? stamp_.problem.dropout : 0;
  ForwardArgs forward;
  forward.x = args.x;
  forward.params = args.params;
  forward.h0 = args.h0;
  forward.c0 = args.c0;
  forward.lengths = args.lengths;
  forward.y = y;
  forward.dropout_seed = stamp_.dropout_seed;
  forward.interrupt = args.interrupt;
  Run(*problem, forward, true);
  // A mask belongs to the forward that drew it. Of other inputs, only the output tells whether this
  // is it.
  if (may_have_dropped && !same_inputs && std::memcmp(y, args.y, TensorBytes(*problem).y) != 0) {
    Fail(
        "backward: an input has changed since the forward, to which its dropout mask belongs; run "
        "the forward again first");
  }
}

void Session::Backward(Problem problem, BackwardArgs args) {
  const size_t y_bytes = TensorBytes(problem).y;
  CheckPointer("y", args.y, y_bytes);
  const bool same_inputs = stamp_.hashed && stamp_.Fits(problem, HashInputsOf(problem, args));
  Buffer recomputed_y(MemoryKind::kWorkspace, account_);
  if (same_inputs && reserve_is_whole_ && stamp_.y == HashBytes(args.y, y_bytes)) {
    problem.dropout = stamp_.problem.dropout;
  } else {
    void* y = recomputed_y.Resize(y_bytes);
    Recompute(&problem, args, same_inputs, y);
    args.y = y;
  }
  Buffer workspace(MemoryKind::kWorkspace, account_);
  args.workspace = workspace.Resize(BackwardWorkspaceBytes(problem));
  args.reserve = reserve_.data();
  fused_rnn::Backward(problem, args);
  // Other sessions borrow it meanwhile (a model of many buckets has as many).
  reserve_is_whole_ = false;
  reserve_.Release();
}

}  // namespace fused_rnn
