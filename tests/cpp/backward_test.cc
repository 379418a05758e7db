// Backward against the exact derivatives of the naive cells, along every coordinate of small
// problems and along random directions of larger ones; and what requests, missing head gradients,
// padding and a second backward may change: nothing else.
#include <limits>

#include "check.h"
#include "compare.h"
#include "dropout_factors.h"
#include "isas.h"
#include "naive_rnn.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

// The tensors that have a gradient: the member of the naive inputs, and that of the results.
template <typename T>
struct Differentiable {
  const char* name;
  std::vector<double> NaiveInputs<double>::* input;
  GuardedArray<T> Results<T>::* gradient;
};
template <typename T>
constexpr Differentiable<T> kDifferentiable[] = {
    {"dx", &NaiveInputs<double>::x, &Results<T>::dx},
    {"dparams", &NaiveInputs<double>::params, &Results<T>::dparams},
    {"dh0", &NaiveInputs<double>::h0, &Results<T>::dh0},
    {"dc0", &NaiveInputs<double>::c0, &Results<T>::dc0}};

NaiveInputs<double> ZeroDirection(const NaiveInputs<double>& point) {
  return {std::vector<double>(point.x.size()), std::vector<double>(point.params.size()),
          std::vector<double>(point.h0.size()), std::vector<double>(point.c0.size())};
}

// The judge's gradient, coordinate by coordinate.
NaiveInputs<double> NaiveGradients(const Case& c, const Inputs<double>& in,
                                   const DropoutFactors& dropout) {
  const NaiveInputs<double> point = NaiveInputsOf(in);
  NaiveInputs<double> gradients = ZeroDirection(point), direction = gradients;
  for (const auto& tensor : kDifferentiable<double>) {
    for (size_t i = 0; i < (point.*tensor.input).size(); ++i) {
      (direction.*tensor.input)[i] = 1;
      (gradients.*tensor.input)[i] = NaiveSlope(c, in, point, direction, dropout);
      (direction.*tensor.input)[i] = 0;
    }
  }
  return gradients;
}

template <typename T>
DropoutFactors FactorsOf(const Case& c) {
  if (c.problem.dropout == 0) return {};
  const Inputs<T> in(c, 1);
  Results<T> out(in);
  return ReadDropoutFactors<T>(c, RunTrainingForward(c, in, &out));
}

// All coordinates.
void TestGradients(const Case& c) {
  Scope scope("%s", c.Describe().c_str());
  const Inputs<double> reference(c, 1);
  const DropoutFactors dropout = FactorsOf<double>(c);
  const NaiveOutputs<double> outputs = NaiveForward(c, NaiveInputsOf(reference), dropout);
  const NaiveInputs<double> gradients = NaiveGradients(c, reference, dropout);
  ForEachIsa([&] {
    ForEachReal([&](auto real) {
      using T = decltype(real);
      Scope type_scope("%s", DTypeName(DTypeOf<T>()));
      const Results<T> got = RunTraining(c, Inputs<T>(c, 1));
      CheckOutputs(c, got, outputs);
      for (const auto& tensor : kDifferentiable<T>) {
        CheckNear(tensor.name, got.*tensor.gradient, gradients.*tensor.input, GradientUnits(c));
      }
    });
  });
}

