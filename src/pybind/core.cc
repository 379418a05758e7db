// The core on NumPy arrays. Every array is checked here before the core sees its pointer, so that
// no call from Python can read or write out of bounds.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "calls.h"
#include "fused_rnn/measure.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {
namespace {

// ---- Names of values

template <typename T>
using Names = std::vector<std::pair<const char*, T>>;

Names<Mode> AllModes() {
  Names<Mode> modes;
  for (int i = 0; i < kModeCount; ++i) {
    const Mode mode = static_cast<Mode>(i);
    modes.push_back({ModeName(mode), mode});
  }
  return modes;
}

const Names<Mode> kModes = AllModes();
const Names<DType> kDTypes = {{"float32", DType::kFloat32},
                              {"float64", DType::kFloat64},
                              {"float16", DType::kFloat16},
                              {"bfloat16", DType::kBFloat16}};
const Names<Request> kRequests = {
    {"null", Request::kNull}, {"write", Request::kWrite}, {"add", Request::kAdd}};

template <typename T>
T FromName(const char* argument, const Names<T>& names, const std::string& name) {
  std::string expected;
  for (const auto& [known, value] : names) {
    if (name == known) return value;
    expected += (expected.empty() ? "'" : " or '") + std::string(known) + "'";
  }
  Reject(argument, expected, "'" + name + "'");
}

// NumPy has no bfloat16, so an array's dtype is one of the other three.
DType DTypeOf(const char* argument, const py::array& array) {
  for (const auto& [name, dtype] : kDTypes) {
    if (dtype != DType::kBFloat16 && array.dtype().equal(py::dtype(name))) return dtype;
  }
  Reject(argument, "dtype float32, float64 or float16", Text(array.dtype()));
}

// ---- The problem

struct Options {
  int64_t num_layers;
  bool bidirectional;
  int64_t projection_size;
  double dropout;
  bool variable_length;
  std::optional<double> clip_min;
  std::optional<double> clip_max;
  bool clip_nan;
};

Problem MakeProblem(Mode mode, DType dtype, int64_t T, int64_t N, int64_t I, int64_t H,
                    const Options& options) {
  if (options.clip_min.has_value() != options.clip_max.has_value()) {
    Reject("clip_min, clip_max", "both or neither",
           options.clip_min ? "clip_min alone" : "clip_max alone");
  }
  Problem problem;
  problem.mode = mode;
  problem.dtype = dtype;
  problem.T = T;
  problem.N = N;
  problem.I = I;
  problem.H = H;
  problem.L = options.num_layers;
  problem.D = options.bidirectional ? 2 : 1;
  problem.P = options.projection_size;
  problem.dropout = options.dropout;
  problem.variable_length = options.variable_length;
  problem.clip = options.clip_min.has_value();
  problem.clip_min = options.clip_min.value_or(0);
  problem.clip_max = options.clip_max.value_or(0);
  problem.clip_nan = options.clip_nan;
  return problem;
}

// What forward and backward have in common, checked.
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
};

void CheckRank(const char* argument, const py::array& array) {
  if (array.ndim() != 3) Reject(argument, "3 dimensions", Text(array.attr("shape")));
}

Inputs CheckInputs(const std::string& mode_name, const py::array& x, const py::array& params,
                   const py::array& h0, const OptionalArray& c0, const OptionalArray& lengths,
                   const Options& options) {
  const Mode mode = FromName("mode", kModes, mode_name);
  if (HasCellState(mode) != c0.has_value()) {
    Reject("c0", (HasCellState(mode) ? "an array" : "None") + (" with mode '" + mode_name + "'"),
           c0 ? "an array" : "None");
  }
  CheckRank("x", x);
  CheckRank("h0", h0);
  if (c0) CheckRank("c0", *c0);
  const py::ssize_t T = x.shape(0), N = x.shape(1), S = h0.shape(2), H = c0 ? c0->shape(2) : S;

  Inputs in;
  in.problem = MakeProblem(mode, DTypeOf("x", x), T, N, x.shape(2), H, options);
  const py::ssize_t count =
      ParamCount(in.problem);  // checks the problem, before L, D and P are used here
  const py::ssize_t states = in.problem.L * in.problem.D;
  in.dtype = x.dtype();
  in.h_shape = {states, N, in.problem.P ? in.problem.P : H};
  in.c_shape = {states, N, H};
  in.y_shape = {T, N, in.problem.D * in.h_shape[2]};
  in.x = Dense(x);
  in.params = CheckInput("params", params, in.dtype, {count});
  in.h0 = CheckInput("h0", h0, in.dtype, in.h_shape);
  in.c0 = CheckInput("c0", c0, in.dtype, in.c_shape);
  if (lengths) {
    if (lengths->dtype().kind() != 'i')
      Reject("lengths", "a signed integer dtype", Text(lengths->dtype()));
    in.lengths =
        CheckInput("lengths", py::array(lengths->attr("astype")("int64")), py::dtype("int64"), {N});
  }
  return in;
}

