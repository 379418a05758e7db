// Threads: the team, the settings, and what they leave behind.
#include "base/team.h"

#include <omp.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "check.h"
#include "child.h"
#include "fused_rnn/measure.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

constexpr int kManyThreads = 9;  // more than the cores of a small machine

// The variable is read at the first use, hence in children, before this process has used it.
void TestMaxIsa() {
  const auto isa_with = [](const char* value) {
    return InChild([value] {
      setenv("FUSED_RNN_MAX_ISA", value, 1);
      return static_cast<int>(ActiveIsa());
    });
  };
  Isa best = kIsas[0];
  for (Isa isa : kIsas) {
    if (IsSupported(isa)) best = isa;
    CHECK_EQ(isa_with(IsaName(isa)), static_cast<int>(best));
  }
  CHECK_EQ(isa_with(""), static_cast<int>(DetectedIsa()));
  for (const char* value : {"AVX2", "avx", "sse", "avx512 ", "2"}) {
    Scope scope("FUSED_RNN_MAX_ISA='%s'", value);
    CHECK_EQ(InChild([value] {
               setenv("FUSED_RNN_MAX_ISA", value, 1);
               // Every call throws, not only the first, and says what it got.
               for (int repeat = 0; repeat < 2; ++repeat) {
                 CHECK_THROWS(IsaName(), (std::string("got '") + value + "'").c_str());
                 CHECK_THROWS(ForwardWorkspaceBytes(SmallCase(Mode::kGru).problem, false),
                              "FUSED_RNN_MAX_ISA");
               }
               return Checks().failures > 0 ? 1 : 0;
             }),
             0);
  }
}

void TestNumThreads() {
  SetNumThreads(5);
  CHECK_EQ(NumThreads(), 5);
  CHECK_THROWS(SetNumThreads(-1), "-1");
  CHECK_THROWS(SetNumThreads(kMostThreads + 1), "1025");
  CHECK_EQ(NumThreads(), 5);
  const Execution execution;
  SetNumThreads(3);  // which a call that has begun does not see
  CHECK_EQ(execution.threads(), 5);
  CHECK_EQ(execution.TeamSizeFor(1e12), 5);
  CHECK_EQ(execution.TeamSizeFor(1e12, 1), 1);
  CHECK_EQ(execution.TeamSizeFor(0), 1);
  SetNumThreads(0);
  if (std::getenv("OMP_NUM_THREADS") != nullptr) {
    CHECK_EQ(NumThreads(), omp_get_max_threads());
  } else {
    CHECK(NumThreads() >= 1 && NumThreads() <= omp_get_num_procs());
  }
  const int threads = NumThreads();
  CHECK_EQ(InChild([] { return NumThreads(); }), threads);
}

void TestSplit() {
  for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
    for (int parts : {1, 2, 3, 7, 20}) {
      int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range range = Split(count, parts, i);
        CHECK_EQ(range.begin, next);
        CHECK(range.end - range.begin == count / parts ||
              range.end - range.begin == count / parts + 1);
        next = range.end;
      }
      CHECK_EQ(next, count);
    }
  }
}

void TestRunTeam() {
  for (int threads : {1, 2, kManyThreads}) {
    // Each number at most once, the caller's always; the others come if they come in time.
    std::vector<std::atomic<int>> calls(threads);
    std::atomic<int> wrong{0};
    RunTeam(threads, [&](int thread, int team) {
      if (team != threads || thread < 0 || thread >= team) {
        ++wrong;
      } else {
        ++calls[thread];
      }
    });
    CHECK_EQ(wrong.load(), 0);
    CHECK_EQ(calls[0].load(), 1);
    for (const auto& count : calls) CHECK(count.load() <= 1);

    std::vector<std::atomic<int>> visits(101);
    SetNumThreads(threads);
    ParallelFor(Execution(), 1e12, 101, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[i];
    });
    for (const auto& count : visits) CHECK_EQ(count.load(), 1);
    ParallelFor(Execution(), 1e12, 0, [&](int64_t, int64_t) { ++wrong; });
    CHECK_EQ(wrong.load(), 0);
  }
  // All threads come where the caller waits for them.
  std::atomic<int> present{0};
  RunTeam(kManyThreads, [&](int, int) {
    ++present;
    while (present < kManyThreads) usleep(100);
  });
  CHECK_EQ(present.load(), kManyThreads);
  // A team within a team.
  std::atomic<int> visits{0};
  SetNumThreads(4);
  const Execution execution;
  ParallelFor(execution, 1e12, 3, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ParallelFor(execution, 1e12, 10,
                  [&](int64_t first, int64_t last) { visits += static_cast<int>(last - first); });
    }
  });
  CHECK_EQ(visits.load(), 30);
  SetNumThreads(0);
}

void TestHash() {
  std::vector<unsigned char> bytes((3 << 20) + 77);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 >> 3);
  SetNumThreads(1);
  const uint64_t hash = HashBytes(bytes.data(), bytes.size());
  SetNumThreads(kManyThreads);
  CHECK(HashBytes(bytes.data(), bytes.size()) == hash);
  for (size_t at :
       {size_t{0}, size_t{63}, size_t{1} << 20, (size_t{2} << 20) + 5, bytes.size() - 1}) {
    bytes[at] ^= 1;
    CHECK(HashBytes(bytes.data(), bytes.size()) != hash);
    bytes[at] ^= 1;
  }
  CHECK(HashBytes(bytes.data(), bytes.size() - 1) != hash);
  CHECK(HashBytes(bytes.data(), 0) == HashBytes(nullptr, 0));
  SetNumThreads(0);
}

// Teams flush subnormals, and leave no trace of it in the caller.
void TestFlushSubnormals() {
  constexpr unsigned kFlags = 0x8040, kStatus = 0x3F;  // the status bits say what has happened
  const unsigned before = _mm_getcsr() & ~kStatus;
  CHECK_EQ(before & kFlags, 0u);
  for (int threads : {1, 3}) {
    std::atomic<int> unset{0};
    RunTeam(threads, [&](int, int) { unset += (_mm_getcsr() & kFlags) != kFlags; });
    CHECK_EQ(unset.load(), 0);
    CHECK_EQ(_mm_getcsr() & ~kStatus, before);
    SetNumThreads(threads);
    Case c = SmallCase(Mode::kLstm);
    c.problem.N = 64;
    c.problem.H = 80;
    RunTraining(c, Inputs<float>(c, 1));
    RunTraining(c, Inputs<double>(c, 1));
    CHECK_EQ(_mm_getcsr() & ~kStatus, before);
  }
  SetNumThreads(0);
  // A caller's own setting stays, too.
  {
    const FlushSubnormals flush;
    const unsigned own = _mm_getcsr() & ~kStatus;
    RunTeam(1, [](int, int) {});
    CHECK_EQ(_mm_getcsr() & ~kStatus, own);
  }
  CHECK_EQ(_mm_getcsr() & ~kStatus, before);
}

void TestIsaOverride() {
  for (Isa isa : kIsas) {
    if (IsSupported(isa)) {
      OverrideActiveIsa(isa);
      CHECK_EQ(std::string(IsaName()), IsaName(isa));
    } else {
      CHECK_THROWS(OverrideActiveIsa(isa), IsaName(isa));
    }
  }
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestMaxIsa();  // first: nothing has read the variable yet
  TestNumThreads();
  TestSplit();
  TestRunTeam();
  TestHash();
  TestFlushSubnormals();
  TestIsaOverride();
  return TestResult();
}
