// float32 products by oneDNN's matmul primitive: the only file that sees oneDNN.
#include <omp.h>

#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "base/check.h"
#include "base/team.h"
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

dnnl::matmul MakeMatmul(const GemmArgs<float>& args) {
  dnnl::primitive_attr attr;
  if (args.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  const auto a = Matrix(args.M, args.K, args.a_ld, args.a_transposed);
  const auto b = Matrix(args.K, args.N, args.b_ld, args.b_transposed);
  const auto c = Matrix(args.M, args.N, args.c_ld, false);
  if (args.bias == nullptr)
    return dnnl::matmul(dnnl::matmul::primitive_desc(Engine(), a, b, c, attr));
  const memory::desc bias({1, args.N}, memory::data_type::f32, memory::dims{args.N, 1});
  return dnnl::matmul(dnnl::matmul::primitive_desc(Engine(), a, b, bias, c, attr));
}

// Describing a product costs tens of microseconds even where oneDNN's own cache has the code, so
// primitives are kept. A model uses a handful of shapes; the bound is for programs whose T or N
// changes with every call.
dnnl::matmul CachedMatmul(const GemmArgs<float>& args, int threads) {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int, int>;
  constexpr size_t kMostShapes = 256;
  static std::mutex mutex;
  static std::map<Key, dnnl::matmul> cache;
  const int flags = args.a_transposed | args.b_transposed << 1 | args.accumulate << 2 |
                    (args.bias != nullptr) << 3;
  const Key key{args.M, args.N, args.K, args.a_ld, args.b_ld, args.c_ld, flags, threads};
  std::lock_guard<std::mutex> lock(mutex);
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= kMostShapes) cache.clear();
    found = cache.emplace(key, MakeMatmul(args)).first;
  }
  return found->second;
}

// oneDNN takes its number of threads from OpenMP's setting for this thread.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads) : saved_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~OpenMpThreads() { omp_set_num_threads(saved_); }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int saved_;
};

}  // namespace

void Gemm(const GemmArgs<float>& args) {
  if (args.M == 0 || args.N == 0) return;
  if (args.K == 0) return GemmOfNothing(args);
  const double work =
      static_cast<double>(args.M) * static_cast<double>(args.N) * static_cast<double>(args.K);
  const int threads = TeamSizeFor(work);
  try {
    const OpenMpThreads scope(threads);
    const dnnl::matmul matmul = CachedMatmul(args, threads);
    dnnl::stream stream(Engine());
    const auto memory_of = [](const memory::desc& desc, const float* data) {
      return memory(desc, Engine(), const_cast<float*>(data));
    };
    std::unordered_map<int, memory> tensors = {
        {DNNL_ARG_SRC, memory_of(Matrix(args.M, args.K, args.a_ld, args.a_transposed), args.a)},
        {DNNL_ARG_WEIGHTS, memory_of(Matrix(args.K, args.N, args.b_ld, args.b_transposed), args.b)},
        {DNNL_ARG_DST, memory_of(Matrix(args.M, args.N, args.c_ld, false), args.c)}};
    if (args.bias != nullptr) {
      tensors.emplace(DNNL_ARG_BIAS, memory_of(memory::desc({1, args.N}, memory::data_type::f32,
                                                            memory::dims{args.N, 1}),
                                               args.bias));
    }
    matmul.execute(stream, tensors);
    stream.wait();
  } catch (const dnnl::error& error) {
    Fail("oneDNN: matrix product [%ld x %ld] x [%ld x %ld] failed: %s", static_cast<long>(args.M),
         static_cast<long>(args.K), static_cast<long>(args.K), static_cast<long>(args.N),
         error.what());
  }
}

}  // namespace fused_rnn
