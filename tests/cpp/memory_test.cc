// Memory: each pass stays inside every region of workspace and reserve and inside every tensor, reads nothing that nobody has
// written, and leaves its inputs alone. Sizes are small and odd, where such faults are.
#include "base/team.h"
#include "check.h"
#include "isas.h"
#include "kernels/kernel_table.h"
#include "rnn/passes.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

constexpr int64_t kGap = 128;

// Memory after a plan with gaps: regions are NaN, everything else (the gaps, and what the alignment left over) a pattern.
class PlannedMemory {
 public:
  explicit PlannedMemory(const RegionPlan& plan) : plan_(plan), memory_(MakeMemory(plan.bytes())) {
    ForEachGap([](unsigned char* begin, unsigned char* end) { std::fill(begin, end, kPattern); });
  }
  void* data() { return memory_.data(); }
  const Memory& memory() const { return memory_; }

  bool GapsIntact() {
    bool intact = memory_.Intact();
    ForEachGap([&intact](const unsigned char* begin, const unsigned char* end) {
      intact = intact && std::all_of(begin, end, [](unsigned char byte) { return byte == kPattern; });
    });
    return intact;
  }

 private:
  static constexpr unsigned char kPattern = 0x5A;

  template <typename Body>
  void ForEachGap(const Body& body) {
    int64_t end = 0;
    for (const Region& region : plan_.regions()) {
      body(memory_.data() + end, memory_.data() + region.offset);
      end = region.offset + region.bytes;
    }
    body(memory_.data() + end, memory_.end());
  }

  RegionPlan plan_;
  Memory memory_;
};

template <typename Real>
bool AllIntact(const Inputs<Real>& in, const Results<Real>& out) {
  bool intact = true;
  for (const auto* array : {&in.x, &in.params, &in.h0, &in.c0, &in.dy, &in.dhN, &in.dcN}) intact = intact && array->Intact();
  for (const auto* array : out.outputs()) intact = intact && array->Intact();
  for (const auto* array : out.gradients()) intact = intact && array->Intact();
  return intact;
}

template <typename Real>
bool AnyNan(const std::vector<const GuardedArray<Real>*>& arrays) {
  for (const auto* array : arrays) {
    for (Real value : *array) {
      if (value != value) return true;
    }
  }
  return false;
}

template <typename Real>
void TestCase(const Case& c) {
  Scope scope("%s", c.Describe().c_str());
  const Dims dims(c.WithType(DTypeOf<Real>()));
  const Steps steps(dims, c.lengths.data());
  const int64_t V = Kernels<Real>().lanes;
  const Inputs<Real> in(c, 1);
  const Results<Real> expected = RunTraining(c, in);
  CHECK(!AnyNan(expected.outputs()));
  CHECK(!AnyNan(expected.gradients()));

  Results<Real> out(in);
  const ReservePlan reserve_plan(dims, kGap);
  PlannedMemory reserve(reserve_plan);
  {
    const ForwardPlan plan(dims, /*training=*/true, V, kGap);
    PlannedMemory workspace(plan);
    ForwardArgs args = MakeForwardArgs(c, in, &out);
    args.workspace = workspace.data();
    args.reserve = reserve.data();
    RunForward<Real>(dims, steps, args, in.params.data(), plan, reserve_plan);
    CHECK(workspace.GapsIntact());
    CHECK(reserve.GapsIntact());
    CheckSameOutputs(out, expected);
  }
  {
    const BackwardPlan plan(dims, V, kGap);
    PlannedMemory workspace(plan);
    const Memory reserve_before = reserve.memory();
    BackwardArgs args = MakeBackwardArgs(c, in, &out, {});
    args.workspace = workspace.data();
    args.reserve = reserve.data();
    RunBackward<Real>(dims, steps, args, in.params.data(), plan, reserve_plan);
    CHECK(workspace.GapsIntact());
    CHECK(SameBits(reserve.memory(), reserve_before));
    CheckSameOutputs(out, expected);
    CheckSameGradients(out, expected);
  }
  {
    Results<Real> inferred(in);
    const ForwardPlan plan(dims, /*training=*/false, V, kGap);
    PlannedMemory workspace(plan);
    ForwardArgs args = MakeForwardArgs(c, in, &inferred);
    args.workspace = workspace.data();
    RunForward<Real>(dims, steps, args, in.params.data(), plan, reserve_plan);
    CHECK(workspace.GapsIntact());
    CHECK(!AnyNan(inferred.outputs()));
    CHECK(AllIntact(in, inferred));
    Results<Real> expected_inferred(in);
    RunInference(c, in, &expected_inferred);
    CheckSameOutputs(inferred, expected_inferred);
  }
  CHECK(AllIntact(in, out));
  const Inputs<Real> again(c, 1);
  CHECK(SameBits(in.x, again.x) && SameBits(in.params, again.params) && SameBits(in.h0, again.h0) &&
        SameBits(in.c0, again.c0) && SameBits(in.dy, again.dy) && SameBits(in.dhN, again.dhN) && SameBits(in.dcN, again.dcN));
}

// All of 1 and 2, nothing at all in one place or another, and sizes around the vectors' and tiles'.
std::vector<Size> Sizes() {
  std::vector<Size> sizes = {{0, 1, 1, 1, 1}, {0, 2, 3, 2, 1}, {1, 0, 2, 2, 2}, {2, 0, 1, 1, 1}, {0, 0, 1, 1, 1},
                             {2, 1, 0, 2, 1}, {5, 7, 9, 17, 5}, {4, 3, 2, 33, 17}, {3, 45, 5, 9, 8}, {2, 15, 3, 16, 16}};
  for (int64_t bits = 0; bits < 16; ++bits) {
    const int64_t H = 1 + (bits >> 3 & 1);
    for (int64_t P = 1; P <= H; ++P) sizes.push_back({1 + (bits & 1), 1 + (bits >> 1 & 1), 1 + (bits >> 2 & 1), H, P});
  }
  return sizes;
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  SetNumThreads(2);
  // Sizes outermost: products of the same shapes follow each other, and oneDNN keeps what it has made for a shape.
  for (const Size& size : Sizes()) {
    ForEachCase(size, [](const Case& c) {
      ForEachIsa([&c] {
        ForEachType([&c](auto real) { TestCase<decltype(real)>(c); });
      });
    });
  }
  return TestResult();
}
