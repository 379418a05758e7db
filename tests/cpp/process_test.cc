// What a process does around calls changes nothing in them: settings that change, fork(), threads
// bound to a core, a caller that has enough.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/execution.h"
#include "base/fork_gate.h"
#include "base/processors.h"
#include "base/team.h"
#include "check.h"
#include "child.h"
#include "compare.h"
#include "isas.h"
#include "rnn_case.h"

namespace fused_rnn {
namespace {

// Steps large enough for a team of four, in two directions.
Case TeamCase(Mode mode, int64_t T) {
  Case c;
  c.problem.mode = mode;
  c.problem.T = T;
  c.problem.N = 16;
  c.problem.I = 24;
  c.problem.H = mode == Mode::kLstm || mode == Mode::kGru ? 64 : 110;
  c.problem.D = 2;
  return c;
}

// Runs body() while threads do body_of_thread(k) again and again.
template <typename OfThread, typename Body>
void Beside(int threads, const OfThread& body_of_thread, const Body& body) {
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int k = 0; k < threads; ++k) {
    others.emplace_back([&, k] {
      while (!over) body_of_thread(k);
    });
  }
  body();
  over = true;
  for (std::thread& other : others) other.join();
}

// Threads of a team must agree on its phases whatever becomes of the settings meanwhile.
template <typename T>
void TestSettingsThatChange() {
  std::vector<Case> cases;
  std::vector<Results<T>> expected;
  SetNumThreads(1);
  for (Mode mode : kModes) {
    cases.push_back(TeamCase(mode, 20));
    expected.push_back(RunTraining(cases.back(), Inputs<T>(cases.back(), 1)));
  }
  const auto change = [](int k) {
    static std::atomic<int> count{k};
    SetNumThreads(1 + count++ % 6);
    usleep(20);
  };
  int wrong = 0;
  Beside(2, change, [&] {
    for (int repeat = 0; repeat < 60; ++repeat) {
      const size_t i = static_cast<size_t>(repeat) % cases.size();
      const Results<T> got = RunTraining(cases[i], Inputs<T>(cases[i], 1));
      wrong += !SameBits(got.y, expected[i].y) || !SameBits(got.dx, expected[i].dx) ||
               !SameBits(got.dparams, expected[i].dparams);
    }
  });
  CHECK_EQ(wrong, 0);
  SetNumThreads(0);
}

// Children of a process of which eight threads train, each time with a size that is new to the
// matrix library, and pack weights.
void TestForkWhileThreadsCompute() {
  SetNumThreads(3);
  const Case c = TeamCase(Mode::kLstm, 6);
  const Inputs<float> in(c, 1);
  const Results<float> expected = RunTraining(c, in);
  std::atomic<int64_t> size{1};
  const auto compute = [&](int) {
    Case other = TeamCase(Mode::kGru, 1 + size++ % 40);
    other.problem.N = 1 + size++ % 50;
    const Inputs<float> inputs(other, 1);
    RunTraining(other, inputs);
    const PackedWeights packed(other.problem, inputs.params.data());
  };
  int hung = 0;
  Beside(8, compute, [&] {
    for (int repeat = 0; repeat < 40; ++repeat) {
      hung += InChild([&] {
                const Results<float> got = RunTraining(c, in);
                Case fresh = c;
                fresh.problem.N = 61;  // code that nobody has made yet
                RunTraining(fresh, Inputs<float>(fresh, 1));
                // Where a fork broke the library, our own products round otherwise.
                const bool same = BrokenByFork() || SameBits(got.dparams, expected.dparams);
                return same && SameBits(got.y, expected.y) ? 0 : 1;
              }) != 0;
    }
  });
  CHECK_EQ(hung, 0);
  SetNumThreads(0);
}

// A child's team has threads.
void TestThreadsOfAChild() {
  SetNumThreads(3);
  const auto present = [] {
    std::atomic<int> count{0};
    RunTeam(3, [&](int, int) {
      ++count;
      for (int i = 0; i < 20000 && count < 3; ++i) usleep(100);
    });
    return count.load();
  };
  CHECK_EQ(present(), 3);
  CHECK_EQ(InChild(present), 3);
  CHECK_EQ(InChild([&] { return InChild(present); }), 3);
  CHECK_EQ(InChild([] {
             SetNumThreads(2);
             return NumThreads();
           }),
           2);
  SetNumThreads(0);
}

std::vector<int> OwnMask() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof(mask), &mask);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

void Bind(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  CHECK_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
}

// Pool threads made by a bound thread run where the process may.
void TestMasks() {
  const std::vector<int> all = OwnMask();
  const auto masks_of_team = [] {
    std::atomic<int> count{0};
    std::vector<int> masks[3];
    RunTeam(3, [&](int thread, int) {
      masks[thread] = OwnMask();
      ++count;
      for (int i = 0; i < 20000 && count < 3; ++i) usleep(100);
    });
    CHECK(masks[1] == masks[2]);
    return masks[1];
  };
  CHECK(PassesInChild([&] {
    std::thread([&] {
      Bind(all.front());
      CHECK(masks_of_team() == all);
    }).join();
    CHECK_EQ(NumThreads() > 1, all.size() > 1);
  }));
  // A whole process on one core, as `taskset` makes it.
  CHECK(PassesInChild([&] {
    Bind(all.back());
    CHECK(masks_of_team() == std::vector<int>{all.back()});
    if (std::getenv("OMP_NUM_THREADS") == nullptr) CHECK_EQ(NumThreads(), 1);
  }));
}

