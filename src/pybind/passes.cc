#include "passes.h"

#include <cstring>
#include <utility>
#include <vector>

#include "calls.h"

namespace fused_rnn {
namespace {

struct Region {
  std::string argument;
  const char* data;
  py::ssize_t bytes;
};

bool Overlap(const Region& a, const Region& b) {
  return a.bytes > 0 && b.bytes > 0 && a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

// One gradient: the caller's array, a new one, or none.
class Gradient {
 public:
  Gradient(const char* argument, const OptionalArray& array, const std::string& request,
           bool exists, const Inputs& in, const Shape& shape)
      : argument_(argument), request_(RequestOf(std::string(argument) + "_req", request)) {
    if (!exists) {
      if (array) Reject(argument, "None: this mode has no cell state", "an array");
      request_ = Request::kNull;
    }
    if (request_ == Request::kNull) return;
    if (!array) {
      if (request_ == Request::kAdd) Reject(argument, "an array to add to", "None");
      array_ = py::array(in.dtype, shape);
      return;
    }
    CheckDType(argument, *array, in.dtype);
    CheckShape(argument, *array, shape);
    if (!IsDense(*array) || !array->writeable()) {
      Reject(argument, "a writeable, C-contiguous array", "another one");
    }
    array_ = *array;
  }

  // Rejects memory shared with an input or an earlier gradient, then counts as one of them.
  void ClaimMemory(std::vector<Region>* regions) const {
    if (!array_) return;
    const Region own{argument_, static_cast<const char*>(array_->data()), array_->nbytes()};
    for (const Region& other : *regions) {
      if (Overlap(own, other))
        Reject(argument_, "memory of its own", "memory shared with " + other.argument);
    }
    regions->push_back(own);
  }

  void* data() { return MutableData(array_); }
  Request request() const { return request_; }
  const OptionalArray& array() const { return array_; }

 private:
  std::string argument_;
  Request request_;
  OptionalArray array_;
};

}  // namespace

py::tuple ForwardArrays(const Given& given, bool training, uint64_t dropout_seed,
                        const PackedWeights* packed) {
  Call call;
  const Inputs in = CheckInputs(given);
  py::array y(in.dtype, in.y_shape);
  py::array hN(in.dtype, in.h_shape);
  OptionalArray cN;
  if (in.has_cell_state()) cN = py::array(in.dtype, in.c_shape);
  Buffer workspace(MemoryKind::kWorkspace), reserve(MemoryKind::kReserve);
  const size_t reserve_bytes = training ? ReserveBytes(in.problem) : 0;

  ForwardArgs args;
  in.PutInto(&args);
  args.packed = packed;
  args.y = y.mutable_data();
  args.hN = hN.mutable_data();
  args.cN = MutableData(cN);
  args.workspace = workspace.Resize(ForwardWorkspaceBytes(in.problem, training));
  if (training) args.reserve = reserve.Resize(reserve_bytes);
  args.dropout_seed = dropout_seed;
  call.Compute([&](const Interrupt& interrupt) {
    args.interrupt = interrupt;
    Forward(in.problem, args);
  });
  py::object reserve_array = py::none();
  if (training) reserve_array = ToArray(std::move(reserve), reserve_bytes);
  return py::make_tuple(y, hN, cN, reserve_array);
}

std::unique_ptr<PackedWeights> MakePacked(const std::string& mode, const py::array& params,
                                          int64_t input_size, int64_t hidden_size,
                                          int64_t num_layers, bool bidirectional,
                                          int64_t projection_size) {
  Call call;
  const Options options{num_layers, bidirectional, projection_size};
  const Problem problem = MakeProblem(ModeOf(mode), DTypeOf("params", params), /*T=*/0, /*N=*/0,
                                      input_size, hidden_size, options);
  const py::array dense =
      CheckInput("params", params, params.dtype(), {static_cast<py::ssize_t>(ParamCount(problem))});
  std::unique_ptr<PackedWeights> packed;
  call.Compute([&](const Interrupt& interrupt) {
    packed = std::make_unique<PackedWeights>(problem, dense.data(), interrupt);
  });
  return packed;
}

py::tuple BackwardArrays(const Given& given, const Heads& heads, const Wanted& wanted) {
  Call call;
  const Inputs in = CheckInputs(given);
  const py::array y = CheckInput("y", heads.y, in.dtype, in.y_shape);
  const OptionalArray dy = CheckInput("dy", heads.dy, in.dtype, in.y_shape);
  const OptionalArray dhN = CheckInput("dhN", heads.dhN, in.dtype, in.h_shape);
  if (heads.dcN && !in.has_cell_state())
    Reject("dcN", "None: this mode has no cell state", "an array");
  const OptionalArray dcN = CheckInput("dcN", heads.dcN, in.dtype, in.c_shape);
  const size_t reserve_bytes = ReserveBytes(in.problem);
  py::array reserve = CheckInput("reserve", heads.reserve, py::dtype("uint8"),
                                 {static_cast<py::ssize_t>(reserve_bytes)});
  if (reinterpret_cast<uintptr_t>(reserve.data()) % 64 != 0) {  // the caller's own copy of it
    Buffer aligned(MemoryKind::kReserve);
    std::memcpy(aligned.Resize(reserve_bytes), reserve.data(), reserve_bytes);
    reserve = ToArray(std::move(aligned), reserve_bytes);
  }

  Gradient dx("dx", wanted.dx, wanted.dx_req, true, in,
              {in.x.shape(0), in.x.shape(1), in.x.shape(2)});
  Gradient dparams("dparams", wanted.dparams, wanted.dparams_req, true, in, {in.params.shape(0)});
  Gradient dh0("dh0", wanted.dh0, wanted.dh0_req, true, in, in.h_shape);
  Gradient dc0("dc0", wanted.dc0, wanted.dc0_req, in.has_cell_state(), in, in.c_shape);
  const std::vector<std::pair<const char*, OptionalArray>> inputs = {{"x", in.x},
                                                                     {"params", in.params},
                                                                     {"h0", in.h0},
                                                                     {"c0", in.c0},
                                                                     {"lengths", in.lengths},
                                                                     {"y", y},
                                                                     {"dy", dy},
                                                                     {"dhN", dhN},
                                                                     {"dcN", dcN},
                                                                     {"reserve", reserve}};
  std::vector<Region> regions;
  for (const auto& [name, array] : inputs) {
    if (array) regions.push_back({name, static_cast<const char*>(array->data()), array->nbytes()});
  }
  for (const Gradient* gradient : {&dx, &dparams, &dh0, &dc0}) gradient->ClaimMemory(&regions);
  Buffer workspace(MemoryKind::kWorkspace);

  BackwardArgs args;
  in.PutInto(&args);
  args.y = y.data();
  args.dy = Data(dy);
  args.dhN = Data(dhN);
  args.dcN = Data(dcN);
  args.dx = dx.data();
  args.dparams = dparams.data();
  args.dh0 = dh0.data();
  args.dc0 = dc0.data();
  args.dx_req = dx.request();
  args.dparams_req = dparams.request();
  args.dh0_req = dh0.request();
  args.dc0_req = dc0.request();
  args.workspace = workspace.Resize(BackwardWorkspaceBytes(in.problem));
  args.reserve = reserve.data();
  call.Compute([&](const Interrupt& interrupt) {
    args.interrupt = interrupt;
    Backward(in.problem, args);
  });
  return py::make_tuple(dx.array(), dparams.array(), dh0.array(), dc0.array());
}

}  // namespace fused_rnn
