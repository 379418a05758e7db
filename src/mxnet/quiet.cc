#include "quiet.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

namespace fused_rnn {
namespace mx {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::microseconds kPause{200};

// How often each thread has gone to sleep so far.
using Sleeps = std::map<long, long>;

// Whether a thread sleeps (or has ended), and how often it went to sleep so far.
bool IsAsleep(long thread, long* sleeps) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/status";
  std::FILE* file = std::fopen(path.c_str(), "r");
  *sleeps = 0;
  if (file == nullptr) return true;
  char line[256];
  char state = 'S';
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    std::sscanf(line, "State: %c", &state);
    std::sscanf(line, "voluntary_ctxt_switches: %ld", sleeps);
  }
  std::fclose(file);
  return state != 'R' && state != 'D';
}

// Whether all threads but this one sleep, one look after another.
bool AllSleep(Sleeps* all) {
  all->clear();
  DIR* threads = opendir("/proc/self/task");
  if (threads == nullptr) return true;  // nobody can tell
  const long self = syscall(SYS_gettid);
  bool asleep = true;
  while (const dirent* entry = readdir(threads)) {
    const long thread = std::atol(entry->d_name);
    if (thread == 0 || thread == self) continue;  // "." and ".." are 0
    asleep = asleep && IsAsleep(thread, &(*all)[thread]);
  }
  closedir(threads);
  return asleep;
}

}  // namespace

bool WaitUntilOthersSleep() {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  Sleeps before, after;
  while (std::chrono::steady_clock::now() < end) {
    // A thread that sleeps in both rounds and did not go to sleep between them slept throughout,
    // and so did all of them, between the rounds.
    if (AllSleep(&before) && AllSleep(&after) && before == after) return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace mx
}  // namespace fused_rnn
