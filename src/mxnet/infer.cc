#include "infer.h"

#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

namespace fused_rnn {
namespace mx {
namespace {

using abi::RnnParam;
using Dims = std::vector<int64_t>;

constexpr int64_t kUnknown = -1;

const char* const kInputNames[] = {"data", "parameters", "state", "state_cell", "sequence_length"};

// The name of input `index`: only state_cell can be missing before it.
const char* InputName(const ForwardSlots& slots, int index) {
  return kInputNames[index == slots.lengths ? 4 : index];
}

template <class Shape>
std::string Join(const Shape& shape) {
  std::ostringstream text;
  const char* separator = "";
  for (const int64_t dim : shape) {
    text << separator << dim;
    separator = ",";
  }
  return text.str();
}

std::string Number(double value) {
  std::ostringstream text;
  text << std::setprecision(10) << value;
  return text.str();
}

// MXNet's wheel counts elements in 32 bits, and its Python functions cut larger shapes off in
// silence.
void CheckSize(const char* name, const Dims& dims) {
  constexpr double kMost = std::numeric_limits<mxnet::index_t>::max();
  double size = 1;
  for (const int64_t dim : dims) size *= dim;
  if (size <= kMost) return;
  Fail(std::string(name) + " would have the shape [" + Join(dims) +
       "], but this build of MXNet holds at most " + Number(kMost) + " elements");
}

// Completes the shape of an input by what follows from data and the attributes, or finds them to
// disagree. Callers match on the words of the error, which are the native operator's up to the
// semicolon.
bool Assign(const char* name, mxnet::TShape* shape, const Dims& inferred) {
  CheckSize(name, inferred);
  bool agrees = true;
  Dims merged = inferred;
  if (mxnet::ndim_is_known(*shape)) {
    agrees = shape->ndim() == static_cast<int>(inferred.size());
    for (size_t i = 0; agrees && i < inferred.size(); ++i) {
      const int64_t given = (*shape)[i];
      if (merged[i] == kUnknown) merged[i] = given;
      agrees = given == kUnknown || given == merged[i];
    }
  }
  if (!agrees) {
    const char* comma = inferred.size() == 1 ? "," : "";
    Fail("Shape inconsistent, Provided = [" + Join(*shape) + "], inferred shape=(" +
         Join(inferred) + comma + "); the input is '" + name + "'");
  }
  *shape = mxnet::TShape(merged.begin(), merged.end());
  return mxnet::shape_is_known(*shape);
}

Mode ModeOf(const nnvm::NodeAttrs& attrs) {
  const char* const key = "__fused_rnn_cell__";
  const Mode mode = static_cast<Mode>(abi::GetParam(attrs).mode);
  const std::string* cell = abi::FindText(attrs, key);
  if (cell == nullptr) return mode;
  const std::string found = std::string(key) + " is '" + *cell + "'";
  if (attrs.op == abi::FindOp("RNN")) {
    Fail(found + ", which operator RNN has not: natively it would run as mode '" + ModeName(mode) +
         "'; use FusedRNN");
  }
  // The name of a cell begins with that of its kin.
  const std::string kin = ModeName(mode) + std::string("_");
  std::string expected;
  for (int i = 0; i < kModeCount; ++i) {
    const std::string name = ModeName(static_cast<Mode>(i));
    if (name.compare(0, kin.size(), kin) != 0) continue;
    if (name == *cell) return static_cast<Mode>(i);
    expected += (expected.empty() ? "'" : " or '") + name + "'";
  }
  Fail(found + ", expected " + (expected.empty() ? "none" : expected) + " with mode '" +
       ModeName(mode) + "'");
}

void CheckInputCount(const ForwardSlots& slots, size_t given) {
  if (given == static_cast<size_t>(slots.inputs)) return;
  Fail("expected " + std::to_string(slots.inputs) + " inputs, got " + std::to_string(given));
}

}  // namespace

const char* TypeName(int mxnet_type) {
  static const char* const names[] = {"float32", "float64", "float16", "uint8", "int32",
                                      "int8",    "int64",   "bool",    "int16", "uint16",
                                      "uint32",  "uint64",  "bfloat16"};
  constexpr int kCount = sizeof(names) / sizeof(names[0]);
  return mxnet_type >= 0 && mxnet_type < kCount ? names[mxnet_type] : "unknown";
}

void Fail(const std::string& message) { throw Error(message.c_str()); }

ForwardSlots::ForwardSlots(const RnnParam& param) {
  const bool lstm = param.mode == static_cast<int>(Mode::kLstm);
  if (lstm) c0 = inputs++;
  if (param.use_sequence_length) lengths = inputs++;
  if (param.state_outputs) hN = outputs++;
  if (param.state_outputs && lstm) cN = outputs++;
}

BackwardSlots::BackwardSlots(const RnnParam& param) {
  // An output of the forward and its gradient come as a pair.
  if (param.state_outputs) {
    dhN = inputs + 1;
    inputs += 2;
  }
  if (param.mode == static_cast<int>(Mode::kLstm)) {
    c0 = inputs++;
    if (param.state_outputs) {
      dcN = inputs + 1;
      inputs += 2;
    }
  }
  if (param.use_sequence_length) lengths = inputs++;
}

Problem ProblemOf(const nnvm::NodeAttrs& attrs) {
  const RnnParam& param = abi::GetParam(attrs);
  const bool lstm = param.mode == static_cast<int>(Mode::kLstm);
  if (param.num_layers == 0) Fail("num_layers is 0, expected 1 or more");
  if (param.state_size == 0) Fail("state_size is 0, expected 1 or more");
  // What lies outside is refused by the parser, to which NaN is nowhere.
  if (std::isnan(param.p)) Fail("p is nan, expected a probability in [0, 1]");
  Problem problem;
  problem.mode = ModeOf(attrs);
  problem.H = param.state_size;
  problem.L = param.num_layers;
  problem.D = param.bidirectional ? 2 : 1;
  problem.P = param.projection_size.has_value() ? param.projection_size.value() : 0;
  problem.variable_length = param.use_sequence_length;
  if (problem.P != 0 && !lstm) {
    Fail("projection_size is " + std::to_string(problem.P) +
         ", but only mode 'lstm' has a projection");
  }
  if (problem.P < 0 || problem.P > problem.H) {
    Fail("projection_size is " + std::to_string(problem.P) +
         ", expected at least 1 and at most state_size (" + std::to_string(problem.H) +
         "), or 0 for none");
  }
  const auto& clip_min = param.lstm_state_clip_min;
  const auto& clip_max = param.lstm_state_clip_max;
  if (clip_min.has_value() != clip_max.has_value()) {
    const char* given = clip_min.has_value() ? "min" : "max";
    Fail(std::string("lstm_state_clip_min and lstm_state_clip_max come together, got only "
                     "lstm_state_clip_") +
         given);
  }
  problem.clip = clip_min.has_value();
  if (problem.clip) {
    if (!lstm) Fail("lstm_state_clip_min and lstm_state_clip_max need mode 'lstm'");
    problem.clip_min = clip_min.value();
    problem.clip_max = clip_max.value();
    problem.clip_nan = param.lstm_state_clip_nan;
    if (!(problem.clip_min <= problem.clip_max)) {
      Fail("lstm_state_clip_min is " + Number(problem.clip_min) +
           ", expected at most lstm_state_clip_max (" + Number(problem.clip_max) + ")");
    }
  }
  return problem;
}

DType DTypeOf(int mxnet_type) {
  switch (mxnet_type) {
    case mshadow::kFloat32:
      return DType::kFloat32;
    case mshadow::kFloat64:
      return DType::kFloat64;
    case mshadow::kFloat16:
      return DType::kFloat16;
    case mshadow::kBfloat16:
      return DType::kBFloat16;
    default:
      Fail(std::string("data has type ") + TypeName(mxnet_type) +
           ", expected float32, float64, float16 or bfloat16");
  }
}

bool InferShape(const nnvm::NodeAttrs& attrs, mxnet::ShapeVector* inputs,
                mxnet::ShapeVector* outputs) {
  const RnnParam& param = abi::GetParam(attrs);
  const ForwardSlots slots(param);
  CheckInputCount(slots, inputs->size());
  Problem problem = ProblemOf(attrs);
  const mxnet::TShape& data = (*inputs)[slots.x];
  if (!mxnet::ndim_is_known(data)) return false;
  if (data.ndim() != 3) {
    Fail(
        "Input data should be rank-3 tensor of dim [sequence length, batch size, input size], got "
        "[" +
        Join(data) + "]");
  }
  const int64_t T = data[0], N = data[1];
  const int64_t states = problem.L * problem.D;
  const int64_t S = StateSize(problem);
  problem.I = data[2];

  bool known = mxnet::shape_is_known(data);
  const int64_t param_count = problem.I == kUnknown ? kUnknown : ParamCount(problem);
  known &= Assign("parameters", &(*inputs)[slots.params], {param_count});
  known &= Assign("state", &(*inputs)[slots.h0], {states, N, S});
  if (slots.c0 != kAbsent)
    known &= Assign("state_cell", &(*inputs)[slots.c0], {states, N, problem.H});
  if (slots.lengths != kAbsent) known &= Assign("sequence_length", &(*inputs)[slots.lengths], {N});

  const Dims y{T, N, problem.D * S}, hN{states, N, S}, cN{states, N, problem.H};
  CheckSize("output", y);
  outputs->clear();
  outputs->emplace_back(y.begin(), y.end());
  if (slots.hN != kAbsent) outputs->emplace_back(hN.begin(), hN.end());
  if (slots.cN != kAbsent) outputs->emplace_back(cN.begin(), cN.end());
  return known;
}

bool InferType(const nnvm::NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs) {
  const ForwardSlots slots(abi::GetParam(attrs));
  CheckInputCount(slots, inputs->size());
  constexpr int kUnknownType = -1;
  const int type = (*inputs)[slots.x];
  if (type == kUnknownType) Fail("First input must have specified type");
  DTypeOf(type);
  for (int i = 0; i < slots.inputs; ++i) {
    int& given = (*inputs)[i];
    if (given == kUnknownType) given = type;
    if (given != type && i != slots.lengths) {
      // Callers match on these words, which are the native operator's.
      Fail(std::string("This layer requires uniform type. Expected '") + TypeName(type) +
           "' v.s. given '" + TypeName(given) + "' at '" + InputName(slots, i) + "'");
    }
  }
  outputs->assign(slots.outputs, type);
  return true;
}

bool InferStorage(const nnvm::NodeAttrs&, int, mxnet::DispatchMode* mode, std::vector<int>* inputs,
                  std::vector<int>* outputs) {
  // Dense arrays come as NDArrays, whose memory need not be there yet if they are not wanted; MXNet
  // makes dense copies of others.
  bool dense = true;
  for (int& type : *outputs) {
    if (type == mxnet::kUndefinedStorage) type = mxnet::kDefaultStorage;
  }
  for (const auto* types : {inputs, outputs}) {
    for (const int type : *types) dense &= type == mxnet::kDefaultStorage;
  }
  *mode = dense ? mxnet::DispatchMode::kFComputeEx : mxnet::DispatchMode::kFComputeFallback;
  return true;
}

}  // namespace mx
}  // namespace fused_rnn
