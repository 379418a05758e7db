// Every kernel of the list with every instruction set: TestKernel of kernel_tests/ for each. Prints
// the instruction set that FUSED_RNN_MAX_ISA allows, and a line for each kernel.
#include <cstdio>
#include <string>

#include "check.h"
#include "isas.h"
#include "kernel_tests/activations.h"
#include "kernel_tests/cells.h"
#include "kernel_tests/conversions.h"
#include "kernel_tests/panels.h"
#include "kernel_tests/probes.h"
#include "kernels/kernel_list.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

void TestAllKernels() {
  CHECK_EQ(std::string(Kernels<float>(ActiveIsa()).isa), IsaName());
  ForEachKernel([](auto kernel) {
    Scope scope("%s %s", kernel.kName, kernel.kType);
    const int64_t before = Checks().checks;
    TestKernel(kernel);
    const int64_t checks = Checks().checks - before;
    CHECK(checks > 0);
    std::printf("%s %s %s: %lld checks\n", IsaName(), kernel.kName, kernel.kType,
                static_cast<long long>(checks));
  });
}

#ifdef FUSED_RNN_TEST_ISA
// The same kernels under another name give the same bits.
void TestTestIsa() {
  if (!IsSupported(Isa::avx2_test)) return;
  CHECK(&TablesOf(Isa::avx2_test) != &TablesOf(Isa::avx2));
  for (Mode mode : kModes) {
    ForEachType([mode](auto type) {
      using T = decltype(type);
      Case c = SmallCase(mode);
      c.problem.H = 37;
      const Inputs<T> in(c, 1);
      OverrideActiveIsa(Isa::avx2);
      const Results<T> expected = RunTraining(c, in);
      OverrideActiveIsa(Isa::avx2_test);
      const Results<T> got = RunTraining(c, in);
      CheckSameOutputs(got, expected);
      CheckSameGradients(got, expected);
    });
  }
}
#endif

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  std::printf("in use: %s\n", IsaName());
  ForEachIsa(TestAllKernels);
#ifdef FUSED_RNN_TEST_ISA
  TestTestIsa();
#endif
  return TestResult();
}
