// The two passes on NumPy arrays. Every array is checked here before the core sees its pointer, so
// that no call from Python can read or write out of bounds.
#ifndef FUSED_RNN_PYBIND_PASSES_H_
#define FUSED_RNN_PYBIND_PASSES_H_

#include <memory>
#include <string>

#include "arrays.h"
#include "fused_rnn/rnn.h"
#include "problem.h"

namespace fused_rnn {

// (y, hN, cN, reserve); cN is None unless the mode has a cell state, reserve is None unless
// training.
py::tuple ForwardArrays(const Given& given, bool training, uint64_t dropout_seed,
                        const PackedWeights* packed);

// A forward's output and reserve, and a loss's gradients by the outputs.
struct Heads {
  const py::array& y;
  const py::array& reserve;
  const OptionalArray& dy;
  const OptionalArray& dhN;
  const OptionalArray& dcN;
};

// The caller's arrays for gradients, if there are any, and the names of their requests.
struct Wanted {
  const OptionalArray& dx;
  const OptionalArray& dparams;
  const OptionalArray& dh0;
  const OptionalArray& dc0;
  const std::string& dx_req;
  const std::string& dparams_req;
  const std::string& dh0_req;
  const std::string& dc0_req;
};

// (dx, dparams, dh0, dc0); None for those of request 'null'.
py::tuple BackwardArrays(const Given& given, const Heads& heads, const Wanted& wanted);

std::unique_ptr<PackedWeights> MakePacked(const std::string& mode, const py::array& params,
                                          int64_t input_size, int64_t hidden_size,
                                          int64_t num_layers, bool bidirectional,
                                          int64_t projection_size);

}  // namespace fused_rnn

#endif  // FUSED_RNN_PYBIND_PASSES_H_
