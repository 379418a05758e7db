// oneDNN's RNN primitive behind three C functions: a peer of the benchmarks, which a Python process
// loads. Shares no code with the library that it is compared with.
//
// Layers are chained, one primitive each, because oneDNN's own stacking of bidirectional layers
// does not concatenate between them. Weights come as oneDNN orders their rows: [D, G, H, I],
// [D, G, H, H] and biases [D, B, H] (GRU with B = G + 1). A gradient has the shape of its value.
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

enum class Cell : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };

struct Sizes {
  int64_t T, N, I, H, L, D;
};

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc Desc(const Dims& dims, Tag tag) {
  return dims.empty() ? memory::desc() : memory::desc(dims, memory::data_type::f32, tag);
}

// One layer's shapes, as oneDNN's descriptors.
struct Shapes {
  Shapes(Cell cell, const Sizes& s, int64_t layer) {
    const int64_t gates = cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
    const int64_t biases = gates + (cell == Cell::kGru ? 1 : 0);
    const Dims state = {1, s.D, s.N, s.H};
    input = layer == 0 ? s.I : s.D * s.H;
    x = Desc({s.T, s.N, input}, Tag::tnc);
    h = Desc(state, Tag::ldnc);
    c = Desc(cell == Cell::kLstm ? state : Dims{}, Tag::ldnc);
    y = Desc({s.T, s.N, s.D * s.H}, Tag::tnc);
    w_user = Desc({1, s.D, input, gates, s.H}, Tag::ldgoi);
    r_user = Desc({1, s.D, s.H, gates, s.H}, Tag::ldgoi);
    w = Desc(w_user.get_dims(), Tag::any);
    r = Desc(r_user.get_dims(), Tag::any);
    b = Desc({1, s.D, biases, s.H}, Tag::ldgo);
  }
  int64_t input;
  memory::desc x, h, c, y, w_user, r_user, w, r, b;
};

// A primitive with memory for all its arguments, but for those that are set from outside.
class Pass {
 public:
  Pass(const dnnl::primitive_desc_base& desc, dnnl::primitive primitive)
      : desc_(desc), primitive_(std::move(primitive)) {}

  memory& operator[](int arg) {
    auto found = args_.find(arg);
    if (found == args_.end()) {
      const memory::desc md = arg == DNNL_ARG_WORKSPACE
                                  ? desc_.query_md(dnnl::query::workspace_md)
                                  : desc_.query_md(dnnl::query::exec_arg_md, arg);
      found = args_.emplace(arg, memory(md, Engine())).first;
    }
    return found->second;
  }

  void Run(dnnl::stream& stream) { primitive_.execute(stream, args_); }

 private:
  dnnl::primitive_desc_base desc_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> args_;
};

// The three cells' descriptors differ in their arguments only.
struct Passes {
  std::unique_ptr<Pass> forward, backward;
};

template <typename Primitive, typename Desc>
std::unique_ptr<Pass> MakePass(const Desc& desc) {
  return std::make_unique<Pass>(desc, Primitive(desc));
}

Passes MakePasses(Cell cell, const Shapes& s, dnnl::rnn_direction direction, bool training) {
  const dnnl::prop_kind kind =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  constexpr dnnl::prop_kind back = dnnl::prop_kind::backward;
  const dnnl::engine& e = Engine();
  Passes passes;
  if (cell == Cell::kLstm) {
    const dnnl::lstm_forward::primitive_desc desc(e, kind, direction, s.x, s.h, s.c, s.w, s.r, s.b,
                                                  s.y, s.h, s.c);
    passes.forward = MakePass<dnnl::lstm_forward>(desc);
    if (!training) return passes;
    passes.backward = MakePass<dnnl::lstm_backward>(dnnl::lstm_backward::primitive_desc(
        e, back, direction, s.x, s.h, s.c, s.w, s.r, s.b, s.y, s.h, s.c, s.x, s.h, s.c, s.w, s.r,
        s.b, s.y, s.h, s.c, desc));
  } else if (cell == Cell::kGru) {
    const dnnl::lbr_gru_forward::primitive_desc desc(e, kind, direction, s.x, s.h, s.w, s.r, s.b,
                                                     s.y, s.h);
    passes.forward = MakePass<dnnl::lbr_gru_forward>(desc);
    if (!training) return passes;
    passes.backward = MakePass<dnnl::lbr_gru_backward>(
        dnnl::lbr_gru_backward::primitive_desc(e, back, direction, s.x, s.h, s.w, s.r, s.b, s.y,
                                               s.h, s.x, s.h, s.w, s.r, s.b, s.y, s.h, desc));
  } else {
    const dnnl::algorithm activation =
        cell == Cell::kRelu ? dnnl::algorithm::eltwise_relu : dnnl::algorithm::eltwise_tanh;
    const dnnl::vanilla_rnn_forward::primitive_desc desc(e, kind, activation, direction, s.x, s.h,
                                                         s.w, s.r, s.b, s.y, s.h);
    passes.forward = MakePass<dnnl::vanilla_rnn_forward>(desc);
    if (!training) return passes;
    passes.backward =
        MakePass<dnnl::vanilla_rnn_backward>(dnnl::vanilla_rnn_backward::primitive_desc(
            e, back, activation, direction, s.x, s.h, s.w, s.r, s.b, s.y, s.h, s.x, s.h, s.w, s.r,
            s.b, s.y, s.h, desc));
  }
  return passes;
}