const int64_t* Lengths(const Inputs& in) { return static_cast<const int64_t*>(Data(in.lengths)); }

// ---- Forward

py::tuple ForwardArrays(const std::string& mode, const py::array& x, const py::array& params,
                        const py::array& h0, const OptionalArray& c0, int64_t num_layers,
                        bool bidirectional, int64_t projection_size, bool training, double dropout,
                        uint64_t dropout_seed, const OptionalArray& lengths,
                        std::optional<double> clip_min, std::optional<double> clip_max,
                        bool clip_nan, const PackedWeights* packed) {
  Call call;
  const Options options{num_layers,          bidirectional, projection_size, dropout,
                        lengths.has_value(), clip_min,      clip_max,        clip_nan};
  const Inputs in = CheckInputs(mode, x, params, h0, c0, lengths, options);
  py::array y(in.dtype, in.y_shape);
  py::array hN(in.dtype, in.h_shape);
  OptionalArray cN;
  if (in.has_cell_state()) cN = py::array(in.dtype, in.c_shape);
  Buffer workspace(MemoryKind::kWorkspace), reserve(MemoryKind::kReserve);
  const size_t reserve_bytes = training ? ReserveBytes(in.problem) : 0;

  ForwardArgs args;
  args.x = in.x.data();
  args.params = in.params.data();
  args.h0 = in.h0.data();
  args.c0 = Data(in.c0);
  args.lengths = Lengths(in);
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
  const Options options{num_layers, bidirectional, projection_size, 0, false, {}, {}, false};
  const Problem problem = MakeProblem(FromName("mode", kModes, mode), DTypeOf("params", params),
                                      /*T=*/0, /*N=*/0, input_size, hidden_size, options);
  const py::array dense =
      CheckInput("params", params, params.dtype(), {static_cast<py::ssize_t>(ParamCount(problem))});
  std::unique_ptr<PackedWeights> packed;
  call.Compute([&](const Interrupt& interrupt) {
    packed = std::make_unique<PackedWeights>(problem, dense.data(), interrupt);
  });
  return packed;
}

