// The C interface: the same numbers as C++'s, and every wrong argument is a code and a message.
#include <sys/resource.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/execution.h"
#include "check.h"
#include "child.h"
#include "compare.h"
#include "fused_rnn/fused_rnn_c.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

void CheckFails(fused_rnn_status got, fused_rnn_status expected, const char* part) {
  Scope scope("expected: %s, got: %s", part, fused_rnn_error_message());
  CHECK_EQ(static_cast<int>(got), static_cast<int>(expected));
  CHECK(std::string(fused_rnn_error_message()).find(part) != std::string::npos);
}

fused_rnn_problem InC(const Problem& problem) {
  fused_rnn_problem c = {};
  c.size = sizeof(c);
  c.mode = static_cast<int>(problem.mode);
  c.dtype = static_cast<int>(problem.dtype);
  c.variable_length = problem.variable_length;
  c.clip = problem.clip ? (problem.clip_nan ? FUSED_RNN_CLIP_NAN : FUSED_RNN_CLIP) : 0;
  c.clip_min = problem.clip_min;
  c.clip_max = problem.clip_max;
  c.T = problem.T;
  c.N = problem.N;
  c.I = problem.I;
  c.H = problem.H;
  c.L = problem.L;
  c.D = problem.D;
  c.P = problem.P;
  c.dropout = problem.dropout;
  return c;
}

// What the arguments of both passes have in common.
template <typename InC, typename Args>
InC CommonInC(const Args& args) {
  InC c = {};
  c.size = sizeof(c);
  c.x = args.x;
  c.params = args.params;
  c.h0 = args.h0;
  c.c0 = args.c0;
  c.lengths = args.lengths;
  c.y = args.y;
  c.workspace = args.workspace;
  c.reserve = args.reserve;
  return c;
}

fused_rnn_forward_args InC(const ForwardArgs& args) {
  auto c = CommonInC<fused_rnn_forward_args>(args);
  c.hN = args.hN;
  c.cN = args.cN;
  c.dropout_seed = args.dropout_seed;
  return c;
}

fused_rnn_backward_args InC(const BackwardArgs& args) {
  auto c = CommonInC<fused_rnn_backward_args>(args);
  c.dy = args.dy;
  c.dhN = args.dhN;
  c.dcN = args.dcN;
  c.dx = args.dx;
  c.dparams = args.dparams;
  c.dh0 = args.dh0;
  c.dc0 = args.dc0;
  c.dx_req = static_cast<int>(args.dx_req);
  c.dparams_req = static_cast<int>(args.dparams_req);
  c.dh0_req = static_cast<int>(args.dh0_req);
  c.dc0_req = static_cast<int>(args.dc0_req);
  return c;
}

// Arguments of both passes, ready to be called or spoilt.
struct Calls {
  explicit Calls(const Case& a_case)
      : c(a_case),
        in(c, 1),
        args(c, in),
        problem(InC(args.problem)),
        forward(InC(args.forward)),
        backward(InC(args.backward)) {}

  const Case c;
  Inputs<float> in;
  TrainingArgs<float> args;
  fused_rnn_problem problem;
  fused_rnn_forward_args forward;
  fused_rnn_backward_args backward;
};

Case LstmCase() {
  Case c = SmallCase(Mode::kLstm);
  c.problem.dropout = 0.4;
  c.problem.P = 4;
  SetClip(&c, -0.4, 0.3);
  SetLengths(&c, 1);
  return c;
}

