#include "base/processors.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

namespace fused_rnn {
namespace {

// A set of processors; the kernel may have more than a cpu_set_t holds.
class Mask {
 public:
  static constexpr int kMost = 8192;

  bool Has(int cpu) const { return CPU_ISSET_S(cpu, sizeof(sets_), sets_) != 0; }
  void Add(int cpu) {
    if (cpu >= 0 && cpu < kMost) CPU_SET_S(cpu, sizeof(sets_), sets_);
  }
  bool Read(pid_t thread) { return sched_getaffinity(thread, sizeof(sets_), sets_) == 0; }
  void ApplyToCaller() const { sched_setaffinity(0, sizeof(sets_), sets_); }

 private:
  cpu_set_t sets_[kMost / CPU_SETSIZE] = {};
};

// What the process was given, not what its calling thread is bound to. That is the mask of its
// first thread, unless OpenMP has bound that one; then OpenMP's places know.
bool ReadProcessMask(Mask* mask) {
  if (omp_get_proc_bind() == omp_proc_bind_false || omp_get_num_places() == 0)
    return mask->Read(getpid());
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> cpus(omp_get_place_num_procs(place));
    omp_get_place_proc_ids(place, cpus.data());
    for (int cpu : cpus) mask->Add(cpu);
  }
  return true;
}

// The lowest-numbered hyperthread of a processor's core, from a file that reads like "0,4" or
// "0-1"; the processor itself if the system does not tell.
int FirstSibling(int cpu) {
  char path[96];
  std::snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                cpu);
  int first;
  return std::ifstream(path) >> first ? first : cpu;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// `quota` microseconds of processor time every `period`, as text; "max" and -1 are none.
int CoresOf(const std::string& quota, const std::string& period) {
  const double share = std::atof(quota.c_str()), length = std::atof(period.c_str());
  return share > 0 && length > 0 ? static_cast<int>(std::ceil(share / length)) : 0;
}

int CoresOfGroup(bool version2, const std::string& folder) {
  if (!version2)
    return CoresOf(ReadFile(folder + "/cpu.cfs_quota_us"), ReadFile(folder + "/cpu.cfs_period_us"));
  std::istringstream words(ReadFile(folder + "/cpu.max"));
  std::string quota, period;
  words >> quota >> period;
  return CoresOf(quota, period);
}

bool HasCpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

// A group and those above it, whose limits hold for it too; the root is empty.
std::vector<std::string> WithParents(std::string group) {
  std::vector<std::string> groups;
  for (; group.size() > 1; group.resize(group.rfind('/'))) groups.push_back(group);
  groups.emplace_back();
  return groups;
}

}  // namespace

int QuotaCores(const std::string& membership, const std::string& mounts) {
  int fewest = 0;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:/group
    const size_t first = line.find(':'), second = line.find(":/", first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (!version2 && !HasCpu(controllers)) continue;
    // "unified": version 2 beside hierarchies of version 1.
    const std::vector<std::string> roots = {mounts + "/" + controllers,
                                            mounts + (version2 ? "/unified" : "/cpu")};
    // In a container the path may be the host's, of folders that are not there, and the root of the
    // hierarchy the container's own group.
    for (const std::string& group : WithParents(line.substr(second + 1))) {
      for (const std::string& root : roots) {
        const int cores = CoresOfGroup(version2, root + group);
        if (cores > 0 && (fewest == 0 || cores < fewest)) fewest = cores;
      }
    }
  }
  return fewest;
}

int UsableCores() {
  Mask mask;
  if (!ReadProcessMask(&mask)) return std::max(1, omp_get_num_procs());
  std::set<int> cores;
  for (int cpu = 0; cpu < Mask::kMost; ++cpu) {
    if (mask.Has(cpu)) cores.insert(FirstSibling(cpu));
  }
  const int usable = std::max(1, static_cast<int>(cores.size()));
  const int quota = QuotaCores(ReadFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  return quota > 0 ? std::min(usable, quota) : usable;
}

void UseProcessMask() {
  Mask mask;
  if (ReadProcessMask(&mask)) mask.ApplyToCaller();
}

}  // namespace fused_rnn
