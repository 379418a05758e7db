#include "abi.h"

#include <dmlc/logging.h>
#include <dmlc/registry.h>
#include <mxnet/c_api.h>
#include <nnvm/symbolic.h>

#include <string>
#include <utility>

// The attribute types in use. Op::set_attr and Op::GetAttr are inline in the headers, and their
// bodies pass a std::function by value: libmxnet's own instances must be called. Hence the extern
// templates, and calls through volatile pointers, which no compiler inlines at any level of
// optimisation.
#define FUSED_RNN_ATTRIBUTE_TYPES(X) \
  X(bool)                            \
  X(nnvm::FListInputNames)           \
  X(nnvm::FInferType)                \
  X(nnvm::FGradient)                 \
  X(mxnet::FInferShape)              \
  X(mxnet::FInferStorageType)        \
  X(mxnet::FCreateOpState)           \
  X(mxnet::FResourceRequestEx)       \
  X(mxnet::FStatefulCompute)         \
  X(mxnet::FStatefulComputeEx)

namespace nnvm {
#define FUSED_RNN_EXTERN(T)                                               \
  extern template Op& Op::set_attr<T>(const std::string&, const T&, int); \
  extern template const OpMap<T>& Op::GetAttr<T>(const std::string&);
FUSED_RNN_ATTRIBUTE_TYPES(FUSED_RNN_EXTERN)
#undef FUSED_RNN_EXTERN
}  // namespace nnvm

namespace fused_rnn {
namespace mx {
namespace abi {
namespace {

constexpr int kVersion = 10901;

// An std::unordered_map<std::string, std::string> of the C++ library that the wheel was built with.
struct TextsImage {
  struct Entry {
    const Entry* next;
    std::pair<const std::string, std::string> text;
  };
  void* buckets;
  size_t bucket_count;
  const Entry* first;
  size_t size;
  void* policy[2];
};

struct NodeAttrsImage {
  const nnvm::Op* op;
  std::string name;
  TextsImage dict;
  dmlc::any parsed;
  std::vector<std::shared_ptr<nnvm::Symbol>> subgraphs;
};

struct NodeImage {
  NodeAttrsImage attrs;
  std::vector<nnvm::NodeEntry> inputs;
};

// MXNet reads the first two members.
struct StateImage {
  mxnet::engine::VarHandle var;
  void* state;
  Order order;
};

const NodeImage& ImageOf(const nnvm::Node& node) {
  return reinterpret_cast<const NodeImage&>(node);
}

void Require(bool holds, const char* what) {
  if (holds) return;
  throw dmlc::Error(
      std::string("this libmxnet.so was not built as the wheel mxnet==1.9.1 from PyPI was (") +
      what + " differ); install that wheel");
}

void RequireCall(int code) {
  if (code != 0) throw dmlc::Error(MXGetLastError());
}

// A node of operator RNN with every attribute away from its default, and variables as inputs.
class ProbeSymbol {
 public:
  static constexpr uint32_t kCount = 11;  // attributes

  ProbeSymbol() {
    const char* keys[] = {"state_size",
                          "num_layers",
                          "bidirectional",
                          "state_outputs",
                          "mode",
                          "p",
                          "use_sequence_length",
                          "projection_size",
                          "lstm_state_clip_min",
                          "lstm_state_clip_max",
                          "lstm_state_clip_nan"};
    const char* values[] = {"7",    "5", "True", "True", "lstm", "0.25",
                            "True", "3", "-1.5", "2.5",  "True"};
    static_assert(sizeof(keys) == kCount * sizeof(keys[0]));
    RequireCall(MXSymbolCreateAtomicSymbol(const_cast<nnvm::Op*>(nnvm::Op::Get("RNN")), kCount,
                                           keys, values, &handle_));
    RequireCall(MXSymbolCompose(handle_, "probe", 0, nullptr, nullptr));
  }
  ~ProbeSymbol() { MXSymbolFree(handle_); }
  ProbeSymbol(const ProbeSymbol&) = delete;
  ProbeSymbol& operator=(const ProbeSymbol&) = delete;

  const nnvm::Node& node() const {
    return *static_cast<nnvm::Symbol*>(handle_)->outputs.at(0).node;
  }