memory Wrap(const memory::desc& desc, const float* data) {
  return memory(desc, Engine(), const_cast<float*>(data));
}

void Zero(memory& target) {
  std::memset(target.get_data_handle(), 0, target.get_desc().get_size());
}

// Pointers to one layer's values or gradients, in the order that callers pass them.
struct Weights {
  float *w, *r, *b;
};

class Layer {
 public:
  Layer(Cell cell, const Sizes& sizes, int64_t index, bool training, const Weights& weights)
      : lstm_(cell == Cell::kLstm),
        shapes_(cell, sizes, index),
        weights_(weights),
        passes_(MakePasses(cell, shapes_,
                           sizes.D == 2 ? dnnl::rnn_direction::bidirectional_concat
                                        : dnnl::rnn_direction::unidirectional_left2right,
                           training)) {
    forward()[DNNL_ARG_BIAS] = Wrap(shapes_.b, weights.b);
    if (training) Share();
  }

  // Into the format that the primitive asks for. Once is enough while the weights do not change.
  void LoadWeights(dnnl::stream& stream) {
    for (Pass* pass : {&forward(), passes_.backward.get()}) {
      if (pass == nullptr) continue;
      Reorder(stream, Wrap(shapes_.w_user, weights_.w), (*pass)[DNNL_ARG_WEIGHTS_LAYER]);
      Reorder(stream, Wrap(shapes_.r_user, weights_.r), (*pass)[DNNL_ARG_WEIGHTS_ITER]);
    }
  }

  void Forward(dnnl::stream& stream, const float* x, const float* h0, const float* c0, float* hN,
               float* cN) {
    Set(DNNL_ARG_SRC_LAYER, shapes_.x, x);
    Set(DNNL_ARG_SRC_ITER, shapes_.h, h0);
    Set(DNNL_ARG_DST_ITER, shapes_.h, hN);
    if (lstm_) {
      Set(DNNL_ARG_SRC_ITER_C, shapes_.c, c0);
      Set(DNNL_ARG_DST_ITER_C, shapes_.c, cN);
    }
    y();  // its memory
    forward().Run(stream);
  }

  // Leaves the gradient of x in dx().
  void Backward(dnnl::stream& stream, const float* dy, const float* dhN, const float* dcN,
                const Weights& gradients) {
    Pass& pass = *passes_.backward;
    pass[DNNL_ARG_DIFF_DST_LAYER] = Wrap(shapes_.y, dy);
    pass[DNNL_ARG_DIFF_DST_ITER] = Wrap(shapes_.h, dhN);
    pass[DNNL_ARG_DIFF_BIAS] = Wrap(shapes_.b, gradients.b);
    dx();
    pass[DNNL_ARG_DIFF_SRC_ITER];
    if (lstm_) {
      pass[DNNL_ARG_DIFF_DST_ITER_C] = Wrap(shapes_.c, dcN);
      pass[DNNL_ARG_DIFF_SRC_ITER_C];
    }
    // The primitive adds to the gradients of the weights.
    for (int arg : {DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS})
      Zero(pass[arg]);
    pass.Run(stream);
    Reorder(stream, pass[DNNL_ARG_DIFF_WEIGHTS_LAYER], Wrap(shapes_.w_user, gradients.w));
    Reorder(stream, pass[DNNL_ARG_DIFF_WEIGHTS_ITER], Wrap(shapes_.r_user, gradients.r));
  }