// A hierarchy of groups in a folder of its own.
class Groups {
 public:
  Groups() { CHECK(mkdtemp(root_) != nullptr); }
  ~Groups() { CHECK_EQ(std::system((std::string("rm -r ") + root_).c_str()), 0); }
  std::string root() const { return root_; }
  void Write(const std::string& folder, const char* file, const char* text) const {
    CHECK_EQ(std::system((std::string("mkdir -p ") + root_ + folder).c_str()), 0);
    std::ofstream(root_ + folder + "/" + file) << text << "\n";
  }

 private:
  char root_[32] = "/tmp/fused_rnn_groups_XXXXXX";
};

void TestQuotas() {
  const Groups groups;
  groups.Write("/jobs", "cpu.max", "max 100000");
  groups.Write("/jobs/half", "cpu.max", "50000 100000");
  groups.Write("/jobs/more", "cpu.max", "350000 100000");
  groups.Write("/jobs/more/below", "cpu.max", "max 100000");
  groups.Write("/cpu,cpuacct/old", "cpu.cfs_quota_us", "200000");
  groups.Write("/cpu,cpuacct/old", "cpu.cfs_period_us", "100000");
  groups.Write("/cpu/plain", "cpu.cfs_quota_us", "-1");
  groups.Write("/cpu/plain", "cpu.cfs_period_us", "100000");
  groups.Write("/unified/both", "cpu.max", "120000 100000");
  const auto cores = [&](const char* membership) { return QuotaCores(membership, groups.root()); };
  CHECK_EQ(cores(""), 0);
  CHECK_EQ(cores("0::/\n"), 0);
  CHECK_EQ(cores("0::/jobs\n"), 0);
  CHECK_EQ(cores("0::/jobs/half\n"), 1);
  CHECK_EQ(cores("0::/jobs/more\n"), 4);  // rounded up
  CHECK_EQ(cores("0::/jobs/more/below\n"), 4);
  CHECK_EQ(cores("0::/not/there\n"), 0);
  CHECK_EQ(cores("3:memory:/old\n2:cpu,cpuacct:/old\n"), 2);
  CHECK_EQ(cores("2:cpu:/plain\n"), 0);
  CHECK_EQ(cores("3:cpuset:/old\n"), 0);
  CHECK_EQ(cores("2:cpu,cpuacct:/\n0::/both\n"), 2);
  CHECK_EQ(cores("nonsense\n1:cpu\n:::\n"), 0);
  groups.Write("", "cpu.max", "300000 100000");  // the root: a container's own group
  CHECK_EQ(cores("0::/of/the/host\n"), 3);
}

// Who calls, asked again and again whether to go on.
struct Asked {
  explicit Asked(int enough) : enough(enough) {}
  Interrupt interrupt() { return {&Asked::Answer, this}; }
  static bool Answer(void* context) {
    Asked& self = *static_cast<Asked*>(context);
    self.elsewhere += self.thread != std::this_thread::get_id();
    return ++self.times >= self.enough;
  }

  const std::thread::id thread = std::this_thread::get_id();
  const int enough;
  int times = 0, elsewhere = 0;
};

// Whether the call is ended, sooner or later: if other threads have done all the work before the
// caller comes to it, it is not asked.
template <typename Call>
bool Ends(const Call& call) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    try {
      call();
    } catch (const Interrupted&) {
      return true;
    }
  }
  return false;
}

// The caller is asked on its own thread, and every pass ends when it has had enough.
template <typename T>
void TestInterrupt(Mode mode, int64_t H) {
  Case c = TeamCase(mode, 400);
  c.problem.H = H;  // of 8 units one thread runs the steps
  const Inputs<T> in(c, 1);
  TrainingArgs<T> args(c, in);
  const Problem& problem = args.problem;
  for (int enough : {1, 5}) {
    Asked of_forward(enough), of_backward(enough), of_pack(1);
    args.forward.interrupt = of_forward.interrupt();
    CHECK(Ends([&] { Forward(problem, args.forward); }));
    CHECK_EQ(of_forward.times, enough);
    args.forward.interrupt = {};
    Forward(problem, args.forward);
    args.backward.interrupt = of_backward.interrupt();
    CHECK(Ends([&] { Backward(problem, args.backward); }));
    CHECK_EQ(of_backward.times, enough);
    CHECK_EQ(of_forward.elsewhere + of_backward.elsewhere, 0);
    CHECK(Ends([&] { PackedWeights(problem, in.params.data(), of_pack.interrupt()); }));
  }
  // A caller who never has enough changes nothing.
  const Results<T> expected = RunTraining(c, in);
  Asked patient(1 << 30);
  args.forward.interrupt = args.backward.interrupt = patient.interrupt();
  Forward(problem, args.forward);
  Backward(problem, args.backward);
  CheckSameOutputs(args.out, expected);
  CheckSameGradients(args.out, expected);
}

void TestInterrupt() {
  internal::cycles_between_questions = 1000;
  for (int threads : {1, 3}) {
    SetNumThreads(threads);
    for (int64_t H : {8, 110}) {
      Scope scope("threads %d, H %d", threads, static_cast<int>(H));
      TestInterrupt<float>(Mode::kGru, H);
      TestInterrupt<double>(Mode::kLstm, H);
      TestInterrupt<Float16>(Mode::kRnnTanh, H);
    }
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestMasks();  // first, with a process that has no pool yet
  TestQuotas();
  TestThreadsOfAChild();
  TestSettingsThatChange<float>();
  TestSettingsThatChange<double>();
  if (!FUSED_RNN_SANITIZED) TestForkWhileThreadsCompute();
  TestInterrupt();
  return TestResult();
}
