// Compares results with the judge's (naive_rnn.h), within a bound that follows from the problem's
// sizes.
#ifndef FUSED_RNN_TESTS_CPP_COMPARE_H_
#define FUSED_RNN_TESTS_CPP_COMPARE_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "check.h"
#include "naive_rnn.h"
#include "rnn_case.h"

namespace fused_rnn {

// The error that rounding may leave, in units of the type's epsilon at the magnitude of the result.
// The rounding errors of a sum of K terms add up as sqrt(K) times one; each step and each layer
// adds its own to those that it receives.
inline double RoundingUnits(const Case& c, double terms) {
  return std::sqrt(terms) * std::sqrt(static_cast<double>(std::max<int64_t>(1, c.problem.T))) *
         static_cast<double>(c.problem.L);
}
// Of outputs: sums over the inputs of a gate.
inline double OutputUnits(const Case& c) {
  return RoundingUnits(
      c, static_cast<double>(std::max(c.problem.I, c.problem.D * c.StateSize()) + c.problem.H));
}
// Of gradients: sums over gates, and over all rows for those of weights.
inline double GradientUnits(const Case& c) {
  const Problem& p = c.problem;
  return OutputUnits(c) + RoundingUnits(c, static_cast<double>(GatesOf(p.mode) * p.H + p.T * p.N));
}

// The 16-bit types are computed with in float32 and rounded once, when stored; a backward starts
// from such a y.
template <typename T>
double UnitsFor(double units) {
  return kIsHalf<T> ? 2 + units * Epsilon<float>() / Epsilon<T>() : units;
}

// |got - expected| <= units * epsilon * max(1, max |expected|), and NaN where NaN is expected.
template <typename T>
void CheckNear(const char* name, const GuardedArray<T>& got, const std::vector<double>& expected,
               double float_units) {
  const double units = UnitsFor<T>(float_units);
  if (!CHECK_EQ(got.size(), static_cast<int64_t>(expected.size()))) return;
  double magnitude = 1, worst = 0;
  for (double value : expected) {
    if (std::isfinite(value)) magnitude = std::max(magnitude, std::fabs(value));
  }
  int64_t at = -1;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double value = ToDouble(got[i]);
    if (std::isnan(value) && std::isnan(expected[i])) continue;
    const double error = std::fabs(value - expected[i]) / (magnitude * Epsilon<T>());
    if (error <= worst) continue;  // false for NaN
    worst = error;
    at = i;
    if (std::isnan(error)) break;
  }
  if (worst <= units) {
    CHECK(true);
    return;
  }
  Scope scope("%s[%d]: got %.9g, expected %.9g, error %.3g > %.3g units", name,
              static_cast<int>(at), ToDouble(got[at]), expected[at], worst, units);
  CHECK(!"near");
}

template <typename T>
void CheckOutputs(const Case& c, const Results<T>& got, const NaiveOutputs<double>& expected) {
  CheckNear("y", got.y, expected.y, OutputUnits(c));
  CheckNear("hN", got.hN, expected.hN, OutputUnits(c));
  CheckNear("cN", got.cN, expected.cN, OutputUnits(c));
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_COMPARE_H_
