// Dropout: the generator's exact numbers, which places of a mask depend on what, and what the
// layers make of it.
#include "rnn/dropout.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/team.h"
#include "check.h"
#include "compare.h"
#include "dropout_factors.h"
#include "isas.h"
#include "naive_rnn.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

Steps StepsOf(int64_t T, int64_t N, const std::vector<int64_t>& lengths = {}) {
  Problem p;
  p.T = T;
  p.N = N;
  p.H = 1;
  p.variable_length = !lengths.empty();
  return Steps(Dims(p), lengths.data());
}

std::vector<uint8_t> Mask(const Steps& steps, int64_t width, double p, uint64_t seed, int64_t l) {
  std::vector<uint8_t> mask(steps.rows() * width, 255);
  DrawMask(Execution(), steps, width, p, seed, l, mask.data());
  return mask;
}

// The published first block of Philox4x32-10 for key and counter 0 (Random123, kat_vectors), found
// by the thresholds at which its elements begin to be kept.
void TestKnownAnswer() {
  constexpr uint32_t kPhilox[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const Steps steps = StepsOf(1, 1);
  for (int j = 0; j < 4; ++j) {
    Scope scope("element %d", j);
    const double value = kPhilox[j];
    CHECK_EQ(int{Mask(steps, 4, 1 - value * 0x1p-32, 0, 0)[j]}, 0);
    CHECK_EQ(int{Mask(steps, 4, 1 - (value + 1) * 0x1p-32, 0, 0)[j]}, 1);
  }
}

void TestProbabilities() {
  const Steps steps = StepsOf(50, 40);
  constexpr int64_t kWidth = 30;
  for (double p : {0.0, 1e-3, 0.25, 0.5, 0.9, 1.0}) {
    Scope scope("p %g", p);
    const std::vector<uint8_t> mask = Mask(steps, kWidth, p, 123, 1);
    const double n = static_cast<double>(mask.size());
    const double kept = static_cast<double>(std::count(mask.begin(), mask.end(), 1));
    CHECK_EQ(std::count(mask.begin(), mask.end(), 0) + kept, n);
    CHECK(std::fabs(kept - n * (1 - p)) <= 5 * std::sqrt(n * p * (1 - p)));
    std::vector<float> in(mask.size(), 3), out(mask.size());
    ApplyMask(Execution(), steps.rows(), kWidth, p, mask.data(), in.data(), out.data());
    int64_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i)
      wrong += out[i] != (mask[i] ? 3 * static_cast<float>(1 / (1 - p)) : 0);
    CHECK_EQ(wrong, 0);
  }
}

// Neighbours in each dimension agree about as often as independent draws do.
void TestIndependence() {
  constexpr int64_t T = 40, N = 20, kWidth = 36;
  const Steps steps = StepsOf(T, N);
  const std::vector<uint8_t> mask = Mask(steps, kWidth, 0.5, 99, 0);
  const auto agree = [&mask](const std::vector<uint8_t>& other, int64_t shift) {
    double same = 0, n = 0;
    for (size_t i = shift; i < mask.size(); ++i, ++n) same += mask[i] == other[i - shift];
    CHECK(std::fabs(same - n / 2) <= 5 * std::sqrt(n) / 2);
  };
  for (int64_t shift : {1, 2, 3, 4, 8, 32, 36, 72, 720}) agree(mask, shift);
  agree(Mask(steps, kWidth, 0.5, 100, 0), 0);                       // another seed
  agree(Mask(steps, kWidth, 0.5, 99 + (uint64_t{1} << 32), 0), 0);  // in its upper half
  agree(Mask(steps, kWidth, 0.5, 99, 1), 0);                        // another layer
}

// An element's draw depends on its own place alone: not on threads, nor on lengths.
void TestPlaces() {
  constexpr int64_t T = 60, N = 50, kWidth = 37;
  const Steps full = StepsOf(T, N);
  SetNumThreads(1);
  const std::vector<uint8_t> mask = Mask(full, kWidth, 0.5, 5, 2);
  SetNumThreads(5);
  CHECK(Mask(full, kWidth, 0.5, 5, 2) == mask);
  SetNumThreads(0);
  std::vector<int64_t> lengths(N);
  Random random(1);
  random.FillInts(&lengths, 0, T);
  const Steps steps = StepsOf(T, N, lengths);
  const std::vector<uint8_t> packed = Mask(steps, kWidth, 0.5, 5, 2);
  int64_t wrong = 0;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t i = 0; i < steps.n(t); ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        wrong +=
            packed[(steps.row(t) + i) * kWidth + j] != mask[(t * N + steps.order(i)) * kWidth + j];
      }
    }
  }
  CHECK_EQ(wrong, 0);
}

// In the layers: between them and not after the last, with the factors of the mask; only in
// training; by the seed.
void TestLayers() {
  for (Mode mode : kModes) {
    Case c = SmallCase(mode);
    c.problem.L = 3;
    for (double p : {0.3, 1.0}) {
      c.problem.dropout = p;
      Scope scope("%s", c.Describe().c_str());
      ForEachIsa([&c] {
        const Inputs<double> in(c, 1);
        Results<double> trained(in), inferred(in), other(in);
        const DropoutFactors factors =
            ReadDropoutFactors<double>(c, RunTrainingForward(c, in, &trained));
        CheckOutputs(c, trained, NaiveForward(c, NaiveInputsOf(in), factors));
        RunInference(c, in, &inferred);
        CheckOutputs(c, inferred, NaiveForward(c, NaiveInputsOf(in)));
        Case reseeded = c;
        ++reseeded.dropout_seed;
        RunTrainingForward(reseeded, in, &other);
        CHECK_EQ(SameBits(other.y, trained.y), c.problem.dropout == 1);
      });
    }
  }
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestKnownAnswer();
  TestProbabilities();
  TestIndependence();
  TestPlaces();
  TestLayers();
  return TestResult();
}
