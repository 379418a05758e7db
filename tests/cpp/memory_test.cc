// Memory: each pass stays inside every region of workspace and reserve and inside every tensor,
// reads nothing that nobody has written, and leaves its inputs alone. Sizes are small and odd,
// where such faults are.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/team.h"
#include "check.h"
#include "isas.h"
#include "kernels/kernel_table.h"
#include "rnn/passes.h"
#include "rnn/staged.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

constexpr int64_t kGap = 128;

// Memory laid out by a plan with gaps: regions are NaN, everything else (the gaps, and what the
// alignment left over) a pattern.
class PlannedMemory {
 public:
  explicit PlannedMemory(const RegionPlan& plan) : PlannedMemory(plan.bytes(), plan.regions()) {}
  // `regions` by rising offset.
  PlannedMemory(int64_t bytes, const std::vector<Region>& regions)
      : regions_(regions), memory_(MakeMemory(bytes)) {
    ForEachGap([](unsigned char* begin, unsigned char* end) { std::fill(begin, end, kPattern); });
  }
  void* data() { return memory_.data(); }
  const Memory& memory() const { return memory_; }

  bool GapsIntact() {
    bool intact = memory_.Intact();
    ForEachGap([&intact](const unsigned char* begin, const unsigned char* end) {
      intact =
          intact && std::all_of(begin, end, [](unsigned char byte) { return byte == kPattern; });
    });
    return intact;
  }

 private:
  static constexpr unsigned char kPattern = 0x5A;

  template <typename Body>
  void ForEachGap(const Body& body) {
    int64_t end = 0;
    for (const Region& region : regions_) {
      body(memory_.data() + end, memory_.data() + region.offset);
      end = region.offset + region.bytes;
    }
    body(memory_.data() + end, memory_.end());
  }

  std::vector<Region> regions_;
  Memory memory_;
};

// The regions of `outer`, with those of `inner` in place of the one that holds it.
std::vector<Region> Flatten(const RegionPlan& outer, const Region& holder,
                            const RegionPlan& inner) {
  std::vector<Region> regions;
  for (const Region& region : outer.regions()) {
    if (region.offset != holder.offset) {
      regions.push_back(region);
      continue;
    }
    for (const Region& part : inner.regions())
      regions.push_back({holder.offset + part.offset, part.bytes});
  }
  return regions;
}

template <typename T>
void GuardedForward(const Dims& dims, const Steps& steps, ForwardArgs args,
                    const ReservePlan& reserve) {
  const ForwardPlan plan(dims, args.reserve != nullptr, Lanes<T>(), kGap);
  const auto run = [&](PlannedMemory workspace, const auto& pass) {
    args.workspace = workspace.data();
    pass();
    CHECK(workspace.GapsIntact());
  };
  if constexpr (kIsHalf<T>) {
    const StagedForwardPlan staged(dims, args.reserve != nullptr, plan.bytes(), kGap);
    run(PlannedMemory(staged.bytes(), Flatten(staged, staged.inner, plan)),
        [&] { RunStagedForward(Execution(), dims, steps, args, staged, plan, reserve); });
  } else {
    run(PlannedMemory(plan),
        [&] { RunForward<PlainWeights<T, T>>(Execution(), dims, steps, args, plan, reserve); });
  }
}

template <typename T>
void GuardedBackward(const Dims& dims, const Steps& steps, BackwardArgs args,
                     const ReservePlan& reserve) {
  const BackwardPlan plan(dims, Lanes<T>(), kGap);
  const auto run = [&](PlannedMemory workspace, const auto& pass) {
    args.workspace = workspace.data();
    pass();
    CHECK(workspace.GapsIntact());
  };
  if constexpr (kIsHalf<T>) {
    const StagedBackwardPlan staged(dims, plan.bytes(), kGap);
    run(PlannedMemory(staged.bytes(), Flatten(staged, staged.inner, plan)),
        [&] { RunStagedBackward(Execution(), dims, steps, args, staged, plan, reserve); });
  } else {
    run(PlannedMemory(plan), [&] {
      RunBackward<PlainWeights<T, T>>(Execution(), dims, steps, args,
                                      static_cast<const T*>(args.params), plan, reserve);
    });
  }
}