void TestSameNumbers(const Case& c) {
  Scope scope("%s", c.Describe().c_str());
  Calls calls(c);
  const Results<float> expected = RunTraining(c, calls.in);
  int64_t count = 0;
  size_t bytes = 0;
  CHECK_EQ(fused_rnn_param_count(&calls.problem, &count), FUSED_RNN_OK);
  CHECK_EQ(count, ParamCount(c.problem));
  for (bool training : {false, true}) {
    CHECK_EQ(fused_rnn_forward_workspace_bytes(&calls.problem, training, &bytes), FUSED_RNN_OK);
    CHECK_EQ(bytes, ForwardWorkspaceBytes(c.problem, training));
  }
  CHECK_EQ(fused_rnn_backward_workspace_bytes(&calls.problem, &bytes), FUSED_RNN_OK);
  CHECK_EQ(bytes, BackwardWorkspaceBytes(c.problem));
  CHECK_EQ(fused_rnn_reserve_bytes(&calls.problem, &bytes), FUSED_RNN_OK);
  CHECK_EQ(bytes, ReserveBytes(c.problem));

  CHECK_EQ(fused_rnn_forward(&calls.problem, &calls.forward), FUSED_RNN_OK);
  CHECK_EQ(fused_rnn_backward(&calls.problem, &calls.backward), FUSED_RNN_OK);
  CheckSameOutputs(calls.args.out, expected);
  CheckSameGradients(calls.args.out, expected);

  Calls by_session(c);
  by_session.forward.workspace = by_session.forward.reserve = nullptr;
  by_session.backward.workspace = nullptr;
  by_session.backward.reserve = nullptr;
  fused_rnn_session* session = nullptr;
  CHECK_EQ(fused_rnn_session_create(&session), FUSED_RNN_OK);
  for (int keep : {FUSED_RNN_KEEP_RESERVE, FUSED_RNN_KEEP_STAMP, FUSED_RNN_KEEP_NOTHING}) {
    CHECK_EQ(fused_rnn_session_forward(session, &by_session.problem, &by_session.forward, keep),
             FUSED_RNN_OK);
    CHECK_EQ(fused_rnn_session_backward(session, &by_session.problem, &by_session.backward),
             FUSED_RNN_OK);
    CheckSameOutputs(by_session.args.out, expected);
    CheckSameGradients(by_session.args.out, expected);
  }
  fused_rnn_session_destroy(session);
  fused_rnn_release_memory();

  Results<float> inference(calls.in);
  RunInference(c, calls.in, &inference);
  fused_rnn_packed* packed = nullptr;
  CHECK_EQ(fused_rnn_packed_create(&calls.problem, calls.in.params.data(), &packed), FUSED_RNN_OK);
  calls.forward.packed = packed;
  calls.forward.reserve = nullptr;
  Memory workspace = MakeMemory(ForwardWorkspaceBytes(calls.args.problem, false));
  calls.forward.workspace = workspace.data();
  CHECK_EQ(fused_rnn_forward(&calls.problem, &calls.forward), FUSED_RNN_OK);
  CheckSameOutputs(calls.args.out, inference);
  fused_rnn_packed_destroy(packed);
}

// Structs of older and newer versions.
void TestSizes() {
  Calls calls(LstmCase());
  int64_t count = 0;
  for (size_t size : {size_t{0}, size_t{8}, sizeof(fused_rnn_problem) - 1}) {
    calls.problem.size = size;
    CheckFails(fused_rnn_param_count(&calls.problem, &count), FUSED_RNN_INVALID,
               "problem.size: expected at least 104 bytes, got");
    CHECK_EQ(count, 0);
  }
  struct {
    fused_rnn_problem known;
    int64_t unknown;
  } newer = {InC(calls.args.problem), 0};
  newer.known.size = sizeof(newer);
  CHECK_EQ(fused_rnn_param_count(&newer.known, &count), FUSED_RNN_OK);
  newer.unknown = 1;
  CheckFails(fused_rnn_param_count(&newer.known, &count), FUSED_RNN_INVALID,
             "problem.size: expected at most 104 bytes");
  calls.problem.size = sizeof(calls.problem);
  calls.forward.size = sizeof(calls.forward) - 1;
  CheckFails(fused_rnn_forward(&calls.problem, &calls.forward), FUSED_RNN_INVALID,
             "args.size: expected at least 120 bytes, got 119");
  calls.backward.size = 0;
  CheckFails(fused_rnn_backward(&calls.problem, &calls.backward), FUSED_RNN_INVALID,
             "args.size: expected at least 160 bytes, got 0");
}

void TestNulls() {
  Calls calls(LstmCase());
  fused_rnn_problem* const problem = &calls.problem;
  int64_t count = 0;
  size_t bytes = 0;
  const auto refused = [](fused_rnn_status status, const char* part) {
    CheckFails(status, FUSED_RNN_INVALID, part);
  };
  refused(fused_rnn_param_count(nullptr, &count), "problem: expected a pointer, got null");
  refused(fused_rnn_param_count(problem, nullptr), "count: expected a pointer, got null");
  refused(fused_rnn_reserve_bytes(problem, nullptr), "bytes: expected a pointer");
  refused(fused_rnn_reserve_bytes(nullptr, &bytes), "problem: expected a pointer");
  refused(fused_rnn_backward_workspace_bytes(problem, nullptr), "bytes: expected a pointer");
  refused(fused_rnn_forward_workspace_bytes(problem, true, nullptr), "bytes: expected a pointer");
  refused(fused_rnn_forward(nullptr, &calls.forward), "problem: expected a pointer");
  refused(fused_rnn_forward(problem, nullptr), "args: expected a pointer");
  refused(fused_rnn_backward(nullptr, &calls.backward), "problem: expected a pointer");
  refused(fused_rnn_backward(problem, nullptr), "args: expected a pointer");
  fused_rnn_packed* packed = nullptr;
  refused(fused_rnn_packed_create(problem, nullptr, &packed), "params: expected");
  refused(fused_rnn_packed_create(problem, calls.forward.params, nullptr), "packed: expected");
  CHECK(packed == nullptr);
  fused_rnn_packed_destroy(nullptr);
  refused(fused_rnn_session_create(nullptr), "session: expected a pointer");
  refused(fused_rnn_session_forward(nullptr, problem, &calls.forward, 0), "session: expected");
  refused(fused_rnn_session_backward(nullptr, problem, &calls.backward), "session: expected");
  fused_rnn_session_destroy(nullptr);
  refused(fused_rnn_isa(nullptr), "name: expected a pointer");
  calls.forward.x = nullptr;
  refused(fused_rnn_forward(problem, &calls.forward), "x: expected");
  calls.backward.reserve = nullptr;
  refused(fused_rnn_backward(problem, &calls.backward), "reserve: expected");
}

