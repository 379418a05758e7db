// NumPy arrays for the core: their checks, and memory of the core's alignment.
#ifndef FUSED_RNN_PYBIND_ARRAYS_H_
#define FUSED_RNN_PYBIND_ARRAYS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "fused_rnn/memory.h"

namespace fused_rnn {

namespace py = pybind11;

using Shape = std::vector<py::ssize_t>;
using OptionalArray = std::optional<py::array>;

// Throws ValueError. All rejections of this module have this form.
[[noreturn]] void Reject(const std::string& argument, const std::string& expected,
                         const std::string& actual);

// str(object).
std::string Text(const py::handle& object);

void CheckDType(const char* argument, const py::array& array, const py::dtype& dtype);
void CheckShape(const char* argument, const py::array& array, const Shape& shape);

// Whether the core can use the array's memory as it is: C-contiguous and aligned to its elements.
bool IsDense(const py::array& array);

// The array itself, or a copy if it is not dense.
py::array Dense(const py::array& array);

// Dense, of this dtype and shape.
py::array CheckInput(const char* argument, const py::array& array, const py::dtype& dtype,
                     const Shape& shape);
OptionalArray CheckInput(const char* argument, const OptionalArray& array, const py::dtype& dtype,
                         const Shape& shape);

// Null without an array.
const void* Data(const OptionalArray& array);
void* MutableData(OptionalArray& array);

// The first `bytes` of a buffer, which ends with the array: in whatever thread, or forked process,
// that is.
py::array ToArray(Buffer buffer, size_t bytes);

}  // namespace fused_rnn

#endif  // FUSED_RNN_PYBIND_ARRAYS_H_
