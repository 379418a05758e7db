// The processors that this process may use.
#ifndef FUSED_RNN_BASE_PROCESSORS_H_
#define FUSED_RNN_BASE_PROCESSORS_H_

#include <string>

namespace fused_rnn {

// Physical cores among the processors of the process's mask (`taskset`, cpusets), but no more than
// its CPU quota gives it (cgroups); at least 1. A second hyperthread adds nothing to multiply-adds
// that fill the core.
int UsableCores();

// Lets the calling thread run on all processors of the process's mask. A new thread begins with the
// mask of the one that made it, which may be bound to a single core (OMP_PROC_BIND binds a
// program's first thread).
void UseProcessMask();

// The CPU quota in whole cores, rounded up, or 0 for none: the smallest of the process's groups.
// `membership` is the text of /proc/self/cgroup, `mounts` the folder where the hierarchies are
// mounted (/sys/fs/cgroup); version 2 (cpu.max) and 1 (cpu.cfs_quota_us) are read.
int QuotaCores(const std::string& membership, const std::string& mounts);

}  // namespace fused_rnn

#endif  // FUSED_RNN_BASE_PROCESSORS_H_
