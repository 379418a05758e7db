// Which sequences take part in which time step, and where their rows are.
//
// Inside the library a batch of sequences of different lengths is packed: sequences are ordered by
// falling length, so that those still running at time t are the first n(t), and only their rows
// exist: row(t) + i for 0 <= i < n(t). Work and memory follow the sum of the lengths, and padding
// is never read. Without lengths this is the plain [T*N] order.
#ifndef FUSED_RNN_RNN_STEPS_H_
#define FUSED_RNN_RNN_STEPS_H_

#include <algorithm>
#include <vector>

#include "base/team.h"
#include "rnn/dims.h"

namespace fused_rnn {

class Steps {
 public:
  // lengths [N], read only if dims.variable_length; throws Error for one outside [0, T].
  Steps(const Dims& dims, const int64_t* lengths);

  int64_t T() const { return dims_T_; }
  int64_t N() const { return dims_N_; }
  bool packed() const { return !order_.empty(); }
  int64_t rows() const { return row(dims_T_); }  // sum of the lengths
  int64_t row(int64_t t) const { return packed() ? row_[t] : t * dims_N_; }
  int64_t n(int64_t t) const { return packed() ? row_[t + 1] - row_[t] : dims_N_; }
  // The caller's index of packed sequence i.
  int64_t order(int64_t i) const { return packed() ? order_[i] : i; }
  int64_t length(int64_t i) const { return packed() ? length_[i] : dims_T_; }

  // Time of step s of direction d: the reverse direction (1) runs from the last step to the first.
  int64_t TimeOf(int64_t d, int64_t s) const { return d == 0 ? s : dims_T_ - 1 - s; }

 private:
  int64_t dims_T_, dims_N_;
  std::vector<int64_t> order_, length_, row_;  // empty without lengths
};

// One step of one direction, as its recurrence sees it.
struct Step {
  int64_t t;
  int64_t row, n;  // rows of this step
  int64_t prev_row,
      prev_n;  // rows of the step before in the order of computation; prev_n = 0 for the first
  int64_t continuing;  // sequences [0, continuing) took part in the step before, [continuing, n)
                       // begin here, and [continuing, prev_n) ended with the step before
};

// Step s of a pass that takes direction d's times in their own order (forward) or from last to
// first (backward). s = T gives a step without rows, at which all that were running have ended.
Step StepOf(const Steps& steps, int64_t d, int64_t s, bool backward);

// Cuts rows of time t into those with a step before it in direction d's order and those that begin
// at t. body(part, first row of the step before, or -1 for the initial state)
template <typename Body>
void ForEachPrevious(const Steps& steps, int64_t t, int64_t d, Range rows, const Body& body) {
  const int64_t prev = d == 0 ? t - 1 : t + 1;
  const bool has_prev = prev >= 0 && prev < steps.T();
  const int64_t with_prev = std::max(rows.begin, std::min(rows.end, has_prev ? steps.n(prev) : 0));
  if (rows.begin < with_prev) body(Range{rows.begin, with_prev}, steps.row(prev));
  if (with_prev < rows.end) body(Range{with_prev, rows.end}, int64_t{-1});
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_STEPS_H_
