// What dropout did in a training forward, read from its reserve.
#ifndef FUSED_RNN_TESTS_CPP_DROPOUT_FACTORS_H_
#define FUSED_RNN_TESTS_CPP_DROPOUT_FACTORS_H_

#include "naive_rnn.h"
#include "rnn/memory_plan.h"
#include "rnn/steps.h"

namespace fused_rnn {

template <typename T>
DropoutFactors ReadDropoutFactors(const Case& c, const Memory& reserve) {
  const Dims dims(c.WithType(DTypeOf<T>()));
  if (!dims.drops) return {};
  const Steps steps(dims, c.lengths.data());
  const int64_t width = dims.D * dims.S, rows = dims.T * dims.N;
  const double scale = dims.dropout < 1 ? 1 / (1 - dims.dropout) : 0;
  DropoutFactors factors((dims.L - 1) * rows * width);
  for (int64_t l = 0; l + 1 < dims.L; ++l) {
    const uint8_t* mask =
        ReservePlan(dims, Lanes<T>()).mask.In<uint8_t>(reserve.data()) + l * rows * width;
    for (int64_t t = 0; t < dims.T; ++t) {
      for (int64_t i = 0; i < steps.n(t); ++i) {
        for (int64_t j = 0; j < width; ++j) {
          const uint8_t kept = mask[(steps.row(t) + i) * width + j];
          CHECK(kept <= 1);
          factors[((l * dims.T + t) * dims.N + steps.order(i)) * width + j] = kept * scale;
        }
      }
    }
  }
  return factors;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_DROPOUT_FACTORS_H_
