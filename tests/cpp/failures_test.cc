// Where memory lacks, or the system forbids what a library does, a call throws or does without; the
// process and its next calls are as before.
#include <link.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/execution.h"
#include "check.h"
#include "child.h"
#include "compare.h"
#include "naive_rnn.h"
#include "rnn_case.h"

#if !FUSED_RNN_SANITIZED
namespace {
// The allocation that fails, counted down from when it is set; and all that follow, if `lasting`.
std::atomic<long> g_until_failure{-1};
std::atomic<bool> g_lasting{false};

// Where oneDNN's code is. It does not survive a failure in the midst of it (onednn_gemm.cc), so
// none begins there.
const char* g_library_begin = nullptr;
const char* g_library_end = nullptr;

int FindLibrary(dl_phdr_info* info, size_t, void*) {
  if (std::strstr(info->dlpi_name, "libdnnl") == nullptr) return 0;
  g_library_begin = g_library_end = reinterpret_cast<const char*>(info->dlpi_addr);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    g_library_end = std::max(g_library_end, g_library_begin + part.p_vaddr + part.p_memsz);
  }
  return 1;
}

bool Fails(const void* caller) {
  if (g_until_failure <= 0) return g_until_failure == 0 && g_lasting;
  if (caller >= g_library_begin && caller < g_library_end) return false;
  if (g_until_failure.fetch_sub(1) != 1) return false;
  errno = ENOMEM;
  return true;
}
}  // namespace

// In place of the C and C++ libraries', for all libraries of the process.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}
#define FAIL_OR(memory) Fails(__builtin_return_address(0)) ? nullptr : (memory)
extern "C" {
void* malloc(size_t bytes) { return FAIL_OR(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return FAIL_OR(__libc_calloc(count, bytes)); }
void* realloc(void* old, size_t bytes) { return FAIL_OR(__libc_realloc(old, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return FAIL_OR(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* found = FAIL_OR(__libc_memalign(alignment, bytes));
  if (found != nullptr) *memory = found;
  return found != nullptr ? 0 : ENOMEM;
}
}
void* operator new(size_t bytes) {
  void* memory = FAIL_OR(__libc_malloc(bytes));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return FAIL_OR(__libc_malloc(bytes));
}
void operator delete(void* memory) noexcept { __libc_free(memory); }
void operator delete(void* memory, size_t) noexcept { __libc_free(memory); }
#endif  // !FUSED_RNN_SANITIZED

namespace fused_rnn {
namespace {

Case TrainingCase(int64_t N) {
  Case c;
  c.problem.mode = Mode::kLstm;
  c.problem.T = 5;
  c.problem.N = N;
  c.problem.I = 21;
  c.problem.H = 40;
  c.problem.L = 2;
  c.problem.D = 2;
  SetLengths(&c, 4);
  return c;
}

#if !FUSED_RNN_SANITIZED
// One call after another lacks the first, the second, ... of all the allocations it makes, alone or
// with all that follow.
template <typename T>
void TestEveryAllocation(bool lasting) {
  Scope scope("%s, lasting %d", DTypeName(DTypeOf<T>()), lasting);
  bool complete = false;
  for (long failing = 1; !complete && failing < 5000; ++failing) {
    // At times a size that the matrix library has not seen, since compiling takes long.
    const Case c = TrainingCase(6 + failing / 8);
    const Inputs<T> in(c, 1);
    TrainingArgs<T> args(c, in);
    const auto calls = [&] {
      PackedWeights packed(args.problem, in.params.data());
      Forward(args.problem, args.forward);
      Backward(args.problem, args.backward);
    };
    g_lasting = lasting;
    g_until_failure = failing;
    bool threw = false;
    try {
      calls();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    // What the allocation was for may be dispensable (a thread of the pool, a cache).
    complete = g_until_failure.exchange(-1) > 0;
    if (complete) CHECK(!threw);
    calls();
    if (failing % 16 == 1) CHECK(SameBits(RunTraining(c, in).dparams, args.out.dparams));
  }
  CHECK(complete);
}

// More than the process may have: it throws, says how much, and goes on.
void TestAddressSpace() {
  CHECK(PassesInChild([] {
    Case c = TrainingCase(4);
    RunTraining(c, Inputs<float>(c, 1));  // makes the threads
    const rlimit limit{rlim_t{2} << 30, rlim_t{2} << 30};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    c.problem.H = 12000;
    const float any = 0;
    CHECK_THROWS(PackedWeights(c.problem, &any), "bytes for packed weights");
    c.problem.H = 40;
    RunTraining(c, Inputs<float>(c, 1));
  }));
}
#endif  // !FUSED_RNN_SANITIZED

// Without code of the library's making: the same within rounding, on our own kernels.
void TestNoCodeOfOurMaking() {
  constexpr int kSetMdwe = 65;  // PR_SET_MDWE, in Linux since 6.3
  const Case c = TrainingCase(40);
  const Inputs<float> in(c, 1);
  const Results<float> expected = RunTraining(c, in);
  CHECK(PassesInChild([&] {
    if (prctl(kSetMdwe, 1, 0, 0, 0) != 0) {
      std::printf("this kernel has no PR_SET_MDWE\n");
      return;
    }
    const Results<float> got = RunTraining(c, in);
    CheckSameOutputs(got, expected);
    const double units = GradientUnits(c);
    std::vector<double> dparams(expected.dparams.begin(), expected.dparams.end());
    CheckNear("dparams", got.dparams, dparams, units);
  }));
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestNoCodeOfOurMaking();
#if !FUSED_RNN_SANITIZED
  TestAddressSpace();
  dl_iterate_phdr(FindLibrary, nullptr);
  for (int threads : {1, 3}) {
    SetNumThreads(threads);
    for (bool lasting : {false, true}) {
      TestEveryAllocation<float>(lasting);
      TestEveryAllocation<double>(lasting);
      TestEveryAllocation<Float16>(lasting);
    }
  }
#endif
  return TestResult();
}
