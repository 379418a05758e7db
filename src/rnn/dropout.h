// Dropout between layers (Srivastava et al. 2014, in the inverted form: what is kept is scaled by 1
// / (1 - p)).
#ifndef FUSED_RNN_RNN_DROPOUT_H_
#define FUSED_RNN_RNN_DROPOUT_H_

#include "base/execution.h"
#include "rnn/steps.h"

namespace fused_rnn {

// Draws mask [rows, width] bytes (1 = kept) for the output of layer l. An element's draw depends
// only on `seed`, l and its place (t, n, unit) in the caller's order, so that threads, batch order
// and lengths of other sequences do not change it.
void DrawMask(const Execution& execution, const Steps& steps, int64_t width, double p,
              uint64_t seed, int64_t l, uint8_t* mask);

// out [rows, width] = in * mask / (1 - p); out may be in.
template <typename Real>
void ApplyMask(const Execution& execution, int64_t rows, int64_t width, double p,
               const uint8_t* mask, const Real* in, Real* out);

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_DROPOUT_H_
