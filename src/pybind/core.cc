// Module _core: the core on NumPy arrays. Its functions, by their names and arguments in Python.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "arrays.h"
#include "calls.h"
#include "fused_rnn/measure.h"
#include "fused_rnn/rnn.h"
#include "passes.h"
#include "problem.h"

namespace fused_rnn {
namespace {

// ---- The passes, whose arguments are put into structs

py::tuple ForwardOf(const std::string& mode, const py::array& x, const py::array& params,
                    const py::array& h0, const OptionalArray& c0, int64_t num_layers,
                    bool bidirectional, int64_t projection_size, bool training, double dropout,
                    uint64_t dropout_seed, const OptionalArray& lengths,
                    std::optional<double> clip_min, std::optional<double> clip_max, bool clip_nan,
                    const PackedWeights* packed) {
  const Options options{num_layers, bidirectional, projection_size, dropout,
                        clip_min,   clip_max,      clip_nan};
  return ForwardArrays({mode, x, params, h0, c0, lengths, options}, training, dropout_seed, packed);
}

py::tuple BackwardOf(const std::string& mode, const py::array& x, const py::array& params,
                     const py::array& h0, const OptionalArray& c0, const py::array& y,
                     const py::array& reserve, const OptionalArray& dy, const OptionalArray& dhN,
                     const OptionalArray& dcN, int64_t num_layers, bool bidirectional,
                     int64_t projection_size, double dropout, const OptionalArray& lengths,
                     std::optional<double> clip_min, std::optional<double> clip_max, bool clip_nan,
                     const OptionalArray& dx, const OptionalArray& dparams,
                     const OptionalArray& dh0, const OptionalArray& dc0, const std::string& dx_req,
                     const std::string& dparams_req, const std::string& dh0_req,
                     const std::string& dc0_req) {
  const Options options{num_layers, bidirectional, projection_size, dropout,
                        clip_min,   clip_max,      clip_nan};
  return BackwardArrays({mode, x, params, h0, c0, lengths, options}, {y, reserve, dy, dhN, dcN},
                        {dx, dparams, dh0, dc0, dx_req, dparams_req, dh0_req, dc0_req});
}

// ---- Queries

py::dict Sizes(const std::string& mode, int64_t T, int64_t N, int64_t I, int64_t H,
               int64_t num_layers, bool bidirectional, int64_t projection_size,
               const std::string& dtype_name, double dropout, bool variable_length) {
  const DType dtype = DTypeOf(dtype_name);
  const Options options{num_layers, bidirectional, projection_size, dropout};
  Problem problem = MakeProblem(ModeOf(mode), dtype, T, N, I, H, options);
  problem.variable_length = variable_length;
  const int64_t element = static_cast<int64_t>(ElementBytes(dtype));
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
  const DType dtype = DTypeOf(dtype_name);
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
  m.def(
      "forward", &ForwardOf, "mode"_a, "x"_a, "params"_a, "h0"_a, "c0"_a = py::none(),
      py::kw_only(), "num_layers"_a = 1, "bidirectional"_a = false, "projection_size"_a = 0,
      "training"_a = false, "dropout"_a = 0.0, "dropout_seed"_a = 0, "lengths"_a = py::none(),
      "clip_min"_a = py::none(), "clip_max"_a = py::none(), "clip_nan"_a = false,
      "packed"_a = py::none(),
      "Returns (y, hN, cN, reserve); cN is None unless the mode has a cell state, reserve is None "
      "unless training. `packed`: PackedWeights made from these params.");
  py::class_<PackedWeights>(m, "PackedWeights",
                            "A copy of parameters in the kernels' own layout, for many short "
                            "forwards. May be shared by threads.")
      .def(py::init(&MakePacked), "mode"_a, "params"_a, "input_size"_a, "hidden_size"_a,
           py::kw_only(), "num_layers"_a = 1, "bidirectional"_a = false, "projection_size"_a = 0)
      .def_property_readonly("nbytes", &PackedWeights::bytes);
  m.def("backward", &BackwardOf, "mode"_a, "x"_a, "params"_a, "h0"_a, "c0"_a, "y"_a, "reserve"_a,
        "dy"_a = py::none(), "dhN"_a = py::none(), "dcN"_a = py::none(), py::kw_only(),
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