void TestValues() {
  Calls calls(LstmCase());
  const auto refused = [&](const char* part) {
    CheckFails(fused_rnn_backward(&calls.problem, &calls.backward), FUSED_RNN_INVALID, part);
    calls.problem = InC(calls.args.problem);
    calls.backward = InC(calls.args.backward);
  };
  calls.problem.mode = kModeCount;
  refused(("mode: expected 0 to " + std::to_string(kModeCount - 1)).c_str());
  calls.problem.variable_length = 2;
  refused("variable_length: expected 0 to 1, got 2");
  calls.problem.clip = -1;
  refused("clip: expected 0 to 2, got -1");
  calls.problem.H = 0;
  refused("expected >= 1, got 0");
  calls.backward.dx_req = 3;
  refused("dx_req: expected 0 to 2, got 3");
  fused_rnn_session* session = nullptr;
  CHECK_EQ(fused_rnn_session_create(&session), FUSED_RNN_OK);
  CheckFails(fused_rnn_session_forward(session, &calls.problem, &calls.forward, 3),
             FUSED_RNN_INVALID, "keep: expected 0 to 2, got 3");
  fused_rnn_session_destroy(session);
}

void TestSettings() {
  CHECK_EQ(std::string(fused_rnn_version()), FUSED_RNN_VERSION);
  const char* isa = nullptr;
  CHECK_EQ(fused_rnn_isa(&isa), FUSED_RNN_OK);
  CHECK_EQ(std::string(isa), IsaName());
  CHECK_EQ(fused_rnn_set_num_threads(3), FUSED_RNN_OK);
  CHECK_EQ(fused_rnn_num_threads(), 3);
  CheckFails(fused_rnn_set_num_threads(-1), FUSED_RNN_INVALID, "threads: expected");
  CHECK_EQ(fused_rnn_num_threads(), 3);
  CHECK_EQ(fused_rnn_set_num_threads(0), FUSED_RNN_OK);
  // Messages are those of a thread.
  std::thread([] { CHECK_EQ(std::strlen(fused_rnn_error_message()), size_t{0}); }).join();
}

void TestInterrupt() {
  Calls calls(LstmCase());
  const uint64_t before = std::exchange(internal::cycles_between_questions, 0);
  int asked = 0;
  calls.forward.interrupt_context = calls.backward.interrupt_context = &asked;
  calls.forward.interrupt = calls.backward.interrupt = [](void* context) {
    ++*static_cast<int*>(context);
    return true;
  };
  CheckFails(fused_rnn_forward(&calls.problem, &calls.forward), FUSED_RNN_INTERRUPTED,
             "interrupted");
  CHECK(asked > 0);
  CheckFails(fused_rnn_backward(&calls.problem, &calls.backward), FUSED_RNN_INTERRUPTED,
             "interrupted");
  internal::cycles_between_questions = before;
}

#if !FUSED_RNN_SANITIZED
// More than the process may have: it is said how much, and the next call works.
void TestOutOfMemory() {
  CHECK(PassesInChild([] {
    Calls calls(LstmCase());
    CHECK_EQ(fused_rnn_forward(&calls.problem, &calls.forward), FUSED_RNN_OK);
    const rlimit limit{rlim_t{2} << 30, rlim_t{2} << 30};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    fused_rnn_problem large = calls.problem;
    large.H = 12000;
    large.P = 0;
    fused_rnn_packed* packed = nullptr;
    CheckFails(fused_rnn_packed_create(&large, calls.forward.params, &packed),
               FUSED_RNN_OUT_OF_MEMORY, "bytes for packed weights");
    CHECK(packed == nullptr);
    fused_rnn_session* session = nullptr;
    CHECK_EQ(fused_rnn_session_create(&session), FUSED_RNN_OK);
    large = calls.problem;
    large.T = int64_t{1} << 24;
    CheckFails(fused_rnn_session_forward(session, &large, &calls.forward, FUSED_RNN_KEEP_NOTHING),
               FUSED_RNN_OUT_OF_MEMORY, "bytes for a reserve");
    CHECK_EQ(
        fused_rnn_session_forward(session, &calls.problem, &calls.forward, FUSED_RNN_KEEP_RESERVE),
        FUSED_RNN_OK);
    fused_rnn_session_destroy(session);
  }));
}
#endif

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  for (Mode mode : kModes) TestSameNumbers(SmallCase(mode));
  TestSameNumbers(LstmCase());
  TestSizes();
  TestNulls();
  TestValues();
  TestSettings();
  TestInterrupt();
#if !FUSED_RNN_SANITIZED
  TestOutOfMemory();
#endif
  return TestResult();
}
