#include "base/cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace fused_rnn {
namespace {

// What the flags of CMakeLists.txt let the compiler use, with all that they imply: asked of the CPU
// and told by RequiredFeatures().
#define FUSED_RNN_AVX2_FEATURES(X) \
  X("sse3")                        \
  X("ssse3") X("sse4.1") X("sse4.2") X("popcnt") X("xsave") X("avx") X("avx2") X("fma") X("f16c")
#define FUSED_RNN_AVX512_FEATURES(X) X("avx512f") X("avx512bw") X("avx512dq") X("avx512vl")
#define FUSED_RNN_NAMED(name) name " "
// __builtin_cpu_supports asks CPUID and, through XGETBV, whether the operating system saves the
// registers.
#define FUSED_RNN_SUPPORTED(name) &&__builtin_cpu_supports(name)

constexpr int kUnset = -1;
std::atomic<int> g_active{kUnset};

Isa CappedIsa() {
  const char* cap = std::getenv("FUSED_RNN_MAX_ISA");
  if (cap == nullptr || *cap == '\0') return DetectedIsa();
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (std::strcmp(cap, IsaName(isa)) == 0) return std::min(isa, DetectedIsa());
  }
  Fail("FUSED_RNN_MAX_ISA: expected 'scalar', 'avx2' or 'avx512', got '%s'", cap);
}

}  // namespace

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    default:
      return "scalar";
  }
}

const char* RequiredFeatures(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return FUSED_RNN_AVX512_FEATURES(FUSED_RNN_NAMED);
    case Isa::kAvx2:
      return FUSED_RNN_AVX2_FEATURES(FUSED_RNN_NAMED);
    default:
      return "";
  }
}

Isa DetectedIsa() {
  if (!(true FUSED_RNN_AVX2_FEATURES(FUSED_RNN_SUPPORTED))) return Isa::kScalar;
  if (!(true FUSED_RNN_AVX512_FEATURES(FUSED_RNN_SUPPORTED))) return Isa::kAvx2;
  return Isa::kAvx512;
}

Isa ActiveIsa() {
  int active = g_active.load(std::memory_order_relaxed);
  if (active == kUnset) {
    active = static_cast<int>(CappedIsa());
    g_active.store(active, std::memory_order_relaxed);
  }
  return static_cast<Isa>(active);
}

void OverrideActiveIsa(Isa isa) {
  FUSED_RNN_CHECK(isa <= DetectedIsa(), "isa: this CPU has at most '%s', got '%s'",
                  IsaName(DetectedIsa()), IsaName(isa));
  g_active.store(static_cast<int>(isa), std::memory_order_relaxed);
}

}  // namespace fused_rnn