// One random direction of each tensor.
template <typename T>
void TestDirections(const Case& c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  const NaiveInputs<double> point = NaiveInputsOf(in);
  const DropoutFactors dropout = FactorsOf<T>(c);
  NaiveInputs<double> directions = ZeroDirection(point), slopes = directions;
  Random random(5);
  for (const auto& tensor : kDifferentiable<T>) {
    random.FillUniform(&(directions.*tensor.input), -1, 1);
    NaiveInputs<double> direction = ZeroDirection(point);
    direction.*tensor.input = directions.*tensor.input;
    slopes.*tensor.input = {NaiveSlope(c, in, point, direction, dropout)};
  }
  ForEachIsa([&] {
    const Results<T> got = RunTraining(c, in);
    for (const auto& tensor : kDifferentiable<T>) {
      const GuardedArray<T>& gradient = got.*tensor.gradient;
      double slope = 0, magnitude = 1;
      for (int64_t i = 0; i < gradient.size(); ++i) {
        slope += ToDouble(gradient[i]) * (directions.*tensor.input)[i];
        magnitude = std::max(magnitude, std::fabs(ToDouble(gradient[i])));
      }
      // Errors of the elements add up as their signs happen to be.
      const double units =
          UnitsFor<T>(GradientUnits(c)) * std::sqrt(static_cast<double>(gradient.size()));
      const double error =
          std::fabs(slope - (slopes.*tensor.input)[0]) / (Epsilon<T>() * magnitude);
      Scope tensor_scope("%s: slope %.9g, expected %.9g, error %.3g, at most %.3g units",
                         tensor.name, slope, (slopes.*tensor.input)[0], error, units);
      CHECK(error <= units);
    }
  });
}

void TestGrid() {
  ForEachCase({3, 3, 2, 3, 2}, TestGradients);
  for (const Size& size :
       {Size{5, 7, 9, 17, 5}, Size{3, 45, 2, 6, 4}, Size{4, 2, 1, 33, 18}, Size{1, 1, 0, 4, 1}}) {
    ForEachCase(size, [](const Case& c) {
      ForEachType([&c](auto type) { TestDirections<decltype(type)>(c); });
    });
  }
}

// Every combination of requests: null leaves the array alone, write gives the gradient, add adds it
// to what is there.
template <typename T>
void TestRequests(const Case& c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  const Results<T> all = RunTraining(c, in);
  Results<T> out(in);
  const Memory reserve = RunTrainingForward(c, in, &out);
  Results<T> before(in);
  Random random(9);
  for (GuardedArray<T>* gradient : before.mutable_gradients()) {
    for (T& value : *gradient) value = FromDouble<T>(random.Uniform(-1, 1));
  }
  for (int code = 0; code < (c.lstm() ? 81 : 27); ++code) {
    const Request request[] = {Request(code % 3), Request(code / 3 % 3), Request(code / 9 % 3),
                               Request(code / 27)};
    Scope requests_scope("requests dx %d, dparams %d, dh0 %d, dc0 %d", static_cast<int>(request[0]),
                         static_cast<int>(request[1]), static_cast<int>(request[2]),
                         static_cast<int>(request[3]));
    out.dx = before.dx;
    out.dparams = before.dparams;
    out.dh0 = before.dh0;
    out.dc0 = before.dc0;
    RunBackwardOf(c, in, reserve, {request[0], request[1], request[2], request[3]}, &out);
    for (int k = 0; k < (c.lstm() ? 4 : 3); ++k) {
      const auto& tensor = kDifferentiable<T>[k];
      Scope tensor_scope("%s", tensor.name);
      const GuardedArray<T>&got = out.*tensor.gradient, &gradient = all.*tensor.gradient,
            &old = before.*tensor.gradient;
      if (request[k] == Request::kNull) CHECK(SameBits(got, old));
      if (request[k] == Request::kWrite) CHECK(SameBits(got, gradient));
      if (request[k] != Request::kAdd) continue;
      // The old value may enter the sum at its end or at its beginning.
      std::vector<double> sum(got.size());
      for (int64_t i = 0; i < got.size(); ++i) sum[i] = ToDouble(old[i]) + ToDouble(gradient[i]);
      CheckNear("sum", got, sum, GradientUnits(c));
      CHECK(!SameBits(got, old) && !SameBits(got, gradient));
    }
  }
}

