// How libmxnet.so 1.9.1 was built, as far as it differs from a library built today. Only this
// header and abi.cc know.
//
// The wheel comes from GCC 4.8.5. Two things of its C++ interface are not what the wheel's own
// headers mean here:
// - std::function hands by-value arguments to its invoker by value; since GCC 5 they go by
// reference. Signatures with only
//   const references agree. All others are made by `Wrap` and called by `Call`.
// - std::unordered_map has 48 bytes, 56 here. It lies inside nnvm::NodeAttrs, so every member of
// NodeAttrs and of nnvm::Node
//   after it is elsewhere. Only `op` and `name` may be used through the headers; the functions
//   below reach the others.
// `Check` proves these assumptions on the loaded library before anything relies on them.
#ifndef FUSED_RNN_SRC_MXNET_ABI_H_
#define FUSED_RNN_SRC_MXNET_ABI_H_

#include <dmlc/optional.h>
#include <mxnet/engine.h>
#include <mxnet/op_attr_types.h>
#include <nnvm/op.h>
#include <nnvm/op_attr_types.h>

#include <cstring>
#include <functional>
#include <memory>
#include <typeinfo>
#include <utility>

namespace mxnet {
namespace op {

// The parsed attributes of operator RNN: its true name, since its header is not installed.
struct RNNParam {
  uint32_t state_size;
  uint32_t num_layers;
  bool bidirectional;
  bool state_outputs;
  int mode;
  float p;
  index_t unused_sizes[3];
  bool use_sequence_length;
  dmlc::optional<int> projection_size;
  dmlc::optional<double> lstm_state_clip_min;
  dmlc::optional<double> lstm_state_clip_max;
  bool lstm_state_clip_nan;
};

}  // namespace op
}  // namespace mxnet

namespace fused_rnn {
namespace mx {
namespace abi {

// libstdc++'s std::function, seen raw; the invoker's signature is GCC 4.8's.
template <class Signature>
struct FunctionImage;

template <class R, class... Args>
struct FunctionImage<R(Args...)> {
  struct Functor {
    void* words[2];
  };
  enum Operation { kGetTypeInfo, kGetPointer, kClone, kDestroy };
  Functor functor;
  bool (*manager)(Functor&, const Functor&, int);
  R (*invoker)(const Functor&, Args...);
};

// A std::function that libmxnet can call.
template <class R, class... Args>
std::function<R(Args...)> Wrap(R (*function)(Args...)) {
  using Image = FunctionImage<R(Args...)>;
  using Functor = typename Image::Functor;
  static_assert(sizeof(Image) == sizeof(std::function<R(Args...)>), "std::function has four words");
  Image image;
  image.functor = Functor{{reinterpret_cast<void*>(function), nullptr}};
  image.manager = [](Functor& to, const Functor& from, int operation) {
    if (operation == Image::kGetTypeInfo) {
      to.words[0] = const_cast<std::type_info*>(&typeid(R (*)(Args...)));
    } else if (operation == Image::kGetPointer) {
      to.words[0] = const_cast<Functor*>(&from);
    } else if (operation == Image::kClone) {
      to = from;
    }
    return false;
  };
  image.invoker = [](const Functor& functor, Args... args) -> R {
    return reinterpret_cast<R (*)(Args...)>(functor.words[0])(std::forward<Args>(args)...);
  };
  std::function<R(Args...)> wrapped;
  std::memcpy(static_cast<void*>(&wrapped), &image, sizeof(image));
  return wrapped;
}

// Calls a function that libmxnet made. Each argument converts to the parameter's type, as in an
// ordinary call.
template <class R, class... Params, class... Args>
R Call(const std::function<R(Params...)>& function, Args&&... args) {
  const auto& image = reinterpret_cast<const FunctionImage<R(Params...)>&>(function);
  return image.invoker(image.functor, std::forward<Args>(args)...);
}

using RnnParam = mxnet::op::RNNParam;
const RnnParam& GetParam(const nnvm::NodeAttrs& attrs);

// The value of an attribute as it was given, in words, or null.
const std::string* FindText(const nnvm::NodeAttrs& attrs, const char* key);

const std::vector<nnvm::NodeEntry>& Inputs(const nnvm::Node& node);
void AppendInput(nnvm::Node* node, const nnvm::NodeEntry& input);

// Op::set_attr and Op::GetAttr as libmxnet's own code does them; the pointer is null where the
// operator has no such attribute. Instantiated in abi.cc for the attribute types in use.
template <class T>
void SetAttr(nnvm::Op* op, const char* key, const T& value, int priority);
template <class T>
const T* FindAttr(const nnvm::Op* op, const char* key);

// The operator registered as `name`, or null.
nnvm::Op* FindOp(const char* name);
nnvm::Op* RegisterOp(const char* name);

// A variable of the engine: calls on states that have the same one run one at a time, in the order
// in which MXNet issues them.
using Order = std::shared_ptr<mxnet::engine::Var>;
Order MakeOrder();

// An operator state that ends with destroy(state), which must not throw; it owns `state` from the
// call on. OpStatePtr::Create would do, but for a by-value std::function in it.
mxnet::OpStatePtr MakeState(void* state, void (*destroy)(void*), Order order);

// Throws dmlc::Error unless the loaded libmxnet is the one described here.
void Check();

}  // namespace abi
}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_ABI_H_
