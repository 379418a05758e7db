// All cells, in the order of Mode. A new one is its header here, and an entry in modes.h.
#ifndef FUSED_RNN_CELLS_CELLS_H_
#define FUSED_RNN_CELLS_CELLS_H_

#include "cells/elman.h"
#include "cells/gru.h"
#include "cells/gru_reset_before.h"
#include "cells/lstm.h"
#include "fused_rnn/modes.h"

namespace fused_rnn {

// For each mode there is a trait kNameCell and, within an instruction set's namespace, arithmetic
// kNameKernels<Real>.
#define FUSED_RNN_TRAIT(name, c_name, value) k##name##Cell,
inline constexpr Cell kCells[] = {FUSED_RNN_MODES(FUSED_RNN_TRAIT)};
#undef FUSED_RNN_TRAIT

}  // namespace fused_rnn

#endif  // FUSED_RNN_CELLS_CELLS_H_