 private:
  SymbolHandle handle_ = nullptr;
};

void CheckNodeLayout() {
  ProbeSymbol probe;
  const NodeAttrsImage& attrs = ImageOf(probe.node()).attrs;
  Require(attrs.op == nnvm::Op::Get("RNN") && attrs.name == "probe",
          "the first members of nnvm::NodeAttrs");
  Require(attrs.parsed.type() == typeid(RnnParam), "sizes inside nnvm::NodeAttrs");
  const std::string* mode = FindText(probe.node().attrs, "mode");
  Require(attrs.dict.size == ProbeSymbol::kCount && mode != nullptr && *mode == "lstm" &&
              FindText(probe.node().attrs, "another") == nullptr,
          "the map inside nnvm::NodeAttrs");
  const RnnParam& param = GetParam(probe.node().attrs);
  Require(param.state_size == 7 && param.num_layers == 5 && param.bidirectional &&
              param.state_outputs && param.mode == 2 && param.p == 0.25f &&
              param.use_sequence_length && param.projection_size == dmlc::optional<int>(3) &&
              param.lstm_state_clip_min == dmlc::optional<double>(-1.5) &&
              param.lstm_state_clip_max == dmlc::optional<double>(2.5) && param.lstm_state_clip_nan,
          "the members of RNNParam");
  const char* names[] = {"probe_data", "probe_parameters", "probe_state", "probe_state_cell",
                         "probe_sequence_length"};
  const auto& inputs = Inputs(probe.node());
  Require(inputs.size() == sizeof(names) / sizeof(names[0]), "sizes inside nnvm::Node");
  for (size_t i = 0; i < inputs.size(); ++i) {
    Require(inputs[i].node && inputs[i].node->attrs.name == names[i], "sizes inside nnvm::Node");
  }
}

}  // namespace

const RnnParam& GetParam(const nnvm::NodeAttrs& attrs) {
  return dmlc::get<RnnParam>(reinterpret_cast<const NodeAttrsImage&>(attrs).parsed);
}

const std::string* FindText(const nnvm::NodeAttrs& attrs, const char* key) {
  const TextsImage& texts = reinterpret_cast<const NodeAttrsImage&>(attrs).dict;
  for (const TextsImage::Entry* entry = texts.first; entry != nullptr; entry = entry->next) {
    if (entry->text.first == key) return &entry->text.second;
  }
  return nullptr;
}

const std::vector<nnvm::NodeEntry>& Inputs(const nnvm::Node& node) { return ImageOf(node).inputs; }

void AppendInput(nnvm::Node* node, const nnvm::NodeEntry& input) {
  reinterpret_cast<NodeImage*>(node)->inputs.push_back(input);
}

template <class T>
void SetAttr(nnvm::Op* op, const char* key, const T& value, int priority) {
  nnvm::Op& (nnvm::Op::* volatile set_attr)(const std::string&, const T&, int) =
      &nnvm::Op::set_attr<T>;
  (op->*set_attr)(key, value, priority);
}

template <class T>
const T* FindAttr(const nnvm::Op* op, const char* key) {
  const nnvm::OpMap<T>& (*volatile get_attr)(const std::string&) = &nnvm::Op::GetAttr<T>;
  const nnvm::OpMap<T>& attributes = get_attr(key);
  return attributes.contains(op) ? &attributes[op] : nullptr;
}

#define FUSED_RNN_INSTANTIATE(T)                                   \
  template void SetAttr<T>(nnvm::Op*, const char*, const T&, int); \
  template const T* FindAttr<T>(const nnvm::Op*, const char*);
FUSED_RNN_ATTRIBUTE_TYPES(FUSED_RNN_INSTANTIATE)
#undef FUSED_RNN_INSTANTIATE

nnvm::Op* FindOp(const char* name) {
  return const_cast<nnvm::Op*>(dmlc::Registry<nnvm::Op>::Find(name));
}

nnvm::Op* RegisterOp(const char* name) {
  return &dmlc::Registry<nnvm::Op>::Get()->__REGISTER__(name);
}

Order MakeOrder() {
  return Order(mxnet::Engine::Get()->NewVariable(), [](mxnet::engine::VarHandle var) {
    // The function is called when the variable goes; nothing else hangs on it.
    void (*nothing)(mxnet::RunContext) = [](mxnet::RunContext) {};
    try {
      mxnet::Engine::Get()->DeleteVariable(Wrap(nothing), mxnet::Context::CPU(), var);
    } catch (const std::exception&) {
      // No memory for the engine to do it with: the variable stays.
    }
  });
}

mxnet::OpStatePtr MakeState(void* state, void (*destroy)(void*), Order order) {
  std::unique_ptr<void, void (*)(void*)> owned(state, destroy);
  auto* const var = order.get();
  std::unique_ptr<StateImage> made(new StateImage{var, state, std::move(order)});
  owned.release();
  std::shared_ptr<StateImage> image(made.release(), [destroy](StateImage* ending) {
    destroy(ending->state);
    delete ending;
  });
  static_assert(sizeof(mxnet::OpStatePtr) == sizeof(image), "OpStatePtr is one shared pointer");
  mxnet::OpStatePtr pointer;
  new (static_cast<void*>(&pointer)) std::shared_ptr<StateImage>(std::move(image));
  return pointer;
}

void Check() {
  int version = 0;
  RequireCall(MXGetVersion(&version));
  if (version != kVersion) {
    throw dmlc::Error("libmxnet.so has version " + std::to_string(version) + ", expected " +
                      std::to_string(kVersion) + " (mxnet==1.9.1)");
  }
  CheckNodeLayout();
}

}  // namespace abi
}  // namespace mx
}  // namespace fused_rnn