// A gradient that is not requested may be null, and so may a head gradient, which then is zero.
template <typename T>
void TestNulls(const Case& c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  const Problem problem = c.WithType(DTypeOf<T>());
  for (int missing = 0; missing < 8; ++missing) {
    Scope missing_scope("missing dy %d, dhN %d, dcN %d", missing & 1, missing >> 1 & 1,
                        missing >> 2);
    Inputs<T> zeros = in;
    if (missing & 1) std::fill(zeros.dy.begin(), zeros.dy.end(), FromDouble<T>(0));
    if (missing & 2) std::fill(zeros.dhN.begin(), zeros.dhN.end(), FromDouble<T>(0));
    if (missing & 4) std::fill(zeros.dcN.begin(), zeros.dcN.end(), FromDouble<T>(0));
    const Results<T> expected = RunTraining(c, zeros);
    Results<T> got(in);
    const Memory reserve = RunTrainingForward(c, in, &got);
    Memory workspace = MakeMemory(BackwardWorkspaceBytes(problem));
    BackwardArgs args = MakeBackwardArgs(c, in, &got, {});
    args.workspace = workspace.data();
    args.reserve = reserve.data();
    if (missing & 1) args.dy = nullptr;
    if (missing & 2) args.dhN = nullptr;
    if (missing & 4) args.dcN = nullptr;
    Backward(problem, args);
    for (const auto& tensor : kDifferentiable<T>) {  // 0 and -0 are equal
      const GuardedArray<T>&a = got.*tensor.gradient, &b = expected.*tensor.gradient;
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(),
                       [](T x, T y) { return ToDouble(x) == ToDouble(y); }));
    }
    args.dx = args.dparams = args.dh0 = args.dc0 = nullptr;
    args.dx_req = args.dparams_req = args.dh0_req = args.dc0_req = Request::kNull;
    Backward(problem, args);
  }
}

// Padding of x, y and dy holds anything; a second backward from the same reserve gives the same.
template <typename T>
void TestPaddingAndRepetition(Case c) {
  c.problem.dropout = 0.3;
  SetLengths(&c, 3);
  c.lengths[1] = 0;
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  const Results<T> expected = RunTraining(c, in);
  const int64_t width = c.problem.D * c.StateSize(), N = c.problem.N;
  for (double padding : {std::numeric_limits<double>::quiet_NaN(), 1e6}) {
    Inputs<T> other = in;
    Results<T> got(in);
    const Memory reserve = RunTrainingForward(c, in, &got);
    const Memory reserve_before = reserve;
    for (int64_t row = 0; row < c.problem.T * N; ++row) {
      if (row / N < c.Length(row % N)) continue;
      std::fill_n(other.x.data() + row * c.problem.I, c.problem.I, FromDouble<T>(padding));
      std::fill_n(other.dy.data() + row * width, width, FromDouble<T>(padding));
      std::fill_n(got.y.data() + row * width, width, FromDouble<T>(padding));
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (GuardedArray<T>* gradient : got.mutable_gradients())
        std::fill(gradient->begin(), gradient->end(), FromDouble<T>(padding));
      RunBackwardOf(c, other, reserve, {}, &got);
      CheckSameGradients(got, expected);
    }
    CHECK(SameBits(reserve, reserve_before));
    for (int64_t row = 0; row < c.problem.T * N; ++row) {
      if (row / N < c.Length(row % N)) continue;
      for (int64_t j = row * c.problem.I; j < (row + 1) * c.problem.I; ++j)
        CHECK_EQ(ToDouble(got.dx[j]), 0.0);
    }
  }
}

void TestSmallCases() {
  for (Mode mode : kModes) {
    ForEachIsa([mode] {
      ForEachType([mode](auto type) {
        using T = decltype(type);
        Case c = SmallCase(mode);
        TestRequests<T>(c);
        TestNulls<T>(c);
        TestPaddingAndRepetition<T>(c);
        SetLengths(&c, 2);
        TestRequests<T>(c);
        TestNulls<T>(c);
        if (!IsLstm(mode)) return;
        c.problem.P = 4;
        TestRequests<T>(c);
        TestNulls<T>(c);
        TestPaddingAndRepetition<T>(c);
      });
    });
  }
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestGrid();
  TestSmallCases();
  return TestResult();
}
