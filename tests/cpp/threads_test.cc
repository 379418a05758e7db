// What number of threads computes, which of a program's threads calls, and whether it was forked,
// changes nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/team.h"
#include "check.h"
#include "compare.h"
#include "isas.h"
#include "naive_rnn.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

constexpr int kMostThreads = 7;

// Large enough for kMostThreads threads in every product and in the recurrence.
Case LargeCase(Mode mode) {
  Case c;
  c.problem.mode = mode;
  c.problem.T = 32 / GatesOf(mode);
  c.problem.N = 30;
  c.problem.I = 41;
  c.problem.H = 101;
  c.problem.L = 2;
  c.problem.D = 2;
  return c;
}

void CheckUsesThreads(const Case& c) {
  const Problem& p = c.problem;
  const double step_work = static_cast<double>(p.N * GatesOf(p.mode) * p.H * c.StateSize());
  CHECK_EQ(TeamSizeFor(step_work * static_cast<double>(p.D * p.T), step_work), kMostThreads);
}

template <typename T>
void TestThreadCounts(const Case& c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  SetNumThreads(1);
  const Results<T> expected = RunTraining(c, in);
  Results<T> inferred(in);
  RunInference(c, in, &inferred);
  CheckOutputs(c, expected, NaiveForward(c, NaiveInputsOf(in)));
  for (int threads : {2, 3, kMostThreads}) {
    Scope threads_scope("threads %d", threads);
    SetNumThreads(threads);
    const Results<T> got = RunTraining(c, in);
    for (size_t i = 0; i < 3; ++i) CHECK(SameBits(*got.outputs()[i], *expected.outputs()[i]));
    for (size_t i = 0; i < 4; ++i) CHECK(SameBits(*got.gradients()[i], *expected.gradients()[i]));
    Results<T> got_inferred(in);
    RunInference(c, in, &got_inferred);
    for (size_t i = 0; i < 3; ++i)
      CHECK(SameBits(*got_inferred.outputs()[i], *inferred.outputs()[i]));
  }
  SetNumThreads(0);
}

void TestThreadCounts() {
  for (Mode mode : kModes) {
    Case c = LargeCase(mode);
    SetNumThreads(kMostThreads);
    CheckUsesThreads(c);
    ForEachIsa([&c] { TestThreadCounts<double>(c); });
    TestThreadCounts<float>(c);
    SetLengths(&c, 4);
    TestThreadCounts<float>(c);
    TestThreadCounts<double>(c);
    if (mode != Mode::kLstm) continue;
    c.problem.P = 60;
    TestThreadCounts<double>(c);
  }
}

// Several of a program's threads call at once, each of them on several threads.
template <typename T>
void TestConcurrentCalls() {
  constexpr int kCallers = 4;
  SetNumThreads(2);
  std::vector<Case> cases;
  for (Mode mode : kModes) cases.push_back(LargeCase(mode));
  std::vector<Results<T>> expected;
  for (const Case& c : cases) expected.push_back(RunTraining(c, Inputs<T>(c, 1)));
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int repeat = 0; repeat < 8; ++repeat) {
        const size_t i = static_cast<size_t>(caller + repeat) % cases.size();
        const Results<T> got = RunTraining(cases[i], Inputs<T>(cases[i], 1));
        wrong += !SameBits(got.y, expected[i].y) || !SameBits(got.dparams, expected[i].dparams) ||
                 !SameBits(got.dx, expected[i].dx);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(wrong.load(), 0);
  SetNumThreads(0);
}

// A child of a process whose threads have started runs on one thread, and to its end.
void TestFork() {
  SetNumThreads(3);
  const Case c = LargeCase(Mode::kLstm);
  const Inputs<float> in(c, 1);
  const Results<float> expected = RunTraining(c, in);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // kills a child that waits for threads that are not there
    const Results<float> got = RunTraining(c, in);
    _exit(NumThreads() == 1 && SameBits(got.y, expected.y) && SameBits(got.dx, expected.dx) ? 0
                                                                                            : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_EQ(NumThreads(), 3);  // the parent's
  CHECK(SameBits(RunTraining(c, in).y, expected.y));
  SetNumThreads(0);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestThreadCounts();
  TestConcurrentCalls<float>();
  TestConcurrentCalls<double>();
  TestFork();
  return TestResult();
}
