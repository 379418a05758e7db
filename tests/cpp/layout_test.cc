// Where things are: the parameter vector, packed panels, the regions of workspace and reserve, and
// the rows of batches with lengths; each against an enumeration written another way.
#include <algorithm>
#include <cinttypes>
#include <vector>

#include "check.h"
#include "random.h"
#include "rnn/memory_plan.h"
#include "rnn/panel_layout.h"
#include "rnn/param_layout.h"
#include "rnn/steps.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

template <typename Body>
void ForEachProblem(const Body& body) {
  for (Mode mode : kModes) {
    for (int64_t L : {1, 2, 3}) {
      for (int64_t D : {1, 2}) {
        for (int64_t I : {0, 1, 5}) {
          for (int64_t H : {1, 2, 7}) {
            for (int64_t P : {0, 1, 2, 7}) {
              if (P > H || (P > 0 && !IsLstm(mode))) continue;
              Scope scope("mode %d, L %d, D %d, I %d, H %d, P %d", static_cast<int>(mode),
                          static_cast<int>(L), static_cast<int>(D), static_cast<int>(I),
                          static_cast<int>(H), static_cast<int>(P));
              Problem problem;
              problem.mode = mode;
              problem.T = 3;
              problem.N = 5;
              problem.I = I;
              problem.H = H;
              problem.L = L;
              problem.D = D;
              problem.P = P;
              body(problem);
            }
          }
        }
      }
    }
  }
}

// Matrices and biases follow each other in MXNet's order without a gap.
void TestParamLayout() {
  ForEachProblem([](const Problem& p) {
    const ParamLayout layout{Dims(p)};
    const int64_t GH = GatesOf(p.mode) * p.H, S = p.P > 0 ? p.P : p.H;
    int64_t next = 0;
    for (int64_t l = 0; l < p.L; ++l) {
      for (int64_t d = 0; d < p.D; ++d) {
        CHECK_EQ(layout.W(l, d), next);
        next += GH * (l == 0 ? p.I : p.D * S);
        CHECK_EQ(layout.R(l, d), next);
        next += GH * S;
        CHECK_EQ(layout.Wp(l, d), next);
        next += p.P * p.H;
      }
    }
    for (int64_t l = 0; l < p.L; ++l) {
      for (int64_t d = 0; d < p.D; ++d) {
        CHECK_EQ(layout.bW(l, d), next);
        next += GH;
        CHECK_EQ(layout.bR(l, d), next);
        next += GH;
      }
    }
    const int64_t peepholes = p.mode == Mode::kLstmPeephole ? 3 : 0;
    for (int64_t l = 0; l < p.L; ++l) {
      for (int64_t d = 0; d < p.D; ++d) {
        CHECK_EQ(layout.UnitWeights(l, d), next);
        next += peepholes * p.H;
      }
    }
    CHECK_EQ(layout.size(), next);
    CHECK_EQ(ParamCount(p), next);
  });
}

