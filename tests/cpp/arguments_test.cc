// Every wrong argument is refused with an error that names it and says what was expected and what
// came; valid extremes are not.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

Case ValidCase(Mode mode) {
  Case c = SmallCase(mode);
  c.problem.dropout = 0.5;
  SetLengths(&c, 1);
  return c;
}

// `change` makes a valid problem invalid: every entry that takes it must say `part`.
void TestProblem(Mode mode, const char* part, const std::function<void(Problem*)>& change) {
  Scope scope("mode %d: %s", static_cast<int>(mode), part);
  Case c = ValidCase(mode);
  const Inputs<float> in(c, 1);
  Results<float> out(in);
  Memory memory = MakeMemory(1 << 20);
  ForwardArgs forward = MakeForwardArgs(c, in, &out);
  forward.workspace = forward.reserve = memory.data();
  BackwardArgs backward = MakeBackwardArgs(c, in, &out, {});
  backward.workspace = memory.data();
  backward.reserve = memory.data();
  change(&c.problem);
  CHECK_THROWS(ParamCount(c.problem), part);
  CHECK_THROWS(ForwardWorkspaceBytes(c.problem, false), part);
  CHECK_THROWS(BackwardWorkspaceBytes(c.problem), part);
  CHECK_THROWS(ReserveBytes(c.problem), part);
  CHECK_THROWS(Forward(c.problem, forward), part);
  CHECK_THROWS(Backward(c.problem, backward), part);
}

void TestProblems() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto set = [](int64_t Problem::* field, int64_t value) {
    return [=](Problem* p) { p->*field = value; };
  };
  for (Mode mode : kModes) {
    TestProblem(mode, "T: expected >= 0, got -1", set(&Problem::T, -1));
    TestProblem(mode, "N: expected >= 0, got -2", set(&Problem::N, -2));
    TestProblem(mode, "I: expected >= 0, got -1", set(&Problem::I, -1));
    TestProblem(mode, "expected >= 1, got 0", set(&Problem::H, 0));
    TestProblem(mode, "expected >= 1, got 0", set(&Problem::L, 0));
    TestProblem(mode, "expected 1 or 2, got 0", set(&Problem::D, 0));
    TestProblem(mode, "expected 1 or 2, got 3", set(&Problem::D, 3));
    TestProblem(mode, "got -1", set(&Problem::P, -1));
    TestProblem(mode, ("mode: expected 0 to " + std::to_string(kModeCount - 1)).c_str(),
                [](Problem* p) { p->mode = static_cast<Mode>(kModeCount); });
    TestProblem(mode, "dtype: expected 0 to 3, got -1",
                [](Problem* p) { p->dtype = static_cast<DType>(-1); });
    for (double p : {-0.1, 1.1, nan})
      TestProblem(mode, "dropout", [p](Problem* q) { q->dropout = p; });
  }
  for (Mode mode : {Mode::kRnnRelu, Mode::kRnnTanh, Mode::kGru, Mode::kGruResetBefore}) {
    TestProblem(mode, "projection_size", set(&Problem::P, 2));
    TestProblem(mode, "lstm_state_clip", [](Problem* p) {
      p->clip = true;
      p->clip_max = 1;
    });
  }
  TestProblem(Mode::kLstm, "expected <= state_size 9, got 10", set(&Problem::P, 10));
  for (double min : {2.0, nan}) {
    TestProblem(Mode::kLstm, "lstm_state_clip_min: expected <= lstm_state_clip_max 1",
                [min](Problem* p) {
                  p->clip = true;
                  p->clip_min = min;
                  p->clip_max = 1;
                });
  }
}

