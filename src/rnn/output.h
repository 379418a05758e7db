// Gradients on their way to the caller.
#ifndef FUSED_RNN_RNN_OUTPUT_H_
#define FUSED_RNN_RNN_OUTPUT_H_

#include "fused_rnn/rnn.h"

namespace fused_rnn {

// A gradient that goes to the caller.
template <typename Real>
struct Output {
  Real* data;  // null: not wanted
  bool add;

  Output(void* data, Request request)
      : data(request == Request::kNull ? nullptr : static_cast<Real*>(data)),
        add(request == Request::kAdd) {}
  Output Part(int64_t offset) const {
    Output part = *this;
    if (data != nullptr) part.data += offset;
    return part;
  }
  void Put(int64_t index, Real value) const { data[index] = add ? data[index] + value : value; }
  // data[j] = values[j], j < n; null `values` are zeros.
  void PutAll(const Real* values, int64_t n) const {
    if (data == nullptr) return;
    for (int64_t j = 0; j < n; ++j) Put(j, values != nullptr ? values[j] : Real(0));
  }
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_OUTPUT_H_
