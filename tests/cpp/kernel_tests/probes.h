// The probes do what they are timed for.
#ifndef FUSED_RNN_TESTS_CPP_KERNEL_TESTS_PROBES_H_
#define FUSED_RNN_TESTS_CPP_KERNEL_TESTS_PROBES_H_

#include <cmath>

#include "check.h"
#include "element.h"
#include "guarded_array.h"
#include "kernels/kernel_list.h"

namespace fused_rnn {
namespace {

// Each multiply-add halves the distance from 1/2; the operations count all lanes.
template <typename Real>
void TestKernel(kernel::FmaRounds<Real> fma_rounds) {
  Real value = 0;
  const double once = fma_rounds.Of(ActiveIsa())(1, &value);
  CHECK(once > 0);
  CHECK_EQ(std::fmod(once, 2.0 * static_cast<double>(Lanes<Real>())), 0.0);
  CHECK_EQ(fma_rounds.Of(ActiveIsa())(10, &value), 10 * once);
  CHECK(std::fmod(value, Real(0.5)) == 0 && value > 0);
}

// The sum of every V-th element; what is beyond the last whole 8*V stays unread.
template <typename Real>
void TestKernel(kernel::ReadAll<Real> read_all) {
  const int64_t V = Lanes<Real>(), step = 8 * V;
  for (int64_t n : {int64_t{0}, step - 1, step, 3 * step, 3 * step + V}) {
    const int64_t whole = n / step * step;
    GuardedArray<Real> data(n);  // starts as NaN
    Real sum = 0;
    for (int64_t i = 0; i < whole; ++i) {
      data[i] = static_cast<Real>(i % 50);
      if (i % V == 0) sum += data[i];
    }
    CHECK_EQ(read_all.Of(ActiveIsa())(data.data(), n), sum);
  }
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_KERNEL_TESTS_PROBES_H_
