// float32 products by oneDNN's matmul primitive: the only file that sees oneDNN. float64 products,
// which it does not have on a CPU, by our own kernels.
#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <tuple>

#include "base/check.h"
#include "base/fork_gate.h"
#include "fused_rnn/rnn.h"
#include "rnn/gemm.h"

namespace fused_rnn {
namespace {

using dnnl::memory;

// oneDNN goes on with a null pointer where one of its small allocations fails. So it is only called
// while there is memory for what it is about to do.
void CheckMemory(size_t bytes) {
  void* memory = std::malloc(bytes);
  asm volatile("" : "+r"(memory));  // or the compiler would leave both calls out
  if (memory == nullptr) throw OutOfMemory("a matrix product", bytes);
  std::free(memory);
}
constexpr size_t kBytesOfCode = size_t{4} << 20, kBytesOfCall = size_t{64} << 10;

dnnl::engine MakeEngine() {
  CheckMemory(kBytesOfCode);
  // Its own cache would keep what failed for lack of memory; ours has all of our products.
  dnnl::set_primitive_cache_capacity(0);
  return {dnnl::engine::kind::cpu, 0};
}

using Varying = GemmArgs<float>::Varying;

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

// For all sizes of the dimension that varies, if one does.
GemmArgs<float> General(GemmArgs<float> args) {
  if (args.varying == Varying::kM) args.M = DNNL_RUNTIME_DIM_VAL;
  if (args.varying == Varying::kK) args.K = DNNL_RUNTIME_DIM_VAL;
  return args;
}

Product MakeProduct(const dnnl::engine& engine, const GemmArgs<float>& args) {
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
  const dnnl::matmul::primitive_desc desc(engine, descs.a, descs.b, descs.c, attr);
  return {dnnl::matmul(desc), desc.scratchpad_desc()};
}

// oneDNN's engine and our products: compiling one takes a millisecond, so they are kept. A model
// uses a handful of shapes; the bound is for programs whose T or N changes with every call. Where
// sequences have lengths, one product serves all sums of them (measured on AVX-512: 0.95 to 1.2 of
// the speed of one that is compiled for its size).
class Library {
 public:
  // The process's own. Never destroyed, for calls may run until the process ends; and a child of
  // fork() makes a new one, since a thread of the parent may have held the lock.
  static Library& Get() {
    Library* library = own_.load(std::memory_order_acquire);
    if (library != nullptr) return *library;
    auto made = std::make_unique<Library>();
    if (own_.compare_exchange_strong(library, made.get(), std::memory_order_acq_rel))
      return *made.release();
    return *library;
  }
  static void Forget() { own_.store(nullptr); }

  const dnnl::engine& engine() const { return engine_; }

  // None if oneDNN cannot make it.
  std::optional<Product> Find(const GemmArgs<float>& sized) {
    constexpr size_t kMostShapes = 1024;
    const GemmArgs<float> args = General(sized);
    const int flags = args.a_transposed | args.b_transposed << 1 | args.accumulate << 2;
    const Key key{args.M, args.N, args.K, args.a_ld, args.b_ld, args.c_ld, flags};
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = products_.find(key);
    if (found == products_.end()) {
      if (products_.size() >= kMostShapes) products_.clear();
      CheckMemory(kBytesOfCode);
      const ForkGate gate;  // oneDNN has locks of its own around the making of code
      try {
        found = products_.emplace(key, MakeProduct(engine_, args)).first;
      } catch (const dnnl::error&) {
        return std::nullopt;
      }
    }
    return found->second;
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int>;
  static std::atomic<Library*> own_;

  const dnnl::engine engine_ = MakeEngine();
  std::mutex mutex_;
  std::map<Key, Product> products_;
};

std::atomic<Library*> Library::own_{nullptr};
const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] { Library::Forget(); });

// Whether this process may run code that it has written (PR_SET_MDWE, SELinux and others forbid
// it), as oneDNN does.
bool CanMakeCode() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* code =
      mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (code == MAP_FAILED) return true;  // for lack of memory, which says nothing
  const bool can = mprotect(code, page, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
  munmap(code, page);
  return can;
}

// Set when a product could not be made for want of code.
std::atomic<bool> g_no_code{false};

void GiveUpIfNoCode() {
  if (CanMakeCode() || g_no_code.exchange(true)) return;
  std::fprintf(stderr,
               "fused_rnn: warning: this process may not make memory executable, as oneDNN does; "
               "the large products of training run on kernels of our own, somewhat slower\n");
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
memory ScratchOfThread(const dnnl::engine& engine, const memory::desc& desc) {
  thread_local memory largest;
  if (!largest || largest.get_desc().get_size() < desc.get_size()) largest = memory(desc, engine);
  return memory(desc, engine, largest.get_data_handle());
}

// Whether oneDNN could make the product; then it is computed.
bool Multiply(const GemmArgs<float>& args) {
  const OneThread scope;
  CheckMemory(kBytesOfCall);
  Library& library = Library::Get();
  const dnnl::engine& engine = library.engine();
  const std::optional<Product> product = library.Find(args);
  if (!product) return false;
  const Descriptors descs(args);
  const auto memory_of = [&](const memory::desc& desc, const float* data) {
    return memory(desc, engine, const_cast<float*>(data));
  };
  dnnl::stream stream(engine);
  product->matmul.execute(stream,
                          {{DNNL_ARG_SRC, memory_of(descs.a, args.a)},
                           {DNNL_ARG_WEIGHTS, memory_of(descs.b, args.b)},
                           {DNNL_ARG_DST, memory_of(descs.c, args.c)},
                           {DNNL_ARG_SCRATCHPAD, ScratchOfThread(engine, product->scratch)}});
  stream.wait();
  return true;
}

const std::string g_name = [] {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}();

}  // namespace

void SerialGemm(Isa isa, const GemmArgs<float>& args) try {
  if (!g_no_code.load(std::memory_order_relaxed) && !BrokenByFork()) {
    if (Multiply(args)) return;
    GiveUpIfNoCode();
  }
  OwnGemm(isa, args);
} catch (const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) throw OutOfMemory("a matrix product", 0);
  Fail("oneDNN: a matrix product of [%lld, %lld] and [%lld, %lld] failed: %s",
       static_cast<long long>(args.M), static_cast<long long>(args.K),
       static_cast<long long>(args.K), static_cast<long long>(args.N), error.what());
}

void SerialGemm(Isa isa, const GemmArgs<double>& args) { OwnGemm(isa, args); }

const char* GemmBackend() { return g_name.c_str(); }

}  // namespace fused_rnn
