// The choice of the instruction set, against what Linux knows of the processor. Prints the
// extensions that each set needs, which tools/check_instructions.py reads.
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

bool HasAll(const std::vector<std::string>& flags, Isa isa) {
  std::istringstream text(RequiredFeatures(isa));
  for (const std::string& feature : Words(text)) {
    if (std::find(flags.begin(), flags.end(), FlagOf(feature)) == flags.end()) return false;
  }
  return true;
}

void DetectedIsTheBestThatHasAll() {
  const std::vector<std::string> flags = ProcessorFlags();
  CHECK(!flags.empty());
  Isa best = Isa::kScalar;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!HasAll(flags, isa)) break;
    best = isa;
  }
  CHECK(DetectedIsa() == best);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using fused_rnn::Isa;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    std::printf("%s: %s\n", IsaName(isa), RequiredFeatures(isa));
  }
  fused_rnn::DetectedIsTheBestThatHasAll();
  return fused_rnn::TestResult();
}
