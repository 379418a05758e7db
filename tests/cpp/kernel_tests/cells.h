// The gate arithmetic, as the passes call it, against the naive cells: units around the vectors'
// widths, with and without a clip.
#ifndef FUSED_RNN_TESTS_CPP_KERNEL_TESTS_CELLS_H_
#define FUSED_RNN_TESTS_CPP_KERNEL_TESTS_CELLS_H_

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "check.h"
#include "compare.h"
#include "kernels/kernel_list.h"
#include "naive_rnn.h"
#include "random.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

// The gradients' slope along one random direction of all inputs.
template <typename Real>
void CheckSlope(const Case& c, const Inputs<Real>& in, const Results<Real>& got) {
  const NaiveInputs<double> point = NaiveInputsOf(in);
  NaiveInputs<double> direction = point;
  double slope = 0, magnitude = 1;
  int64_t terms = 0;
  Random random(5);
  const auto add = [&](const GuardedArray<Real>& gradient, std::vector<double>* along) {
    random.FillUniform(along, -1, 1);
    terms += gradient.size();
    for (int64_t i = 0; i < gradient.size(); ++i) {
      slope += double{gradient[i]} * (*along)[i];
      magnitude = std::max(magnitude, std::fabs(double{gradient[i]}));
    }
  };
  add(got.dx, &direction.x);
  add(got.dparams, &direction.params);
  add(got.dh0, &direction.h0);
  add(got.dc0, &direction.c0);
  const double expected = NaiveSlope(c, in, point, direction);
  // Errors of the elements add up as their signs happen to be.
  const double units = GradientUnits(c) * std::sqrt(static_cast<double>(terms));
  Scope scope("slope %.9g, expected %.9g", slope, expected);
  CHECK(std::fabs(slope - expected) <= units * Epsilon<Real>() * magnitude);
}

template <typename Real>
void TestKernel(kernel::Cells<Real>) {
  static_assert(std::size(kModes) == kModeCount);
  const int64_t V = Lanes<Real>();
  for (Mode mode : kModes) {
    for (int64_t H : {int64_t{1}, V - 1, V, V + 1, 4 * V + 1}) {
      for (bool clip : {false, true}) {
        if (clip && !IsLstm(mode)) continue;
        Case c = SmallCase(mode);
        c.problem.H = H;
        if (clip) SetClip(&c, -0.3, 0.2);
        Scope scope("%s", c.Describe().c_str());
        const Inputs<Real> in(c, 1);
        const Results<Real> got = RunTraining(c, in);
        CheckOutputs(c, got, NaiveForward(c, NaiveInputsOf(in)));
        CheckSlope(c, in, got);
      }
    }
  }
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_KERNEL_TESTS_CELLS_H_
