// Which results are equal bit by bit: those of a sequence whatever the batch it is in, and those of
// training and prediction.
#include <algorithm>
#include <cstring>

#include "check.h"
#include "isas.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

// Sequences [first, first + count) of an array [outer, N, size].
template <typename T>
GuardedArray<T> Slice(const GuardedArray<T>& whole, int64_t outer, int64_t N, int64_t first,
                      int64_t count) {
  const int64_t size = outer * N == 0 ? 0 : whole.size() / (outer * N);
  GuardedArray<T> part(outer * count * size);
  for (int64_t i = 0; i < outer; ++i) {
    std::copy_n(whole.data() + (i * N + first) * size, count * size,
                part.data() + i * count * size);
  }
  return part;
}

// A problem whose batch is a part of another's.
template <typename T>
struct Part {
  Part(const Case& whole, const Inputs<T>& inputs, int64_t first, int64_t count)
      : c(Cut(whole, first, count)), in(c, 1) {
    const int64_t N = whole.problem.N, states = whole.problem.L * whole.problem.D;
    const auto slice = [&](const GuardedArray<T>& array, int64_t outer) {
      return Slice(array, outer, N, first, count);
    };
    in.params = inputs.params;
    in.x = slice(inputs.x, whole.problem.T);
    in.dy = slice(inputs.dy, whole.problem.T);
    in.h0 = slice(inputs.h0, states);
    in.c0 = slice(inputs.c0, states);
    in.dhN = slice(inputs.dhN, states);
    in.dcN = slice(inputs.dcN, states);
  }

  static Case Cut(Case c, int64_t first, int64_t count) {
    c.problem.N = count;
    if (!c.lengths.empty()) {
      c.lengths.assign(c.lengths.begin() + first, c.lengths.begin() + first + count);
    }
    return c;
  }

  Case c;
  Inputs<T> in;
};

// Of the gradients, those that the recurrence of the top layer computes: all others are, or follow
// from, large products, which a library may sum in another order for another number of rows.
template <typename T>
void CheckTopStates(const Case& c, const GuardedArray<T>& got, const GuardedArray<T>& expected) {
  const int64_t size = got.size() / c.problem.L, begin = got.size() - size;
  CHECK(std::memcmp(got.data() + begin, expected.data() + begin, size * sizeof(T)) == 0);
}

// Batches of `least`, least + 1, ... sequences, cut from one batch of as many as they have
// together.
template <typename T>
void TestBatches(Case c, int64_t least, int64_t most, bool lengths) {
  c.problem.N = (most - least + 1) * (least + most) / 2;
  if (lengths) SetLengths(&c, 5);
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  const Results<T> whole = RunTraining(c, in);
  const int64_t N = c.problem.N, states = c.problem.L * c.problem.D;
  for (int64_t first = 0, count = least; count <= most; first += count++) {
    Scope batch("N %d", static_cast<int>(count));
    const Part<T> part(c, in, first, count);
    const Results<T> got = RunTraining(part.c, part.in);
    CHECK(SameBits(got.y, Slice(whole.y, c.problem.T, N, first, count)));
    CHECK(SameBits(got.hN, Slice(whole.hN, states, N, first, count)));
    CHECK(SameBits(got.cN, Slice(whole.cN, states, N, first, count)));
    CheckTopStates(c, got.dh0, Slice(whole.dh0, states, N, first, count));
    CheckTopStates(c, got.dc0, Slice(whole.dc0, states, N, first, count));
  }
}

// Up to the height of the tallest tile (14 rows), and 104 rows, which are cut into runs.
constexpr int64_t kMostRows = 14;

template <typename T>
void TestBatches(Mode mode) {
  Case c = SmallCase(mode);
  c.problem.H = 37;
  for (bool lengths : {false, true}) TestBatches<T>(c, 2, kMostRows, lengths);
  c.problem.T = 1;  // fewer rows are not worth packing: see ForwardPlan
  TestBatches<T>(c, 4, kMostRows, false);
  if (!IsLstm(mode)) return;
  c.problem.T = 3;
  c.problem.P = 19;
  SetClip(&c, -0.3, 0.2);
  TestBatches<T>(c, 2, kMostRows, true);
}

// Sums so long that a product takes several passes.
void TestLongSums(Mode mode) {
  Case c;
  c.problem.mode = mode;
  c.problem.T = 2;
  c.problem.I = 1100;
  c.problem.H = 1050;
  TestBatches<float>(c, 2, 5, false);
}

template <typename T>
void TestPrediction(const Case& c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Inputs<T> in(c, 1);
  Results<T> trained(in), predicted(in);
  RunTrainingForward(c, in, &trained);
  RunInference(c, in, &predicted);
  CheckSameOutputs(predicted, trained);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  ForEachIsa([] {
    for (Mode mode : kModes) {
      ForEachType([mode](auto type) { TestBatches<decltype(type)>(mode); });
    }
    ForEachCase({5, 6, 7, 33, 20}, [](const Case& c) {
      if (c.problem.dropout > 0) return;
      ForEachType([&c](auto type) { TestPrediction<decltype(type)>(c); });
    });
  });
  for (Mode mode : kModes) TestLongSums(mode);
  return TestResult();
}
