// Forward against the naive cells: every mode and feature, both element types, every instruction
// set.
#include <limits>

#include "base/team.h"
#include "check.h"
#include "compare.h"
#include "isas.h"
#include "naive_rnn.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

// Training without dropout gives what inference gives.
template <typename T>
void TestOutputs(const Case& c, const NaiveOutputs<double>& expected) {
  const Inputs<T> in(c, 1);
  Results<T> inferred(in), trained(in);
  RunInference(c, in, &inferred);
  CheckOutputs(c, inferred, expected);
  RunTrainingForward(c, in, &trained);
  CheckOutputs(c, trained, expected);
}

template <typename T>
void TestOutputsOf(const Case& c) {
  const NaiveOutputs<double> expected = NaiveForward(c, NaiveInputsOf(Inputs<T>(c, 1)));
  ForEachIsa([&] { TestOutputs<T>(c, expected); });
}

void TestGrid() {
  // Around the vectors' widths and the tiles' heights; I != H, N beyond one run of rows.
  for (const Size& size : {Size{5, 3, 4, 7, 3}, Size{3, 2, 9, 17, 10}, Size{4, 19, 3, 33, 20},
                           Size{2, 45, 1, 4, 2}, Size{1, 1, 65, 64, 63}, Size{2, 6, 0, 5, 5}}) {
    ForEachCase(size, [](const Case& c) {
      if (c.problem.dropout > 0) return;  // see dropout_test.cc
      Scope scope("%s", c.Describe().c_str());
      ForEachType([&](auto type) { TestOutputsOf<decltype(type)>(c); });
    });
  }
}

// A NaN or an infinity stays in its own sample, and comes out of it wherever the equations say so.
template <typename T>
void TestNanStays(const Case& c, double bad) {
  Scope scope("%s %s with %g", DTypeName(DTypeOf<T>()), c.Describe().c_str(), bad);
  const Inputs<T> in(c, 1);
  Inputs<T> spoilt = in;
  const int64_t sample = 4, time = 2, N = c.problem.N;
  spoilt.x[(time * N + sample) * c.problem.I + 1] = FromDouble<T>(bad);
  Results<T> clean(in), got(in);
  RunInference(c, in, &clean);
  RunInference(c, spoilt, &got);
  const int64_t width = c.problem.D * c.StateSize();
  for (int64_t row = 0; row < c.problem.T * N; ++row) {
    for (int64_t j = row * width; j < (row + 1) * width && row % N != sample; ++j)
      CHECK_EQ(got.y[j], clean.y[j]);
  }
  CheckOutputs(c, got, NaiveForward(c, NaiveInputsOf(spoilt)));
}

void TestNan() {
  for (Mode mode : kModes) {
    ForEachIsa([mode] {
      ForEachReal([mode](auto real) {
        using T = decltype(real);
        Case c = SmallCase(mode);
        TestNanStays<T>(c, std::numeric_limits<double>::quiet_NaN());
        if (!IsLstm(mode)) return;
        TestNanStays<T>(c, std::numeric_limits<double>::infinity());
        SetClip(&c, -0.4, 0.3);
        TestNanStays<T>(c, std::numeric_limits<double>::quiet_NaN());
        c.problem.clip_nan = true;
        TestNanStays<T>(c, std::numeric_limits<double>::quiet_NaN());
      });
    });
  }
}

// The numbers of the bound, where |c| is far beyond it.
void TestClipIsActive() {
  Case c = SmallCase(Mode::kLstm);
  SetClip(&c, -0.25, 0.125);
  ForEachIsa([&c] {
    Inputs<double> in(c, 1);
    for (double& value : in.c0) value *= 1000;
    Results<double> out(in);
    RunInference(c, in, &out);
    int64_t at_min = 0, at_max = 0;
    for (double value : out.cN) {
      CHECK(value >= -0.25 && value <= 0.125);
      at_min += value == -0.25;
      at_max += value == 0.125;
    }
    CHECK(at_min > 0 && at_max > 0);
  });
}

// What the padding holds changes nothing, and the states of empty sequences pass through.
template <typename T>
void TestPadding(Case c) {
  SetLengths(&c, 3);
  c.lengths[1] = 0;
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  Results<T> expected(in);
  RunInference(c, in, &expected);
  const int64_t S = c.StateSize(), N = c.problem.N, width = c.problem.D * S;
  for (double padding : {std::numeric_limits<double>::quiet_NaN(), 1e6}) {
    Inputs<T> other = in;
    for (int64_t row = 0; row < c.problem.T * N; ++row) {
      if (row / N < c.Length(row % N)) continue;
      std::fill_n(other.x.data() + row * c.problem.I, c.problem.I, FromDouble<T>(padding));
    }
    Results<T> got(in);
    RunInference(c, other, &got);
    CheckSameOutputs(got, expected);
    for (int64_t row = 0; row < c.problem.T * N; ++row) {
      if (row / N < c.Length(row % N)) continue;
      for (int64_t j = row * width; j < (row + 1) * width; ++j) CHECK_EQ(ToDouble(got.y[j]), 0.0);
    }
    for (int64_t k = 0; k < c.problem.L * c.problem.D; ++k) {
      for (int64_t j = 0; j < S; ++j)
        CHECK_EQ(ToDouble(got.hN[(k * N + 1) * S + j]), ToDouble(in.h0[(k * N + 1) * S + j]));
    }
  }
}

// Lengths that are all T give what no lengths give, bit by bit.
template <typename T>
void TestFullLengths(Case c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  Results<T> expected(in), got(in);
  RunInference(c, in, &expected);
  c.problem.variable_length = true;
  c.lengths.assign(c.problem.N, c.problem.T);
  RunInference(c, in, &got);
  CheckSameOutputs(got, expected);
}

// Final states that nobody wants are not written, and their absence changes nothing.
void TestUnwantedStates(const Case& c) {
  Scope scope("%s", c.Describe().c_str());
  const Inputs<float> in(c, 1);
  Results<float> expected(in), got(in);
  RunInference(c, in, &expected);
  const Problem problem = c.WithType(DType::kFloat32);
  Memory workspace = MakeMemory(ForwardWorkspaceBytes(problem, false));
  ForwardArgs args = MakeForwardArgs(c, in, &got);
  args.workspace = workspace.data();
  args.hN = args.cN = nullptr;
  Forward(problem, args);
  CHECK(SameBits(got.y, expected.y));
}

void TestSmallCases() {
  for (Mode mode : kModes) {
    ForEachIsa([mode] {
      ForEachType([mode](auto type) {
        TestPadding<decltype(type)>(SmallCase(mode));
        TestFullLengths<decltype(type)>(SmallCase(mode));
      });
      TestUnwantedStates(SmallCase(mode));
    });
  }
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestGrid();
  TestNan();
  TestClipIsActive();
  TestSmallCases();
  return TestResult();
}
