// The choice of the instruction set, against what Linux knows of the processor. Prints the
// extensions that each set may use, which tools/check_instructions.py reads.
#include "base/cpu.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"

namespace fused_rnn {
namespace {

std::vector<std::string> Words(std::istream& text) {
  return {std::istream_iterator<std::string>(text), {}};
}

std::vector<std::string> ProcessorFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream text(line);
    return Words(text);
  }
  return {};
}

// As Linux writes it.
std::string FlagOf(std::string feature) {
  if (feature == "sse3") return "pni";
  std::replace(feature.begin(), feature.end(), '.', '_');
  return feature;
}

// Those of its bases included.
std::string AllFeatures(Isa isa) {
  return (BaseOf(isa) == isa ? "" : AllFeatures(BaseOf(isa))) + RequiredFeatures(isa);
}

bool HasAll(const std::vector<std::string>& flags, Isa isa) {
  std::istringstream text(AllFeatures(isa));
  for (const std::string& feature : Words(text)) {
    if (std::find(flags.begin(), flags.end(), FlagOf(feature)) == flags.end()) return false;
  }
  return true;
}

void TestSupport() {
  const std::vector<std::string> flags = ProcessorFlags();
  CHECK(!flags.empty());
  Isa best = kIsas[0];
  for (Isa isa : kIsas) {
    Scope scope("isa %s", IsaName(isa));
    CHECK(BaseOf(isa) == isa ? isa == kIsas[0] : BaseOf(isa) < isa);
    CHECK_EQ(IsSupported(isa), HasAll(flags, isa));
    if (IsSupported(isa)) best = isa;
  }
  CHECK(DetectedIsa() == best);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  for (Isa isa : kIsas) std::printf("%s: %s\n", IsaName(isa), AllFeatures(isa).c_str());
  TestSupport();
  return TestResult();
}