// More than 2^31 elements are counted right, and sizes beyond 63 bits refused, by every query.
void TestHugeSizes() {
  Problem p;
  p.T = 100;
  p.N = 64;
  p.I = 50000;
  p.H = 40000;
  p.D = 2;
  p.L = 3;
  const auto param_count = [](const Problem& q) {
    using Wide = __int128;
    const Wide GH = Wide{GatesOf(q.mode)} * q.H, S = q.P > 0 ? q.P : q.H;
    return static_cast<int64_t>(
        q.D * (GH * (q.I + S) + (q.L - 1) * GH * (q.D * S + S) + q.L * (Wide{q.P} * q.H + 2 * GH)));
  };
  CHECK_EQ(ParamCount(p), param_count(p));
  CHECK(ParamCount(p) > INT64_C(100000000000));
  CHECK(BackwardWorkspaceBytes(p) > size_t{4} * 160000 * 40000);
  p.P = 30000;
  CHECK_EQ(ParamCount(p), param_count(p));
  p.H = 46341;  // H*H is just beyond 2^31
  for (Mode mode : {Mode::kRnnRelu, Mode::kGru}) {
    Problem q = p;
    q.mode = mode;
    q.P = 0;
    CHECK_EQ(ParamCount(q), param_count(q));
  }
  // T*N*H beyond 2^31 in the reserve.
  Problem many;
  many.T = 3000;
  many.N = 1000;
  many.I = 10;
  many.H = 1000;
  CHECK(ReserveBytes(many) >= size_t{4} * 3000 * 1000 * 5 * 1000);

  const auto refused = [](int64_t Problem::* field, int64_t value) {
    Problem q;
    q.T = q.N = q.I = q.H = 4;
    q.*field = value;
    Scope scope("value %" PRId64, value);
    CHECK_THROWS(ParamCount(q), "63 bits");
    CHECK_THROWS(ForwardWorkspaceBytes(q, true), "63 bits");
    CHECK_THROWS(BackwardWorkspaceBytes(q), "63 bits");
    CHECK_THROWS(ReserveBytes(q), "63 bits");
  };
  for (int64_t Problem::* field :
       {&Problem::T, &Problem::N, &Problem::I, &Problem::H, &Problem::L}) {
    refused(field, INT64_MAX);
    refused(field, INT64_C(1) << 60);
  }
  refused(&Problem::H, INT64_C(1) << 31);
}

void TestPanelLayout() {
  for (int64_t V : {2, 4, 8, 16}) {
    for (int64_t gates : {1, 3, 4}) {
      for (int64_t columns : {1, 2, 15, 16, 17, 40}) {
        for (int64_t K : {0, 1, 13}) {
          const PanelLayout layout{columns, gates, K, V};
          int64_t next = 0, covered = 0;
          for (int64_t b = 0; b < layout.blocks(); ++b) {
            CHECK(layout.ColumnsOf(b) >= 1 && layout.ColumnsOf(b) <= V);
            covered += layout.ColumnsOf(b);
            for (int64_t g = 0; g < gates; ++g, next += K * V) CHECK_EQ(layout.Offset(b, g), next);
          }
          CHECK_EQ(covered, columns);
          CHECK_EQ(layout.size(), next);
        }
      }
    }
  }
}

// Every element has a place of its own, groups of rows begin where those before end, and panels
// hold whole groups.
void TestPanelFormula() {
  for (int64_t group : {1, 2, 4}) {
    for (int64_t V : {2, 8}) {
      for (int64_t K : {0, 1, 2, 3, 4, 13}) {
        const PanelFormula formula{group};
        const PanelLayout layout{3 * V - 1, 3, K, V, formula};
        const int64_t rows = (K + group - 1) / group * group;
        CHECK_EQ(formula.Size(K, V), rows * V);
        CHECK_EQ(layout.size(), 9 * rows * V);
        CHECK_EQ(layout.Offset(1, 2), 5 * rows * V);
        std::vector<bool> taken(rows * V);
        for (int64_t k = 0; k < rows; ++k) {
          for (int64_t j = 0; j < V; ++j) {
            const int64_t index = formula.Index(k, j, V);
            CHECK(index / (group * V) == k / group);
            CHECK(!taken[index]);
            taken[index] = true;
            if (k % group > 0) CHECK_EQ(index, formula.Index(k - 1, j, V) + 1);
          }
        }
      }
    }
  }
}

// Regions are aligned, in order, at least a gap apart, and inside.
void CheckPlan(const RegionPlan& plan, int64_t gap) {
  int64_t end = 0;
  for (const Region& region : plan.regions()) {
    CHECK_EQ(region.offset % 64, 0);
    CHECK(region.bytes >= 0);
    CHECK(region.offset >= end + gap);
    CHECK(region.offset <= end + gap + 63);
    end = region.offset + region.bytes;
  }
  CHECK(plan.bytes() >= end + gap);
}

