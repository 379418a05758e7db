// sigmoid and tanh against long double: error bounds, ranges, NaN, tails.
#ifndef FUSED_RNN_TESTS_CPP_KERNEL_TESTS_ACTIVATIONS_H_
#define FUSED_RNN_TESTS_CPP_KERNEL_TESTS_ACTIVATIONS_H_

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/team.h"
#include "check.h"
#include "guarded_array.h"
#include "kernels/kernel_list.h"
#include "random.h"

namespace fused_rnn {
namespace {

// What kernels/activations-inl.h states: in units in the last place, where |x| <= kExactRange for a
// sigmoid; below it the result is between 0 and that of the range's end.
constexpr double kMaxUlp = 3;

template <typename Real>
struct Activation {
  const char* name;
  void (*kernel)(const Real*, Real*, int64_t);
  long double (*exact)(long double);
  Real low, high;  // the values' range
  Real saturates;  // below this argument only closeness to 0 is promised
};

long double ExactSigmoid(long double x) { return 1 / (1 + expl(-x)); }
long double ExactTanh(long double x) { return tanhl(x); }

// |result - exact| in units in the last place of `exact`.
template <typename Real>
double UlpError(Real result, long double exact) {
  using Limits = std::numeric_limits<Real>;
  const int exponent = exact == 0 ? Limits::min_exponent - 1 : std::ilogb(exact);
  const int lowest = Limits::min_exponent - 1;  // of normal numbers
  const long double ulp = std::ldexp(1.0L, std::max(exponent, lowest) - (Limits::digits - 1));
  return static_cast<double>(std::fabs(result - exact) / ulp);
}

template <typename Real>
bool Subnormal(Real x) {
  return std::fpclassify(x) == FP_SUBNORMAL;
}

// Is `result` good for the argument x? `flushed`: subnormal numbers count as 0. Raises *max_ulp.
template <typename Real>
bool Good(const Activation<Real>& f, Real x, Real result, long double exact, bool flushed,
          double* max_ulp) {
  if (std::isnan(x)) return std::isnan(result);
  if (!(result >= f.low && result <= f.high)) return false;
  const Real tiny = std::numeric_limits<Real>::min();
  if (x < f.saturates) return result <= 2 * tiny;
  if (flushed && std::fabs(exact) < tiny) return std::fabs(result) <= tiny;
  const double ulp = UlpError(result, exact);
  *max_ulp = std::max(*max_ulp, ulp);
  return ulp <= kMaxUlp;
}

// Around the places where the formulas change: ln 2 / 2, where a result rounds to its limit, where
// exp or its inverse leaves the normal numbers.
constexpr double kMagnitudes[] = {0,   1e-30, 1e-10, 1e-3,  0.3465, 0.3466, 0.5, 1,   2,
                                  8.5, 9,     9.5,   10,    18,     19,     20,  22,  40,
                                  86,  86.99, 87,    87.01, 88,     89,     104, 700, 707,
                                  708, 709,   710,   745,   746,    1000,   1e30};

template <typename Real>
std::vector<Real> SpecialArguments() {
  using Limits = std::numeric_limits<Real>;
  std::vector<Real> values = {Limits::denorm_min(), Limits::min() / 2, Limits::min(),
                              Limits::epsilon(),    Limits::max(),     Limits::infinity()};
  for (double value : kMagnitudes) values.push_back(static_cast<Real>(value));
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    values.push_back(-values[i]);
    values.push_back(std::nextafter(values[i], Real(0)));
    values.push_back(std::nextafter(values[i], Limits::infinity()));
  }
  return values;
}

// Quiet NaNs of both signs with several payloads, and signalling ones.
template <typename Real>
std::vector<Real> Nans() {
  using Bits = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;
  const int mantissa = std::numeric_limits<Real>::digits - 1;
  const Bits exponent = ((Bits{1} << (8 * sizeof(Real) - 1 - mantissa)) - 1) << mantissa;
  const Bits sign = Bits{1} << (8 * sizeof(Real) - 1), quiet = Bits{1} << (mantissa - 1);
  std::vector<Real> values;
  for (Bits payload :
       {quiet, quiet | 1, quiet | (quiet >> 1), quiet | (quiet - 1), Bits{1}, quiet - 1}) {
    for (Bits bits : {exponent | payload, sign | exponent | payload}) {
      Real value;
      std::memcpy(&value, &bits, sizeof(value));
      values.push_back(value);
    }
  }
  return values;
}

// Calls body(arguments) for batches that together cover the line densely: equal steps where the
// functions bend, and all magnitudes.
template <typename Real, typename Body>
void ForDenseArguments(const Body& body) {
  constexpr int kBatch = 4096, kBatches = 800;
  Random random(1);
  std::vector<Real> x(kBatch);
  for (int batch = 0; batch < kBatches; ++batch) {
    const double range = batch % 4 == 0 ? 1 : batch % 4 == 1 ? 10 : sizeof(Real) == 4 ? 90 : 720;
    for (Real& value : x) {
      value = static_cast<Real>(
          batch % 4 == 3 ? std::exp2(random.Uniform(std::numeric_limits<Real>::min_exponent - 20,
                                                    std::numeric_limits<Real>::max_exponent - 1)) *
                               (random.Int(0, 1) == 0 ? -1 : 1)
                         : random.Uniform(-range, range));
    }
    body(x);
  }
}

template <typename Real>
void Map(const Activation<Real>& f, const std::vector<Real>& x, bool flushed,
         std::vector<Real>* y) {
  std::optional<FlushSubnormals> flush;
  if (flushed) flush.emplace();
  y->assign(x.size(), std::numeric_limits<Real>::quiet_NaN());
  f.kernel(x.data(), y->data(), static_cast<int64_t>(x.size()));
}

template <typename Real>
void TestErrors(const Activation<Real>& f) {
  double max_ulp[2] = {};
  std::vector<long double> exact;
  std::vector<Real> y;
  const auto test = [&](const std::vector<Real>& x) {
    exact.clear();
    for (Real value : x) exact.push_back(f.exact(value));
    for (bool flushed : {false, true}) {  // subnormals, as in a team's thread
      Scope mode_scope("subnormals %s", flushed ? "flushed" : "kept");
      Map(f, x, flushed, &y);
      for (size_t i = 0; i < x.size(); ++i) {
        if (Good(f, x[i], y[i], exact[i], flushed, &max_ulp[flushed])) continue;
        Scope scope("%s(%.17g) = %.17g, expected %.17g", f.name, double{x[i]}, double{y[i]},
                    static_cast<double>(exact[i]));
        CHECK(!"within the bound");
      }
    }
  };
  test(SpecialArguments<Real>());
  test(Nans<Real>());
  ForDenseArguments<Real>(test);
  std::printf("%s: at most %.3f ulp, with subnormals flushed %.3f\n", f.name, max_ulp[0],
              max_ulp[1]);
  CHECK(max_ulp[0] > 0.5 && max_ulp[1] > 0.5);  // the rounding alone costs this much
}

// Every length up to two vectors and a tail, every place in it: what a lane computes depends on its
// own argument alone, and nothing is read or written around the arrays.
template <typename Real>
void TestLanes(const Activation<Real>& f) {
  std::vector<Real> specials = Nans<Real>();
  for (Real value : SpecialArguments<Real>()) specials.push_back(value);
  std::vector<Real> alone;
  Map(f, specials, false, &alone);
  const std::vector<Real> ordinary = {Real(0.75)};
  std::vector<Real> expected;
  Map(f, ordinary, false, &expected);
  size_t next = 0;
  for (int64_t n = 1; n <= 2 * Kernels<Real>(ActiveIsa()).lanes + 1; ++n) {
    GuardedArray<Real> x(n), y(n);
    for (int64_t place = 0; place < n; ++place) {
      for (int repeat = 0; repeat < 8; ++repeat, next = (next + 1) % specials.size()) {
        Scope scope("n %d, place %d, %s(%g)", static_cast<int>(n), static_cast<int>(place), f.name,
                    double{specials[next]});
        std::fill(x.begin(), x.end(), ordinary[0]);
        std::fill(y.begin(), y.end(), std::numeric_limits<Real>::quiet_NaN());
        x[place] = specials[next];
        f.kernel(x.data(), y.data(), n);
        bool same = true;
        for (int64_t i = 0; i < n; ++i) {
          const Real want = i == place ? alone[next] : expected[0];
          same = same && (std::isnan(want) ? std::isnan(y[i]) : y[i] == want);
        }
        CHECK(same);
        CHECK(x.Intact() && y.Intact());
      }
    }
  }
}

// 1/2 at both zeros.
template <typename Real>
void TestKernel(kernel::Sigmoid<Real> sigmoid) {
  const Activation<Real> f = {
      sigmoid.kName, sigmoid.Of(ActiveIsa()), ExactSigmoid, 0, 1, sizeof(Real) == 4 ? -87 : -708};
  TestErrors(f);
  TestLanes(f);
  std::vector<Real> y;
  Map(f, {Real(0), Real(-0.0)}, false, &y);
  CHECK_EQ(y[0], Real(0.5));
  CHECK_EQ(y[1], Real(0.5));
}

// f(-x) = -f(x), bit by bit.
template <typename Real>
void TestKernel(kernel::Tanh<Real> tanh) {
  const Real infinity = std::numeric_limits<Real>::infinity();
  const Activation<Real> f = {tanh.kName, tanh.Of(ActiveIsa()), ExactTanh, -1, 1, -infinity};
  TestErrors(f);
  TestLanes(f);
  const std::vector<Real> x = SpecialArguments<Real>();
  std::vector<Real> minus_x, y, minus_y;
  for (Real value : x) minus_x.push_back(-value);
  Map(f, x, false, &y);
  Map(f, minus_x, false, &minus_y);
  for (Real& value : minus_y) value = -value;
  CHECK(std::memcmp(y.data(), minus_y.data(), y.size() * sizeof(Real)) == 0);
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_KERNEL_TESTS_ACTIVATIONS_H_