// A null pointer where elements are expected, and a wrong length, in both passes; outputs stay as
// they are.
void TestPointers(Mode mode) {
  Scope scope("mode %d", static_cast<int>(mode));
  const Case c = ValidCase(mode);
  const Problem problem = c.WithType(DType::kFloat32);
  const Inputs<float> in(c, 1);
  Results<float> out(in);
  const Memory reserve = RunTrainingForward(c, in, &out);
  const Results<float> before = out;
  Memory workspace =
      MakeMemory(std::max(ForwardWorkspaceBytes(problem, false), BackwardWorkspaceBytes(problem)));
  ForwardArgs forward = MakeForwardArgs(c, in, &out);
  forward.workspace = workspace.data();
  BackwardArgs backward = MakeBackwardArgs(c, in, &out, {});
  backward.workspace = workspace.data();
  backward.reserve = reserve.data();

  const auto no_forward = [&](auto ForwardArgs::* field, const char* name) {
    ForwardArgs args = forward;
    args.*field = nullptr;
    CHECK_THROWS(Forward(problem, args), (std::string(name) + ": expected").c_str());
  };
  const auto no_backward = [&](auto BackwardArgs::* field, const char* name) {
    BackwardArgs args = backward;
    args.*field = nullptr;
    CHECK_THROWS(Backward(problem, args), (std::string(name) + ": expected").c_str());
  };
  no_forward(&ForwardArgs::x, "x");
  no_forward(&ForwardArgs::params, "params");
  no_forward(&ForwardArgs::h0, "h0");
  no_forward(&ForwardArgs::y, "y");
  no_forward(&ForwardArgs::workspace, "workspace");
  no_forward(&ForwardArgs::lengths, "lengths");
  no_backward(&BackwardArgs::x, "x");
  no_backward(&BackwardArgs::params, "params");
  no_backward(&BackwardArgs::h0, "h0");
  no_backward(&BackwardArgs::y, "y");
  no_backward(&BackwardArgs::workspace, "workspace");
  no_backward(&BackwardArgs::lengths, "lengths");
  no_backward(&BackwardArgs::reserve, "reserve");
  no_backward(&BackwardArgs::dx, "dx");
  no_backward(&BackwardArgs::dparams, "dparams");
  no_backward(&BackwardArgs::dh0, "dh0");
  if (IsLstm(mode)) {
    no_forward(&ForwardArgs::c0, "c0");
    no_backward(&BackwardArgs::c0, "c0");
    no_backward(&BackwardArgs::dc0, "dc0");
  }
  for (int64_t length : {int64_t{-1}, problem.T + 1, std::numeric_limits<int64_t>::max(),
                         std::numeric_limits<int64_t>::min()}) {
    std::vector<int64_t> lengths = c.lengths;
    lengths[2] = length;
    const std::string part =
        "sequence_length[2]: expected 0 to T = 5, got " + std::to_string(length);
    ForwardArgs args = forward;
    args.lengths = lengths.data();
    CHECK_THROWS(Forward(problem, args), part.c_str());
    BackwardArgs backward_args = backward;
    backward_args.lengths = lengths.data();
    CHECK_THROWS(Backward(problem, backward_args), part.c_str());
  }
  CheckSameOutputs(out, before);
  CheckSameGradients(out, before);
}

// Nothing to compute needs no pointers but params and workspace.
void TestNothing(Mode mode) {
  Case c = SmallCase(mode);
  c.problem.N = 0;
  const Inputs<float> in(c, 1);
  const Problem problem = c.WithType(DType::kFloat32);
  Memory workspace =
      MakeMemory(std::max(ForwardWorkspaceBytes(problem, true), BackwardWorkspaceBytes(problem)));
  GuardedArray<float> dparams(in.params.size());
  ForwardArgs forward;
  forward.params = in.params.data();
  forward.workspace = workspace.data();
  Forward(problem, forward);
  BackwardArgs backward;
  backward.params = in.params.data();
  backward.workspace = workspace.data();
  backward.dparams = dparams.data();
  backward.dx_req = backward.dparams_req = backward.dh0_req = backward.dc0_req = Request::kWrite;
  Backward(problem, backward);
  for (float value : dparams) CHECK_EQ(value, 0.0f);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestProblems();
  for (Mode mode : kModes) {
    TestPointers(mode);
    TestNothing(mode);
  }
  return TestResult();
}
