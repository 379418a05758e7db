// float32 products by oneDNN's matmul primitive: the only file that sees oneDNN.
#include <omp.h>

#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "fused_rnn/rnn.h"
#include "rnn/gemm.h"

namespace fused_rnn {
namespace {

using dnnl::memory;

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc Matrix(int64_t rows, int64_t columns, int64_t ld, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
  return memory::desc({rows, columns}, memory::data_type::f32, strides);
}

struct Descriptors {
  explicit Descriptors(const GemmArgs<float>& args)
      : a(Matrix(args.M, args.K, args.a_ld, args.a_transposed)),
        b(Matrix(args.K, args.N, args.b_ld, args.b_transposed)),
        c(Matrix(args.M, args.N, args.c_ld, false)) {}
  memory::desc a, b, c;
};

struct Product {
  dnnl::matmul matmul;
  memory::desc scratch;
};

Product MakeProduct(const GemmArgs<float>& args) {
  dnnl::primitive_attr attr;
  // oneDNN's own scratch memory belongs to the thread that made a primitive; ours are run by any,
  // several at a time.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (args.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  const Descriptors descs(args);
  const dnnl::matmul::primitive_desc desc(Engine(), descs.a, descs.b, descs.c, attr);
  return {dnnl::matmul(desc), desc.scratchpad_desc()};
}

// Describing a product costs tens of microseconds even where oneDNN's own cache has the code, so
// primitives are kept. A model uses a handful of shapes; the bound is for programs whose T or N
// changes with every call.
Product CachedProduct(const GemmArgs<float>& args) {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int>;
  constexpr size_t kMostShapes = 256;
  static std::mutex mutex;
  static std::map<Key, Product> cache;
  const int flags = args.a_transposed | args.b_transposed << 1 | args.accumulate << 2;
  const Key key{args.M, args.N, args.K, args.a_ld, args.b_ld, args.c_ld, flags};
  std::lock_guard<std::mutex> lock(mutex);
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= kMostShapes) cache.clear();
    found = cache.emplace(key, MakeProduct(args)).first;
  }
  return found->second;
}

// oneDNN takes its number of threads from OpenMP's setting for the calling thread.
class OneThread {
 public:
  OneThread() : saved_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(saved_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_;
};

// Memory of this thread that grows to the largest product's need.
memory ScratchOfThread(const memory::desc& desc) {
  thread_local memory largest;
  if (!largest || largest.get_desc().get_size() < desc.get_size()) largest = memory(desc, Engine());
  return memory(desc, Engine(), largest.get_data_handle());
}

}  // namespace

void SerialGemm(const GemmArgs<float>& args) try {
  const OneThread scope;
  const Product product = CachedProduct(args);
  const Descriptors descs(args);
  const auto memory_of = [](const memory::desc& desc, const float* data) {
    return memory(desc, Engine(), const_cast<float*>(data));
  };
  dnnl::stream stream(Engine());
  product.matmul.execute(stream, {{DNNL_ARG_SRC, memory_of(descs.a, args.a)},
                                  {DNNL_ARG_WEIGHTS, memory_of(descs.b, args.b)},
                                  {DNNL_ARG_DST, memory_of(descs.c, args.c)},
                                  {DNNL_ARG_SCRATCHPAD, ScratchOfThread(product.scratch)}});
  stream.wait();
} catch (const dnnl::error& error) {
  Fail("oneDNN: a matrix product of [%lld, %lld] and [%lld, %lld] failed: %s",
       static_cast<long long>(args.M), static_cast<long long>(args.K),
       static_cast<long long>(args.K), static_cast<long long>(args.N), error.what());
}

const char* GemmBackend() {
  static const std::string name = [] {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }();
  return name.c_str();
}

}  // namespace fused_rnn
