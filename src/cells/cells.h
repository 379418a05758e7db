// The list of all cells. A new one is a header, a line in each of the two places here, and a value
// of Mode in rnn.h.
#ifndef FUSED_RNN_CELLS_CELLS_H_
#define FUSED_RNN_CELLS_CELLS_H_

#include "cells/elman.h"
#include "cells/gru.h"
#include "cells/gru_reset_before.h"
#include "cells/lstm.h"

// In the order of Mode. For each there is a trait kNameCell and, within an instruction set's
// namespace, arithmetic kNameKernels<Real>.
#define FUSED_RNN_CELLS(X) X(RnnRelu) X(RnnTanh) X(Lstm) X(Gru) X(LstmPeephole) X(GruResetBefore)

namespace fused_rnn {

#define FUSED_RNN_TRAIT(name) k##name##Cell,
inline constexpr Cell kCells[] = {FUSED_RNN_CELLS(FUSED_RNN_TRAIT)};
#undef FUSED_RNN_TRAIT
constexpr int kCellCount = sizeof(kCells) / sizeof(kCells[0]);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CELLS_CELLS_H_