// ---- Backward

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
      : argument_(argument),
        request_(FromName((std::string(argument) + "_req").c_str(), kRequests, request)) {
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

py::tuple BackwardArrays(const std::string& mode, const py::array& x, const py::array& params,
                         const py::array& h0, const OptionalArray& c0, const py::array& y,
                         const py::array& reserve, const OptionalArray& dy,
                         const OptionalArray& dhN, const OptionalArray& dcN, int64_t num_layers,
                         bool bidirectional, int64_t projection_size, double dropout,
                         const OptionalArray& lengths, std::optional<double> clip_min,
                         std::optional<double> clip_max, bool clip_nan, const OptionalArray& dx,
                         const OptionalArray& dparams, const OptionalArray& dh0,
                         const OptionalArray& dc0, const std::string& dx_req,
                         const std::string& dparams_req, const std::string& dh0_req,
                         const std::string& dc0_req) {
  Call call;
  const Options options{num_layers,          bidirectional, projection_size, dropout,
                        lengths.has_value(), clip_min,      clip_max,        clip_nan};
  const Inputs in = CheckInputs(mode, x, params, h0, c0, lengths, options);
  const py::array y_in = CheckInput("y", y, in.dtype, in.y_shape);
  const OptionalArray dy_in = CheckInput("dy", dy, in.dtype, in.y_shape);
  const OptionalArray dhN_in = CheckInput("dhN", dhN, in.dtype, in.h_shape);
  if (dcN && !in.has_cell_state()) Reject("dcN", "None: this mode has no cell state", "an array");
  const OptionalArray dcN_in = CheckInput("dcN", dcN, in.dtype, in.c_shape);
  const size_t reserve_bytes = ReserveBytes(in.problem);
  py::array reserve_in =
      CheckInput("reserve", reserve, py::dtype("uint8"), {static_cast<py::ssize_t>(reserve_bytes)});
  if (reinterpret_cast<uintptr_t>(reserve_in.data()) % 64 != 0) {  // the caller's own copy of it
    Buffer aligned(MemoryKind::kReserve);
    std::memcpy(aligned.Resize(reserve_bytes), reserve_in.data(), reserve_bytes);
    reserve_in = ToArray(std::move(aligned), reserve_bytes);
  }

  Gradient dx_out("dx", dx, dx_req, true, in, {in.x.shape(0), in.x.shape(1), in.x.shape(2)});
  Gradient dparams_out("dparams", dparams, dparams_req, true, in, {in.params.shape(0)});
  Gradient dh0_out("dh0", dh0, dh0_req, true, in, in.h_shape);
  Gradient dc0_out("dc0", dc0, dc0_req, in.has_cell_state(), in, in.c_shape);
  const std::vector<std::pair<const char*, OptionalArray>> inputs = {{"x", in.x},
                                                                     {"params", in.params},
                                                                     {"h0", in.h0},
                                                                     {"c0", in.c0},
                                                                     {"lengths", in.lengths},
                                                                     {"y", y_in},
                                                                     {"dy", dy_in},
                                                                     {"dhN", dhN_in},
                                                                     {"dcN", dcN_in},
                                                                     {"reserve", reserve_in}};
  std::vector<Region> regions;
  for (const auto& [name, array] : inputs) {
    if (array) regions.push_back({name, static_cast<const char*>(array->data()), array->nbytes()});
  }
  for (const Gradient* gradient : {&dx_out, &dparams_out, &dh0_out, &dc0_out})
    gradient->ClaimMemory(&regions);
  Buffer workspace(MemoryKind::kWorkspace);

  BackwardArgs args;
  args.x = in.x.data();
  args.params = in.params.data();
  args.h0 = in.h0.data();
  args.c0 = Data(in.c0);
  args.lengths = Lengths(in);
  args.y = y_in.data();
  args.dy = Data(dy_in);
  args.dhN = Data(dhN_in);
  args.dcN = Data(dcN_in);
  args.dx = dx_out.data();
  args.dparams = dparams_out.data();
  args.dh0 = dh0_out.data();
  args.dc0 = dc0_out.data();
  args.dx_req = dx_out.request();
  args.dparams_req = dparams_out.request();
  args.dh0_req = dh0_out.request();
  args.dc0_req = dc0_out.request();
  args.workspace = workspace.Resize(BackwardWorkspaceBytes(in.problem));
  args.reserve = reserve_in.data();
  call.Compute([&](const Interrupt& interrupt) {
    args.interrupt = interrupt;
    Backward(in.problem, args);
  });
  return py::make_tuple(dx_out.array(), dparams_out.array(), dh0_out.array(), dc0_out.array());
}

// ---- Queries

py::dict Sizes(const std::string& mode, int64_t T, int64_t N, int64_t I, int64_t H,
               int64_t num_layers, bool bidirectional, int64_t projection_size,
               const std::string& dtype_name, double dropout, bool variable_length) {
  const DType dtype = FromName("dtype", kDTypes, dtype_name);
  const Options options{num_layers, bidirectional, projection_size, dropout, variable_length, {},
                        {},         false};
  const Problem problem = MakeProblem(FromName("mode", kModes, mode), dtype, T, N, I, H, options);
  const int64_t element = dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2;
  py::dict sizes;
  sizes["params"] = ParamCount(problem) * element;
  sizes["workspace_inference"] = ForwardWorkspaceBytes(problem, false);
  sizes["workspace_training"] = ForwardWorkspaceBytes(problem, true);
  sizes["workspace_backward"] = BackwardWorkspaceBytes(problem);
  sizes["reserve"] = ReserveBytes(problem);
  return sizes;
}

uint64_t ContentHash(const py::array& array) {
  Call call;
  const py::array dense = Dense(array);
  uint64_t hash = 0;
  call.Compute([&](const Interrupt&) {
    hash = HashBytes(dense.data(), static_cast<size_t>(dense.nbytes()));
  });
  return hash;
}

double FmaPeak(const std::string& dtype_name, int threads, double seconds) {
  Call call;
  const DType dtype = FromName("dtype", kDTypes, dtype_name);
  double rate = 0;
  call.Compute([&](const Interrupt& interrupt) {
    rate = MeasureFmaPeak(dtype, threads, seconds, interrupt);
  });
  return rate;
}

double ReadBandwidth(size_t bytes, int threads, double seconds) {
  Call call;
  double rate = 0;
  call.Compute([&](const Interrupt& interrupt) {
    rate = MeasureReadBandwidth(bytes, threads, seconds, interrupt);
  });
  return rate;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() =
      "Fused recurrent layers on NumPy arrays; shapes and layouts are those of fused_rnn/rnn.h.";
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });

  py::module_::import("atexit").attr("register")(py::cpp_function(&WaitForCalls));

  using namespace pybind11::literals;
  m.def("forward", &ForwardArrays, "mode"_a, "x"_a, "params"_a, "h0"_a, "c0"_a = py::none(),
        py::kw_only(), "num_layers"_a = 1, "bidirectional"_a = false, "projection_size"_a = 0,
        "training"_a = false, "dropout"_a = 0.0, "dropout_seed"_a = 0, "lengths"_a = py::none(),
        "clip_min"_a = py::none(), "clip_max"_a = py::none(), "clip_nan"_a = false,
        "packed"_a = py::none(),
        "Returns (y, hN, cN, reserve); cN is None unless mode is 'lstm', reserve is None unless "
        "training. `packed`: PackedWeights made from these params.");
  py::class_<PackedWeights>(m, "PackedWeights",
                            "A copy of parameters in the kernels' own layout, for many short "
                            "forwards. May be shared by threads.")
      .def(py::init(&MakePacked), "mode"_a, "params"_a, "input_size"_a, "hidden_size"_a,
           py::kw_only(), "num_layers"_a = 1, "bidirectional"_a = false, "projection_size"_a = 0)
      .def_property_readonly("nbytes", &PackedWeights::bytes);
  m.def("backward", &BackwardArrays, "mode"_a, "x"_a, "params"_a, "h0"_a, "c0"_a, "y"_a,
        "reserve"_a, "dy"_a = py::none(), "dhN"_a = py::none(), "dcN"_a = py::none(), py::kw_only(),
        "num_layers"_a = 1, "bidirectional"_a = false, "projection_size"_a = 0, "dropout"_a = 0.0,
        "lengths"_a = py::none(), "clip_min"_a = py::none(), "clip_max"_a = py::none(),
        "clip_nan"_a = false, "dx"_a = py::none(), "dparams"_a = py::none(), "dh0"_a = py::none(),
        "dc0"_a = py::none(), "dx_req"_a = "write", "dparams_req"_a = "write",
        "dh0_req"_a = "write", "dc0_req"_a = "write",
        "Returns (dx, dparams, dh0, dc0), computed in the arrays given for them or in new ones; "
        "each request is 'null' (None "
        "is returned), 'write' or 'add'.");
  m.def("content_hash", &ContentHash, "array"_a,
        "A hash of the elements in order, dense or not, without their shape; a dense array is not "
        "copied.");
  m.def("sizes", &Sizes, "mode"_a, "T"_a, "N"_a, "I"_a, "H"_a, py::kw_only(), "num_layers"_a = 1,
        "bidirectional"_a = false, "projection_size"_a = 0, "dtype"_a = "float32",
        "dropout"_a = 0.0, "variable_length"_a = false,
        "Bytes of the parameters and of every buffer.");
  m.def("start_profile", &StartProfile, "Starts counting where the time of calls goes.");
  m.def(
      "stop_profile",
      [] {
        const Profile p = StopProfile();
        py::dict stages;
        stages["packing"] = p.packing;
        stages["input products"] = p.input_products;
        stages["recurrent products"] = p.recurrent_products;
        stages["gates"] = p.gates;
        stages["waiting"] = p.waiting;
        stages["large products"] = p.large_products;
        stages["elapsed"] = p.elapsed;
        return stages;
      },
      "Seconds since start_profile by stage, summed over threads, and elapsed.");
  m.def("isa", &IsaName, "Instruction set of the kernels in use.");
  m.def(
      "isas", [] { return py::str(SupportedIsaNames()).attr("split")(); },
      "All instruction sets that this processor has, the best last.");
  m.def("gemm_backend", &GemmBackend,
        "The library of the large float32 products of training, with its version.");
  m.def("num_threads", &NumThreads, "Threads that a call may use.");
  m.def("set_num_threads", &SetNumThreads, "threads"_a,
        "0: OMP_NUM_THREADS if set, else one per physical core.");
  m.def("version", [] { return FUSED_RNN_VERSION; });
  m.def("fma_peak", &FmaPeak, "dtype"_a = "float32", "threads"_a = 0, "seconds"_a = 0.2,
        "Multiply-adds that the processor does with operands in registers, in GFLOP/s.");
  m.def("read_bandwidth", &ReadBandwidth, "bytes"_a, "threads"_a = 0, "seconds"_a = 0.1,
        "GB/s at which threads read a buffer of that size again and again, each its own part.");
}

}  // namespace fused_rnn
