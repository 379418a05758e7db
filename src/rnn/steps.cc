#include "rnn/steps.h"

#include <algorithm>
#include <cinttypes>
#include <numeric>

#include "base/check.h"

namespace fused_rnn {

Steps::Steps(const Dims& dims, const int64_t* lengths) : dims_T_(dims.T), dims_N_(dims.N) {
  if (!dims.variable_length) return;
  FUSED_RNN_CHECK(lengths != nullptr || dims.N == 0, "lengths: expected [N] numbers, got null");
  for (int64_t n = 0; n < dims.N; ++n) {
    FUSED_RNN_CHECK(lengths[n] >= 0 && lengths[n] <= dims.T,
                    "sequence_length[%" PRId64 "]: expected 0 to T = %" PRId64 ", got %" PRId64, n,
                    dims.T, lengths[n]);
  }
  order_.resize(dims.N);
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  length_.resize(dims.N);
  for (int64_t i = 0; i < dims.N; ++i) length_[i] = lengths[order_[i]];
  row_.resize(dims.T + 1);
  int64_t running = dims.N, row = 0;
  for (int64_t t = 0; t < dims.T; ++t) {
    while (running > 0 && length_[running - 1] <= t) --running;
    row_[t] = row;
    row += running;
  }
  row_[dims.T] = row;
  // All lengths T, or nobody: the plain order serves, and its buffers are the caller's own.
  const bool full = row == dims.T * dims.N;
  if (full) order_.clear();
}

Step StepOf(const Steps& steps, int64_t d, int64_t s, bool backward) {
  const int64_t order = backward ? 1 - d : d;
  Step step{};
  if (s < steps.T()) {
    step.t = steps.TimeOf(order, s);
    step.row = steps.row(step.t);
    step.n = steps.n(step.t);
  }
  if (s > 0) {
    const int64_t prev = steps.TimeOf(order, s - 1);
    step.prev_row = steps.row(prev);
    step.prev_n = steps.n(prev);
  }
  step.continuing = std::min(step.n, step.prev_n);
  return step;
}

}  // namespace fused_rnn
