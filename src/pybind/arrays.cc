#include "arrays.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "fused_rnn/error.h"

namespace fused_rnn {
namespace {

constexpr int kDense = py::array::c_style | py::detail::npy_api::NPY_ARRAY_ALIGNED_;

}  // namespace

[[noreturn]] void Reject(const std::string& argument, const std::string& expected,
                         const std::string& actual) {
  throw py::value_error(argument + ": expected " + expected + ", got " + actual);
}

std::string Text(const py::handle& object) { return py::str(object); }

void CheckDType(const char* argument, const py::array& array, const py::dtype& dtype) {
  if (!array.dtype().equal(dtype)) Reject(argument, "dtype " + Text(dtype), Text(array.dtype()));
}

void CheckShape(const char* argument, const py::array& array, const Shape& shape) {
  if (Shape(array.shape(), array.shape() + array.ndim()) == shape) return;
  Reject(argument, "shape " + Text(py::tuple(py::cast(shape))), Text(array.attr("shape")));
}

bool IsDense(const py::array& array) { return (array.flags() & kDense) == kDense; }

py::array Dense(const py::array& array) {
  py::array dense = py::array::ensure(array, kDense);
  // pybind11 hides the reason, but a copy has no other.
  if (!dense) throw OutOfMemory("a copy of an array", static_cast<size_t>(array.nbytes()));
  return dense;
}

py::array CheckInput(const char* argument, const py::array& array, const py::dtype& dtype,
                     const Shape& shape) {
  CheckDType(argument, array, dtype);
  CheckShape(argument, array, shape);
  return Dense(array);
}

OptionalArray CheckInput(const char* argument, const OptionalArray& array, const py::dtype& dtype,
                         const Shape& shape) {
  if (!array) return std::nullopt;
  return CheckInput(argument, *array, dtype, shape);
}

const void* Data(const OptionalArray& array) { return array ? array->data() : nullptr; }
void* MutableData(OptionalArray& array) { return array ? array->mutable_data() : nullptr; }

py::array ToArray(Buffer buffer, size_t bytes) {
  auto held = std::make_unique<Buffer>(std::move(buffer));
  const auto* data = static_cast<const uint8_t*>(held->data());
  const py::capsule owner(held.get(), [](void* owned) { delete static_cast<Buffer*>(owned); });
  held.release();
  return py::array_t<uint8_t>(static_cast<py::ssize_t>(bytes), data, owner);
}

}  // namespace fused_rnn
