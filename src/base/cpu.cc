#include "base/cpu.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "base/check.h"

namespace fused_rnn {
namespace {

struct IsaEntry {
  const char* name;
  Isa base;
  const char* features;
};

constexpr IsaEntry kEntries[] = {
#define FUSED_RNN_FEATURE(name) name " "
#define FUSED_RNN_ISA_ENTRY(name, base, flags, features) {#name, Isa::base, "" features},
#include "base/isas.def"
};

const IsaEntry& EntryOf(Isa isa) { return kEntries[static_cast<int>(isa)]; }

// Whether those of its features are there that its base does not have. __builtin_cpu_supports asks
// CPUID and, through XGETBV, whether the operating system saves the registers.
bool HasOwnFeatures(Isa isa) {
  switch (isa) {
#define FUSED_RNN_FEATURE(name) &&__builtin_cpu_supports(name)
#define FUSED_RNN_ISA_ENTRY(name, base, flags, features) \
  case Isa::name:                                        \
    return true features;
#include "base/isas.def"
  }
  return false;
}

constexpr int kUnset = -1;
std::atomic<int> g_active{kUnset};

Isa LastSupported(Isa most) {
  Isa last = kIsas[0];
  for (Isa isa : kIsas) {
    if (isa <= most && IsSupported(isa)) last = isa;
  }
  return last;
}

// 'a', 'b' or 'c'
std::string QuotedNames() {
  std::string names;
  for (Isa isa : kIsas) {
    if (isa != kIsas[0]) names += isa == *(std::end(kIsas) - 1) ? " or " : ", ";
    names += std::string("'") + IsaName(isa) + "'";
  }
  return names;
}

Isa CappedIsa() {
  const char* cap = std::getenv("FUSED_RNN_MAX_ISA");
  if (cap == nullptr || *cap == '\0') return DetectedIsa();
  for (Isa isa : kIsas) {
    if (std::strcmp(cap, IsaName(isa)) == 0) return LastSupported(isa);
  }
  Fail("FUSED_RNN_MAX_ISA: expected %s, got '%s'", QuotedNames().c_str(), cap);
}

}  // namespace

const char* IsaName(Isa isa) { return EntryOf(isa).name; }

Isa BaseOf(Isa isa) { return EntryOf(isa).base; }

const char* RequiredFeatures(Isa isa) { return EntryOf(isa).features; }

bool IsSupported(Isa isa) {
  return HasOwnFeatures(isa) && (BaseOf(isa) == isa || IsSupported(BaseOf(isa)));
}

Isa DetectedIsa() { return LastSupported(*(std::end(kIsas) - 1)); }

Isa ActiveIsa() {
  int active = g_active.load(std::memory_order_relaxed);
  if (active == kUnset) {
    active = static_cast<int>(CappedIsa());
    g_active.store(active, std::memory_order_relaxed);
  }
  return static_cast<Isa>(active);
}

void OverrideActiveIsa(Isa isa) {
  FUSED_RNN_CHECK(IsSupported(isa),
                  "isa: expected one that this CPU supports, up to '%s', got '%s'",
                  IsaName(DetectedIsa()), IsaName(isa));
  g_active.store(static_cast<int>(isa), std::memory_order_relaxed);
}

}  // namespace fused_rnn