template <typename T>
bool AllIntact(const std::vector<const GuardedArray<T>*>& arrays) {
  return std::all_of(arrays.begin(), arrays.end(),
                     [](const auto* array) { return array->Intact(); });
}

template <typename T>
bool NoNan(const std::vector<const GuardedArray<T>*>& arrays) {
  return std::all_of(arrays.begin(), arrays.end(), [](const auto* array) {
    return std::none_of(array->begin(), array->end(),
                        [](T value) { return std::isnan(ToDouble(value)); });
  });
}

template <typename T>
void TestCase(const Case& c) {
  Scope scope("%s %s", DTypeName(DTypeOf<T>()), c.Describe().c_str());
  const Dims dims(c.WithType(DTypeOf<T>()));
  const Steps steps(dims, c.lengths.data());
  const ReservePlan reserve_plan(dims, Lanes<T>(), kGap);
  const Inputs<T> in(c, 1);
  {
    const Results<T> expected = RunTraining(c, in);
    CHECK(NoNan(expected.outputs()) && NoNan(expected.gradients()));
    Results<T> out(in);
    PlannedMemory reserve(reserve_plan);
    ForwardArgs forward = MakeForwardArgs(c, in, &out);
    forward.reserve = reserve.data();
    GuardedForward<T>(dims, steps, forward, reserve_plan);
    CHECK(reserve.GapsIntact());
    const Memory reserve_before = reserve.memory();
    BackwardArgs backward = MakeBackwardArgs(c, in, &out, {});
    backward.reserve = reserve.data();
    GuardedBackward<T>(dims, steps, backward, reserve_plan);
    CHECK(SameBits(reserve.memory(), reserve_before));
    CheckSameOutputs(out, expected);
    CheckSameGradients(out, expected);
    CHECK(AllIntact(out.outputs()) && AllIntact(out.gradients()));
  }
  {
    Results<T> expected(in), out(in);
    RunInference(c, in, &expected);
    CHECK(NoNan(expected.outputs()));
    GuardedForward<T>(dims, steps, MakeForwardArgs(c, in, &out), reserve_plan);
    CheckSameOutputs(out, expected);
    CHECK(AllIntact(out.outputs()));
  }
  const Inputs<T> again(c, 1);
  CHECK(AllIntact(in.all()));
  for (size_t i = 0; i < in.all().size(); ++i) CHECK(SameBits(*in.all()[i], *again.all()[i]));
}

// All of 1 and 2, nothing at all in one place or another, and sizes around the vectors' and tiles'.
std::vector<Size> Sizes() {
  std::vector<Size> sizes = {
      {0, 1, 1, 1, 1}, {0, 2, 3, 2, 1},  {1, 0, 2, 2, 2},   {2, 0, 1, 1, 1},  {0, 0, 1, 1, 1},
      {2, 1, 0, 2, 1}, {5, 7, 9, 17, 5}, {4, 3, 2, 33, 17}, {3, 45, 5, 9, 8}, {2, 15, 3, 16, 16}};
  for (int64_t bits = 0; bits < 16; ++bits) {
    const int64_t H = 1 + (bits >> 3 & 1);
    for (int64_t P = 1; P <= H; ++P)
      sizes.push_back({1 + (bits & 1), 1 + (bits >> 1 & 1), 1 + (bits >> 2 & 1), H, P});
  }
  return sizes;
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  SetNumThreads(2);
  // Sizes outermost: products of the same shapes follow each other, and oneDNN keeps what it has
  // made for a shape.
  for (const Size& size : Sizes()) {
    ForEachCase(size, [](const Case& c) {
      ForEachIsa([&c] { ForEachReal([&c](auto real) { TestCase<decltype(real)>(c); }); });
      TestCase<Float16>(c);
      TestCase<BFloat16>(c);
    });
  }
  return TestResult();
}