void TestMemoryPlans() {
  ForEachProblem([](const Problem& p) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      for (bool lengths : {false, true}) {
        Problem q = p;
        q.dtype = dtype;
        q.variable_length = lengths;
        q.dropout = p.L > 1 ? 0.5 : 0;
        const Dims dims(q);
        for (int64_t gap : {0, 128}) {
          for (int64_t V : {2, 8, 16}) {
            CheckPlan(ForwardPlan(dims, false, V, gap), gap);
            CheckPlan(ForwardPlan(dims, true, V, gap), gap);
            CheckPlan(BackwardPlan(dims, V, gap), gap);
          }
          CheckPlan(ReservePlan(dims, 16, gap), gap);
        }
      }
    }
  });
}

// `lengths` in the packed order: which sequences take part at each time.
void TestSteps(const std::vector<int64_t>& lengths, int64_t T) {
  const int64_t N = static_cast<int64_t>(lengths.size());
  Problem p;
  p.T = T;
  p.N = N;
  p.H = 1;
  p.D = 2;
  p.variable_length = true;
  const Steps steps(Dims(p), lengths.data());
  CHECK_EQ(steps.T(), T);
  CHECK_EQ(steps.N(), N);
  std::vector<int64_t> seen(N);
  for (int64_t i = 0; i < N; ++i) {
    const int64_t n = steps.order(i);
    CHECK(n >= 0 && n < N && ++seen[n] == 1);
    CHECK_EQ(steps.length(i), lengths[n]);
    if (i > 0) CHECK(steps.length(i) <= steps.length(i - 1));
  }
  const auto running = [&](int64_t t) {
    return t < 0 || t >= T
               ? 0
               : std::count_if(
                     lengths.begin(), lengths.end(), [t](int64_t length) { return length > t; });
  };
  int64_t row = 0;
  for (int64_t t = 0; t < T; ++t) {
    CHECK_EQ(steps.row(t), row);
    CHECK_EQ(steps.n(t), running(t));
    row += running(t);
  }
  CHECK_EQ(steps.rows(), row);
  CHECK_EQ(steps.packed(), row != T * N);  // the plain order wherever it serves
  for (int64_t d : {0, 1}) {
    for (bool backward : {false, true}) {
      // Times rise if the direction and the pass are both forward or both reversed.
      const bool rising = (d == 0) != backward;
      for (int64_t s = 0; s <= T; ++s) {
        Scope scope("d %d, backward %d, step %d", static_cast<int>(d), backward,
                    static_cast<int>(s));
        const Step step = StepOf(steps, d, s, backward);
        const int64_t t = rising ? s : T - 1 - s, before = rising ? s - 1 : T - s;
        CHECK_EQ(step.n, running(t));
        CHECK_EQ(step.prev_n, s == 0 ? 0 : running(before));
        CHECK_EQ(step.continuing, std::min(step.n, step.prev_n));
        if (s < T) CHECK_EQ(step.t, t);
        if (s < T) CHECK_EQ(step.row, steps.row(t));
        if (s > 0) CHECK_EQ(step.prev_row, steps.row(before));
      }
    }
  }
}

void TestSteps() {
  Random random(1);
  for (int64_t T : {0, 1, 2, 5, 9}) {
    for (int64_t N : {0, 1, 2, 3, 8}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<int64_t> lengths(N);
        random.FillInts(&lengths, repeat == 0 ? T : 0, repeat == 1 ? 0 : T);
        Scope scope("T %d, N %d, repeat %d", static_cast<int>(T), static_cast<int>(N), repeat);
        TestSteps(lengths, T);
      }
    }
  }
  Problem p;
  p.T = 4;
  p.N = 3;
  p.H = 1;
  const Steps plain(Dims(p), nullptr);
  CHECK(!plain.packed());
  CHECK_EQ(plain.row(2), 6);
  CHECK_EQ(plain.n(3), 3);
  CHECK_EQ(plain.length(1), 4);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestParamLayout();
  TestHugeSizes();
  TestPanelLayout();
  TestPanelFormula();
  TestMemoryPlans();
  TestSteps();
  return TestResult();
}
