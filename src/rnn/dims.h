// Sizes that follow from a Problem. All in elements.
#ifndef FUSED_RNN_RNN_DIMS_H_
#define FUSED_RNN_RNN_DIMS_H_

#include "cells/cell.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {

struct Dims : Problem {
  // Checks the problem; throws Error that names the field, what was expected and what came.
  explicit Dims(const Problem& problem);

  const Cell& cell() const { return *cell_; }
  bool projected() const { return P > 0; }
  bool half() const { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

  int64_t G;  // gates
  int64_t S;  // size of h and, per direction, of y
  // Gates per hidden unit and step that a training forward keeps in the reserve: G or none.
  int64_t kept_gates;
  // Dropout acts between layers.
  bool drops;

  // Bytes of an element as computed with: the 16-bit types are computed in float32.
  int64_t ComputedBytes() const { return dtype == DType::kFloat64 ? 8 : 4; }

  int64_t InputSize(int64_t l) const { return l == 0 ? I : D * S; }

 private:
  const Cell* cell_;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_DIMS_H_
