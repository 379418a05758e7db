#include "problem.h"

#include <utility>
#include <vector>

namespace fused_rnn {
namespace {

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

void CheckRank(const char* argument, const py::array& array) {
  if (array.ndim() != 3) Reject(argument, "3 dimensions", Text(array.attr("shape")));
}

}  // namespace

Mode ModeOf(const std::string& name) { return FromName("mode", kModes, name); }
DType DTypeOf(const std::string& name) { return FromName("dtype", kDTypes, name); }
Request RequestOf(const std::string& argument, const std::string& name) {
  return FromName(argument.c_str(), kRequests, name);
}

DType DTypeOf(const char* argument, const py::array& array) {
  for (const auto& [name, dtype] : kDTypes) {
    if (dtype != DType::kBFloat16 && array.dtype().equal(py::dtype(name))) return dtype;
  }
  Reject(argument, "dtype float32, float64 or float16", Text(array.dtype()));
}

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
  problem.clip = options.clip_min.has_value();
  problem.clip_min = options.clip_min.value_or(0);
  problem.clip_max = options.clip_max.value_or(0);
  problem.clip_nan = options.clip_nan;
  return problem;
}

Inputs CheckInputs(const Given& given) {
  const auto& [mode_name, x, params, h0, c0, lengths, options] = given;
  const Mode mode = ModeOf(mode_name);
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
  in.problem.variable_length = lengths.has_value();
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

}  // namespace fused_rnn
