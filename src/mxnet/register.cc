// Registers the operator FusedRNN, and on request makes MXNet's own RNN run on it. The library's
// entry points for Python are at the end; none of them lets an exception out.
#include <dmlc/logging.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "abi.h"
#include "fused_rnn/memory.h"
#include "infer.h"
#include "op_state.h"
#include "quiet.h"
#include "record.h"

namespace fused_rnn {
namespace mx {
namespace {

using mxnet::NDArray;
using mxnet::OpContext;
using mxnet::OpReqType;
using mxnet::OpStatePtr;
using mxnet::TBlob;
using nnvm::NodeAttrs;

// Priorities of attributes. The native operator's are of the first.
constexpr int kNative = 10;
constexpr int kOverride = 11;

const char* const kName = "FusedRNN";
const char* const kBackwardName = "_backward_FusedRNN";

// FStatefulCompute and FStatefulComputeEx.
template <class Array>
using Compute = std::function<void(const OpStatePtr&, const OpContext&, const std::vector<Array>&,
                                   const std::vector<OpReqType>&, const std::vector<Array>&)>;

template <class Array>
struct ComputePair {
  Compute<Array> forward, backward;
};

// What the native operator does, kept from before an override.
struct Native {
  mxnet::FCreateOpState create_state;
  mxnet::FInferStorageType infer_storage;
  nnvm::FGradient gradient;
  std::tuple<ComputePair<TBlob>, ComputePair<NDArray>> compute;
};

// Never ended: calls may come while the process ends.
Native& native = *new Native;

// MXNet expects dmlc::Error of its operators.
template <class Body>
auto Guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dmlc::Error&) {
    throw;
  } catch (const std::bad_alloc& error) {
    // The core's say of how many bytes; the language's own says its name.
    const bool tells = typeid(error) != typeid(std::bad_alloc);
    throw dmlc::Error(std::string(kName) + ": " + (tells ? error.what() : "out of memory"));
  } catch (const std::exception& error) {
    throw dmlc::Error(std::string(kName) + ": " + error.what());
  }
}

bool GuardedInferShape(const NodeAttrs& attrs, mxnet::ShapeVector* inputs,
                       mxnet::ShapeVector* outputs) {
  return Guarded([&] { return InferShape(attrs, inputs, outputs); });
}

bool GuardedInferType(const NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs) {
  return Guarded([&] { return InferType(attrs, inputs, outputs); });
}

bool InferStorageOnDevice(const NodeAttrs& attrs, int device, mxnet::DispatchMode* mode,
                          std::vector<int>* inputs, std::vector<int>* outputs) {
  if (device != mshadow::cpu::kDevMask) {
    return abi::Call(native.infer_storage, attrs, device, mode, inputs, outputs);
  }
  return InferStorage(attrs, device, mode, inputs, outputs);
}

OpStatePtr CreateState(const NodeAttrs& attrs, mxnet::Context ctx, const mxnet::ShapeVector& shapes,
                       const std::vector<int>& types) {
  if (ctx.dev_mask() != mshadow::cpu::kDevMask) {
    return abi::Call(native.create_state, attrs, ctx, shapes, types);
  }
  return Guarded([&] {
    const std::shared_ptr<Record> original = OriginalOf(attrs.name);
    const std::shared_ptr<Record> record = MakeRecord(attrs.name, original.get());
    return abi::MakeState(
        new OpState(attrs, record, original),
        [](void* state) { delete static_cast<OpState*>(state); }, record->order);
  });
}

// One draw of the generator keys all masks of a call.
std::vector<mxnet::ResourceRequest> RequestResources(const NodeAttrs& attrs, int,
                                                     mxnet::DispatchMode) {
  if (abi::GetParam(attrs).p > 0) return {mxnet::ResourceRequest::kRandom};
  return {};
}

Tensor TensorOf(const NDArray& array) {
  Tensor tensor;
  tensor.data = array.data().dptr_;
  tensor.shape = array.shape();
  tensor.size = static_cast<int64_t>(tensor.shape.Size());
  tensor.type = array.dtype();
  return tensor;
}

Tensor TensorOf(const TBlob& blob) {
  Tensor tensor;
  tensor.data = blob.dptr_;
  tensor.shape = blob.shape_;
  tensor.size = static_cast<int64_t>(blob.shape_.Size());
  tensor.type = blob.type_flag_;
  return tensor;
}

template <class Array>
OpState::Tensors TensorsOf(const std::vector<Array>& arrays) {
  OpState::Tensors tensors;
  for (const Array& array : arrays) tensors.push_back(TensorOf(array));
  return tensors;
}

// An output that is not wanted may have no memory yet; asking for its data would allocate it.
template <class Array>
OpState::Tensors WantedTensorsOf(const std::vector<Array>& arrays,
                                 const std::vector<OpReqType>& requests) {
  OpState::Tensors tensors(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (requests[i] != mxnet::kNullOp) tensors[i] = TensorOf(arrays[i]);
  }
  return tensors;
}

// A state that is not ours was made by the native operator before it was overridden: it ends as it
// began.
template <class Array>
void Forward(const OpStatePtr& state, const OpContext& ctx, const std::vector<Array>& inputs,
             const std::vector<OpReqType>& requests, const std::vector<Array>& outputs) {
  OpState& ours = state.get_state<OpState>();
  if (!OpState::IsOne(&ours)) {
    std::get<ComputePair<Array>>(native.compute).forward(state, ctx, inputs, requests, outputs);
    return;
  }
  Guarded(
      [&] { ours.Forward(ctx, TensorsOf(inputs), requests, WantedTensorsOf(outputs, requests)); });
}

template <class Array>
void Backward(const OpStatePtr& state, const OpContext& ctx, const std::vector<Array>& inputs,
              const std::vector<OpReqType>& requests, const std::vector<Array>& outputs) {
  OpState& ours = state.get_state<OpState>();
  if (!OpState::IsOne(&ours)) {
    std::get<ComputePair<Array>>(native.compute).backward(state, ctx, inputs, requests, outputs);
    return;
  }
  Guarded([&] { ours.Backward(TensorsOf(inputs), requests, WantedTensorsOf(outputs, requests)); });
}

// The native gradient makes a node of _backward_RNN, which does not get the lengths. Where they
// matter, and for FusedRNN, the node becomes one of our backward.
std::vector<nnvm::NodeEntry> Gradient(const nnvm::ObjectPtr& node,
                                      const std::vector<nnvm::NodeEntry>& head_gradients) {
  std::vector<nnvm::NodeEntry> gradients = native.gradient(node, head_gradients);
  nnvm::Node* backward = gradients.at(0).node.get();
  const ForwardSlots slots(abi::GetParam(node->attrs));
  const bool has_lengths = slots.lengths != kAbsent;
  if (has_lengths || node->attrs.op == abi::FindOp(kName))
    backward->attrs.op = abi::FindOp(kBackwardName);
  if (has_lengths) abi::AppendInput(backward, abi::Inputs(*node).at(slots.lengths));
  return gradients;
}

uint32_t CountBackwardInputs(const NodeAttrs& attrs) {
  return BackwardSlots(abi::GetParam(attrs)).inputs;
}

std::vector<nnvm::NodeEntry> SecondGradient(const nnvm::ObjectPtr&,
                                            const std::vector<nnvm::NodeEntry>&) {
  throw dmlc::Error("FusedRNN is not differentiable twice: it has no gradient of its gradient");
}

// An attribute that the native operator is known to have.
template <class T>
const T& NativeAttr(const nnvm::Op* op, const char* key) {
  const T* attribute = abi::FindAttr<T>(op, key);
  if (attribute == nullptr)
    throw dmlc::Error("operator " + op->name + " of this libmxnet.so has no " + key);
  return *attribute;
}

void KeepNative() {
  const nnvm::Op* forward = abi::FindOp("RNN");
  const nnvm::Op* backward = abi::FindOp("_backward_RNN");
  native.create_state = NativeAttr<mxnet::FCreateOpState>(forward, "FCreateOpState");
  native.infer_storage = NativeAttr<mxnet::FInferStorageType>(forward, "FInferStorageType");
  native.gradient = NativeAttr<nnvm::FGradient>(forward, "FGradient");
  auto& dense = std::get<ComputePair<TBlob>>(native.compute);
  dense.forward = NativeAttr<mxnet::FStatefulCompute>(forward, "FStatefulCompute<cpu>");
  dense.backward = NativeAttr<mxnet::FStatefulCompute>(backward, "FStatefulCompute<cpu>");
  auto& ex = std::get<ComputePair<NDArray>>(native.compute);
  ex.forward = NativeAttr<mxnet::FStatefulComputeEx>(forward, "FStatefulComputeEx<cpu>");
  ex.backward = NativeAttr<mxnet::FStatefulComputeEx>(backward, "FStatefulComputeEx<cpu>");
}

// What FusedRNN and an overridden RNN have in common.
void SetAttributes(nnvm::Op* forward, nnvm::Op* backward, int priority) {
  using abi::SetAttr;
  using abi::Wrap;
  SetAttr<mxnet::FInferShape>(forward, "FInferShape", Wrap(GuardedInferShape), priority);
  SetAttr<nnvm::FInferType>(forward, "FInferType", Wrap(GuardedInferType), priority);
  SetAttr<nnvm::FGradient>(forward, "FGradient", Wrap(Gradient), priority);
  SetAttr<mxnet::FCreateOpState>(forward, "FCreateOpState", Wrap(CreateState), priority);
  SetAttr<nnvm::FGradient>(backward, "FGradient", Wrap(SecondGradient), priority);
  for (nnvm::Op* op : {forward, backward}) {
    const bool is_forward = op == forward;
    SetAttr<mxnet::FInferStorageType>(op, "FInferStorageType", Wrap(InferStorageOnDevice),
                                      priority);
    SetAttr<mxnet::FStatefulCompute>(op, "FStatefulCompute<cpu>",
                                     Wrap(is_forward ? Forward<TBlob> : Backward<TBlob>), priority);
    SetAttr<mxnet::FStatefulComputeEx>(op, "FStatefulComputeEx<cpu>",
                                       Wrap(is_forward ? Forward<NDArray> : Backward<NDArray>),
                                       priority);
    // We don't read oneDNN's blocked formats: MXNet converts such inputs.
    SetAttr<bool>(op, "TIsMKLDNN", false, priority);
  }
}

void Register() {
  if (abi::FindOp(kName) != nullptr)
    throw dmlc::Error("another library has registered an operator FusedRNN");
  abi::Check();
  KeepNative();
  const nnvm::Op* rnn = abi::FindOp("RNN");
  const nnvm::Op* backward_rnn = abi::FindOp("_backward_RNN");

  nnvm::Op* forward = abi::RegisterOp(kName);
  forward->description =
      "Recurrent layers (LSTM, GRU, RNN with tanh or ReLU) as operator RNN computes them, on fast "
      "kernels for CPUs.\n\n"
      "Attributes, inputs, outputs and the layout of ``parameters`` are those of RNN.";
  forward->attr_parser = rnn->attr_parser;
  forward->get_num_inputs = rnn->get_num_inputs;
  forward->get_num_outputs = rnn->get_num_outputs;
  forward->arguments = rnn->arguments;
  forward->add_alias("_npx_fused_rnn");
  for (const char* key : {"FListInputNames", "FListOutputNames"}) {
    abi::SetAttr(forward, key, NativeAttr<nnvm::FListInputNames>(rnn, key), kNative);
  }
  abi::SetAttr<mxnet::FResourceRequestEx>(forward, "FResourceRequestEx",
                                          abi::Wrap(RequestResources), kNative);

  nnvm::Op* backward = abi::RegisterOp(kBackwardName);
  backward->attr_parser = backward_rnn->attr_parser;
  backward->get_num_inputs = abi::Wrap(CountBackwardInputs);
  backward->get_num_outputs = backward_rnn->get_num_outputs;
  abi::SetAttr(backward, "TIsBackward", true, kNative);
  abi::SetAttr(backward, "TIsLayerOpBackward", true, kNative);
  // An overridden RNN on a GPU comes here too, if it has lengths.
  if (const auto* gpu =
          abi::FindAttr<mxnet::FStatefulCompute>(backward_rnn, "FStatefulCompute<gpu>")) {
    abi::SetAttr(backward, "FStatefulCompute<gpu>", *gpu, kNative);
    abi::SetAttr(backward, "FResourceRequestEx",
                 NativeAttr<mxnet::FResourceRequestEx>(backward_rnn, "FResourceRequestEx"),
                 kNative);
  }

  SetAttributes(forward, backward, kNative);
}

thread_local std::string last_error;
bool registered = false;
bool installed = false;

// The result of an entry point that changes MXNet's tables unless that is `done`: 0; 1 if that was
// done while other threads were running; or -1 with a message in `last_error`.
template <class Body>
int Change(bool* done, const Body& body) {
  if (*done) return 0;
  try {
    const bool quiet = WaitUntilOthersSleep();
    body();
    *done = true;
    return quiet ? 0 : 1;
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}

}  // namespace

extern "C" {

FUSED_RNN_API const char* fused_rnn_last_error() { return last_error.c_str(); }

// These three are called by threads that hold Python's lock.

// Makes FusedRNN known to MXNet. Calling it again does nothing.
FUSED_RNN_API int fused_rnn_register() { return Change(&registered, Register); }

// Makes RNN run as FusedRNN, which is registered, does on CPU contexts, until the process ends.
// Calling it again does nothing.
FUSED_RNN_API int fused_rnn_install() {
  return Change(&installed,
                [] { SetAttributes(abi::FindOp("RNN"), abi::FindOp("_backward_RNN"), kOverride); });
}

FUSED_RNN_API int fused_rnn_installed() { return installed; }

// Live operator states: their number, and the bytes of their workspaces and reserves.
FUSED_RNN_API void fused_rnn_memory(int64_t* states, int64_t* workspace, int64_t* reserve) {
  *states = OpState::LiveCount();
  *workspace = OpState::memory.LiveBytes(MemoryKind::kWorkspace);
  *reserve = OpState::memory.LiveBytes(MemoryKind::kReserve);
}

// Returns the former setting.
FUSED_RNN_API int fused_rnn_set_recompute(int on) { return OpState::SetRecompute(on != 0); }

FUSED_RNN_API void fused_rnn_release_spare_memory() { ReleaseSpareMemory(); }

}  // extern "C"

}  // namespace mx
}  // namespace fused_rnn
