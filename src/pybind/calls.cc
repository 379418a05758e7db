#include "calls.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace fused_rnn {
namespace {

std::atomic<int> g_calls{0};
std::atomic<bool> g_ending{false};
pthread_t g_ending_thread;

// The calls of the parent's other threads do not go on in a child.
const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] { g_calls = 0; });

bool HasEndedFor(pthread_t thread) {
  return g_ending.load() && pthread_equal(thread, g_ending_thread) == 0;
}

// Python runs signals' handlers in its first thread alone.
bool IsMainThread() { return syscall(SYS_gettid) == getpid(); }

// Without the interpreter's lock.
[[noreturn]] void SleepUntilTheProcessEnds() {
  for (;;) pause();
}

}  // namespace

Call::Call() {
  if (HasEndedFor(pthread_self())) {
    Unlock();
    SleepUntilTheProcessEnds();
  }
  ++g_calls;
}

Call::~Call() { --g_calls; }

void Call::Lock() {
  if (HasEndedFor(pthread_self())) {
    --g_calls;
    SleepUntilTheProcessEnds();
  }
  PyEval_RestoreThread(state_);
}

bool Call::IsUnwanted(void* call) {
  if (HasEndedFor(pthread_self())) return true;
  if (!IsMainThread()) return false;
  Call& self = *static_cast<Call*>(call);
  PyEval_RestoreThread(self.state_);
  const bool raised = PyErr_CheckSignals() != 0;  // the exception stays in the thread's state
  self.Unlock();
  return raised;
}

void WaitForCalls() {
  g_ending_thread = pthread_self();
  g_ending = true;
  while (g_calls > 0) {
    pybind11::gil_scoped_release release;
    usleep(1000);
  }
}

}  // namespace fused_rnn