  memory& y() { return forward()[DNNL_ARG_DST_LAYER]; }
  memory& dx() { return (*passes_.backward)[DNNL_ARG_DIFF_SRC_LAYER]; }

 private:
  Pass& forward() { return *passes_.forward; }

  static void Reorder(dnnl::stream& stream, memory from, memory to) {
    dnnl::reorder(from, to).execute(stream, from, to);
  }

  void Set(int arg, const memory::desc& desc, const float* data) {
    forward()[arg] = Wrap(desc, data);
    if (passes_.backward) (*passes_.backward)[arg] = forward()[arg];
  }

  // What the backward pass reads of the forward's.
  void Share() {
    for (int arg : {DNNL_ARG_BIAS, DNNL_ARG_DST_LAYER, DNNL_ARG_WORKSPACE})
      (*passes_.backward)[arg] = forward()[arg];
  }

  bool lstm_;
  Shapes shapes_;
  Weights weights_;
  Passes passes_;
};

class Stack {
 public:
  Stack(Cell cell, const Sizes& sizes, bool training, float** weights)
      : sizes_(sizes), training_(training), stream_(Engine()) {
    for (int64_t l = 0; l < sizes.L; ++l)
      layers_.push_back(std::make_unique<Layer>(cell, sizes, l, training, At(weights, l)));
    LoadWeights();
  }

  void Forward(const float* x, const float* h0, const float* c0, float* y, float* hN, float* cN) {
    if (training_) LoadWeights();  // a training step has changed them
    for (int64_t l = 0; l < sizes_.L; ++l) {
      layers_[l]->Forward(stream_, l == 0 ? x : Data(layers_[l - 1]->y()), State(h0, l),
                          State(c0, l), State(hN, l), State(cN, l));
    }
    stream_.wait();
    std::memcpy(y, Data(layers_.back()->y()), layers_.back()->y().get_desc().get_size());
  }

  void Backward(const float* dy, const float* dhN, const float* dcN, float* dx, float** gradients) {
    for (int64_t l = sizes_.L - 1; l >= 0; --l) {
      layers_[l]->Backward(stream_, l == sizes_.L - 1 ? dy : Data(layers_[l + 1]->dx()),
                           State(dhN, l), State(dcN, l), At(gradients, l));
    }
    stream_.wait();
    std::memcpy(dx, Data(layers_.front()->dx()), layers_.front()->dx().get_desc().get_size());
  }

 private:
  static Weights At(float** all, int64_t l) { return {all[3 * l], all[3 * l + 1], all[3 * l + 2]}; }
  static float* Data(const memory& m) { return static_cast<float*>(m.get_data_handle()); }

  template <typename T>
  T* State(T* all, int64_t l) const {
    return all == nullptr ? nullptr : all + l * sizes_.D * sizes_.N * sizes_.H;
  }

  void LoadWeights() {
    for (auto& layer : layers_) layer->LoadWeights(stream_);
    stream_.wait();
  }

  Sizes sizes_;
  bool training_;
  dnnl::stream stream_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

std::string& LastError() {
  static std::string message;
  return message;
}

template <typename Function>
int Guarded(Function function) {
  try {
    function();
    return 0;
  } catch (const std::exception& error) {
    LastError() = error.what();
    return 1;
  }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char* OnednnRnnError() { return LastError().c_str(); }

// `sizes` is T, N, I, H, L, D; `weights` holds w, r, b of each layer and must outlive the result.
EXPORTED int OnednnRnnOpen(int cell, const int64_t* sizes, int training, float** weights,
                           void** stack) {
  return Guarded([&] {
    const Sizes s = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
    *stack = new Stack(static_cast<Cell>(cell), s, training != 0, weights);
  });
}

EXPORTED int OnednnRnnForward(void* stack, const float* x, const float* h0, const float* c0,
                              float* y, float* hN, float* cN) {
  return Guarded([&] { static_cast<Stack*>(stack)->Forward(x, h0, c0, y, hN, cN); });
}

EXPORTED int OnednnRnnBackward(void* stack, const float* dy, const float* dhN, const float* dcN,
                               float* dx, float** gradients) {
  return Guarded([&] { static_cast<Stack*>(stack)->Backward(dy, dhN, dcN, dx, gradients); });
}
