// A session's backward gives the gradients of the core's two passes, whatever happened between the
// forward and it; or refuses.
#include "fused_rnn/session.h"

#include <algorithm>
#include <cstring>

#include "check.h"
#include "compare.h"
#include "fused_rnn/measure.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

MemoryAccount account;

int64_t LiveWorkspace() { return account.LiveBytes(MemoryKind::kWorkspace); }
int64_t LiveReserve() { return account.LiveBytes(MemoryKind::kReserve); }

Case TrainingCase(Mode mode, double dropout) {
  Case c = SmallCase(mode);
  c.problem.dropout = dropout;
  SetLengths(&c, 3);
  return c;
}

// One session, its arrays and what they should hold.
template <typename T>
struct Run {
  explicit Run(const Case& a_case)
      : c(a_case), in(c, 1), out(in), problem(c.WithType(DTypeOf<T>())), session(&account) {}

  void Forward(Keep keep) { session.Forward(problem, MakeForwardArgs(c, in, &out), keep); }
  void Backward() { session.Backward(problem, MakeBackwardArgs(c, in, &out, {})); }
  // Against the core's own passes with the present inputs.
  void CheckGradients() const { CheckSameGradients(out, RunTraining(c, in)); }

  Case c;
  Inputs<T> in;
  Results<T> out;
  Problem problem;
  Session session;
};

template <typename T>
void TestTraining(Mode mode, double dropout) {
  Run<T> run(TrainingCase(mode, dropout));
  Scope scope("%s", run.c.Describe().c_str());
  for (Keep keep : {Keep::kReserve, Keep::kStamp, Keep::kNothing}) {
    run.Forward(keep);
    CheckSameOutputs(run.out, RunTraining(run.c, run.in));
    CHECK_EQ(run.session.has_reserve(), keep == Keep::kReserve);
    CHECK_EQ(run.session.stamp().hashed, keep != Keep::kNothing);
    CHECK_EQ(LiveReserve() > 0, keep == Keep::kReserve);
    CHECK_EQ(LiveWorkspace(), 0);
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second computes its forward anew
      std::memset(run.out.dx.data(), 0, run.out.dx.size() * sizeof(T));
      run.Backward();
      run.CheckGradients();
      CHECK(!run.session.has_reserve());
      CHECK_EQ(LiveReserve(), 0);
      CHECK_EQ(LiveWorkspace(), 0);
    }
  }
}

// An input, or the output, is another when the backward comes.
void TestChanges() {
  Run<float> run(TrainingCase(Mode::kLstm, 0));
  float* const arrays[] = {run.in.x.data(), run.in.params.data(), run.in.h0.data(),
                           run.in.c0.data(), run.out.y.data()};
  for (float* array : arrays) {
    run.Forward(Keep::kReserve);
    *array += 0.5f;
    run.Backward();
    run.CheckGradients();
  }
  run.Forward(Keep::kReserve);
  std::swap(run.c.lengths[0], run.c.lengths[1]);
  run.Backward();
  run.CheckGradients();
}

// Of several forwards, the backward of the first comes last.
void TestOtherSizes() {
  Run<float> first(TrainingCase(Mode::kGru, 0));
  Case longer = first.c;
  longer.problem.T += 3;
  Run<float> second(longer);
  Session& session = first.session;
  first.Forward(Keep::kReserve);
  session.Forward(second.problem, MakeForwardArgs(second.c, second.in, &second.out),
                  Keep::kReserve);
  first.Backward();
  first.CheckGradients();
}

// A mask belongs to its forward.
void TestLostMask() {
  Run<float> run(TrainingCase(Mode::kLstm, 0.5));
  run.Forward(Keep::kReserve);
  const float before = run.in.x[0];
  run.in.x[0] += 0.5f;
  CHECK_THROWS(run.Backward(), "an input has changed since the forward");
  run.in.x[0] = before;
  run.Backward();
  run.CheckGradients();
  // Nothing dropped where the forward was that of a prediction, whose problem says so.
  Problem prediction = run.problem;
  prediction.dropout = 0;
  run.session.Forward(prediction, MakeForwardArgs(run.c, run.in, &run.out), Keep::kStamp);
  run.in.x[0] += 0.5f;
  run.Backward();
  run.c.problem.dropout = 0;
  run.CheckGradients();
}

void TestStamps() {
  Run<float> run(TrainingCase(Mode::kLstm, 0));
  const ForwardArgs args = MakeForwardArgs(run.c, run.in, &run.out);
  const InputHashes inputs = HashInputs(run.problem, args);
  CHECK_EQ(inputs.x, HashBytes(run.in.x.data(), run.in.x.size() * sizeof(float)));
  run.Forward(Keep::kStamp);
  CHECK(run.session.stamp().Fits(run.problem, inputs));
  Problem other = run.problem;
  ++other.T;
  CHECK(!run.session.stamp().Fits(other, inputs));
  run.in.params[0] += 1;
  CHECK(!run.session.stamp().Fits(run.problem, HashInputs(run.problem, args)));
  run.session.Forget();
  CHECK(!run.session.stamp().Fits(run.problem, inputs));
}

// Refused before anything is read or written.
void TestErrors() {
  Run<float> run(TrainingCase(Mode::kLstm, 0));
  const auto forward = [&](auto member) {
    ForwardArgs args = MakeForwardArgs(run.c, run.in, &run.out);
    args.*member = nullptr;
    run.session.Forward(run.problem, args, Keep::kReserve);
  };
  CHECK_THROWS(forward(&ForwardArgs::x), "x: expected");
  CHECK_THROWS(forward(&ForwardArgs::params), "params: expected");
  CHECK_THROWS(forward(&ForwardArgs::h0), "h0: expected");
  CHECK_THROWS(forward(&ForwardArgs::c0), "c0: expected");
  CHECK_THROWS(forward(&ForwardArgs::lengths), "lengths: expected");
  CHECK_THROWS(forward(&ForwardArgs::y), "y: expected");
  CHECK(!run.session.has_reserve());
  run.Forward(Keep::kReserve);
  BackwardArgs args = MakeBackwardArgs(run.c, run.in, &run.out, {});
  args.y = nullptr;
  CHECK_THROWS(run.session.Backward(run.problem, args), "y: expected");
  run.problem.H = 0;
  CHECK_THROWS(run.Forward(Keep::kStamp), "expected >= 1, got 0");
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  for (Mode mode : kModes) {
    for (double dropout : {0.0, 0.4}) {
      TestTraining<float>(mode, dropout);
      TestTraining<double>(mode, dropout);
      TestTraining<Float16>(mode, dropout);
    }
  }
  TestChanges();
  TestOtherSizes();
  TestLostMask();
  TestStamps();
  TestErrors();
  CHECK_EQ(LiveWorkspace() + LiveReserve(), 0);
  return TestResult();
}
