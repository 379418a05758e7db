// Moves rows between the caller's order, [T, N, width], and the packed order (see steps.h).
#ifndef FUSED_RNN_RNN_ROWS_H_
#define FUSED_RNN_RNN_ROWS_H_

#include <algorithm>

#include "base/team.h"
#include "rnn/steps.h"

namespace fused_rnn {

// packed [rows, width] = those rows of full [T, N, width] that exist.
template <typename Real>
void PackRows(const Execution& execution, const Steps& steps, int64_t width, const Real* full,
              Real* packed) {
  const double work = static_cast<double>(steps.rows()) * width;
  ParallelFor(execution, work, steps.T(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < steps.n(t); ++i) {
        const Real* from = full + (t * steps.N() + steps.order(i)) * width;
        std::copy(from, from + width, packed + (steps.row(t) + i) * width);
      }
    }
  });
}

// full = packed where a row exists; elsewhere 0, or unchanged with `add`, which adds to what is
// there.
template <typename Real>
void UnpackRows(const Execution& execution, const Steps& steps, int64_t width, const Real* packed,
                Real* full, bool add) {
  const double work = static_cast<double>(steps.T()) * steps.N() * width;
  ParallelFor(execution, work, steps.T(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < steps.N(); ++i) {
        Real* to = full + (t * steps.N() + steps.order(i)) * width;
        const Real* from = packed + (steps.row(t) + i) * width;
        if (i >= steps.n(t)) {
          if (!add) std::fill(to, to + width, Real(0));
        } else if (add) {
          for (int64_t j = 0; j < width; ++j) to[j] += from[j];
        } else {
          std::copy(from, from + width, to);
        }
      }
    }
  });
}

// The rows of a state [N, width] in packed order: `state` itself if the orders agree, else a copy
// in `copy`. Null stays null.
template <typename Real>
const Real* PackState(const Steps& steps, int64_t width, const Real* state, Real* copy) {
  if (state == nullptr || !steps.packed()) return state;
  for (int64_t i = 0; i < steps.N(); ++i) {
    const Real* from = state + steps.order(i) * width;
    std::copy(from, from + width, copy + i * width);
  }
  return copy;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_ROWS_H_
