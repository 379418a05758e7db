// The problem that a call from Python means, and the arrays that describe it.
#ifndef FUSED_RNN_PYBIND_PROBLEM_H_
#define FUSED_RNN_PYBIND_PROBLEM_H_

#include <optional>
#include <string>

#include "arrays.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {

// Values by their names in Python. They throw ValueError, as everything here does.
Mode ModeOf(const std::string& name);
DType DTypeOf(const std::string& name);
Request RequestOf(const std::string& argument, const std::string& name);
// NumPy has no bfloat16, so an array's dtype is one of the other three.
DType DTypeOf(const char* argument, const py::array& array);

// Options of the layers, as Python has them.
struct Options {
  int64_t num_layers;
  bool bidirectional;
  int64_t projection_size;
  double dropout = 0;
  std::optional<double> clip_min = std::nullopt;
  std::optional<double> clip_max = std::nullopt;
  bool clip_nan = false;
};

// Without lengths.
Problem MakeProblem(Mode mode, DType dtype, int64_t T, int64_t N, int64_t I, int64_t H,
                    const Options& options);

// What forward and backward are both given.
struct Given {
  const std::string& mode;
  const py::array& x;
  const py::array& params;
  const py::array& h0;
  const OptionalArray& c0;
  const OptionalArray& lengths;
  const Options& options;
};

// The same, checked, and copied where an array is not dense.
struct Inputs {
  Problem problem;
  py::dtype dtype;
  Shape h_shape;
  Shape c_shape;
  Shape y_shape;
  py::array x;
  py::array params;
  py::array h0;
  OptionalArray c0;
  OptionalArray lengths;

  bool has_cell_state() const { return HasCellState(problem.mode); }

  // Into the arguments of either pass.
  template <typename Args>
  void PutInto(Args* args) const {
    args->x = x.data();
    args->params = params.data();
    args->h0 = h0.data();
    args->c0 = Data(c0);
    args->lengths = static_cast<const int64_t*>(Data(lengths));
  }
};

Inputs CheckInputs(const Given& given);

}  // namespace fused_rnn

#endif  // FUSED_RNN_PYBIND_PROBLEM_H_
