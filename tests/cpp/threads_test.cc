// What number of threads computes, which of a program's threads calls, and whether it was forked,
// changes nothing.
#include <atomic>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/team.h"
#include "check.h"
#include "child.h"
#include "compare.h"
#include "isas.h"
#include "naive_rnn.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

// Large enough for 7 threads in every product and in the recurrence.
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

// Large enough for 16 threads, each of which owns some blocks of units: 33 blocks of 16, or 65
// of 8.
Case WideCase(Mode mode, int64_t D) {
  Case c;
  c.problem.mode = mode;
  c.problem.T = 24 / GatesOf(mode) / D;
  c.problem.N = 13;
  c.problem.I = 41;
  c.problem.H = 520;
  c.problem.D = D;
  return c;
}

void CheckUsesThreads(const Case& c, int threads) {
  SetNumThreads(threads);
  const Problem& p = c.problem;
  int64_t rows = 0;
  for (int64_t n = 0; n < p.N; ++n) rows += c.Length(n);
  const double row_work = static_cast<double>(GatesOf(p.mode) * p.H * c.StateSize());
  const double step_work = static_cast<double>(p.N) * row_work;
  CHECK_EQ(Execution().TeamSizeFor(row_work * static_cast<double>(p.D * rows), step_work), threads);
}

template <typename T>
void TestThreadCounts(const Case& c, const std::vector<int>& counts) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  SetNumThreads(1);
  const Results<T> expected = RunTraining(c, in);
  Results<T> inferred(in);
  RunInference(c, in, &inferred);
  CheckOutputs(c, expected, NaiveForward(c, NaiveInputsOf(in)));
  for (int threads : counts) {
    Scope threads_scope("threads %d", threads);
    SetNumThreads(threads);
    const Results<T> got = RunTraining(c, in);
    CheckSameOutputs(got, expected);
    CheckSameGradients(got, expected);
    Results<T> got_inferred(in);
    RunInference(c, in, &got_inferred);
    CheckSameOutputs(got_inferred, inferred);
  }
  SetNumThreads(0);
}

void TestThreadCounts() {
  const std::vector<int> few = {2, 3, 7}, many = {2, 3, 4, 7, 8, 16};
  for (Mode mode : kModes) {
    Case c = LargeCase(mode);
    CheckUsesThreads(c, few.back());
    ForEachIsa([&] { TestThreadCounts<double>(c, few); });
    TestThreadCounts<float>(c, few);
    SetLengths(&c, 4);
    TestThreadCounts<float>(c, few);
    TestThreadCounts<double>(c, few);
    for (int64_t D : {1, 2}) {
      Case wide = WideCase(mode, D);
      CheckUsesThreads(wide, many.back());
      TestThreadCounts<float>(wide, many);
      wide.problem.T *= 2;
      SetLengths(&wide, 4);
      CheckUsesThreads(wide, many.back());
      TestThreadCounts<float>(wide, many);
    }
    if (!IsLstm(mode)) continue;
    c.problem.P = 60;
    TestThreadCounts<double>(c, few);
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

// A child of a process whose threads have started computes on threads of its own.
void TestFork() {
  SetNumThreads(3);
  const Case c = LargeCase(Mode::kLstm);
  const Inputs<float> in(c, 1);
  const Results<float> expected = RunTraining(c, in);
  CHECK(PassesInChild([&] {
    const Results<float> got = RunTraining(c, in);
    CHECK_EQ(NumThreads(), 3);
    CheckSameOutputs(got, expected);
    CheckSameGradients(got, expected);
  }));
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
