// Tests that need a process of their own.
#ifndef FUSED_RNN_TESTS_CPP_CHILD_H_
#define FUSED_RNN_TESTS_CPP_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "check.h"

// Whether a sanitizer's allocator serves the process: it holds its locks across a fork and reserves
// more addresses than a limit may allow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FUSED_RNN_SANITIZED 1
#else
#define FUSED_RNN_SANITIZED 0
#endif

namespace fused_rnn {

// Calls body() in a forked child; the exit code, or -1 if it was killed, as one that hangs is.
template <typename Body>
int InChild(const Body& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    const int code = body();
    std::fflush(stdout);
    _exit(code);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Runs checks in a forked child; whether none of them failed there.
template <typename Body>
bool PassesInChild(const Body& body) {
  return InChild([&] {
           const int64_t before = Checks().failures;
           body();
           return Checks().failures > before ? 1 : 0;
         }) == 0;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_CHILD_H_
