// Argument checks at the library's boundary.
#ifndef FUSED_RNN_BASE_CHECK_H_
#define FUSED_RNN_BASE_CHECK_H_

#include "fused_rnn/error.h"

namespace fused_rnn {

// Throws Error with a printf-formatted message (cut at 511 bytes).
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace fused_rnn

// The message names the argument, what was expected and what came.
#define FUSED_RNN_CHECK(condition, ...)               \
  do {                                                \
    if (!(condition)) ::fused_rnn::Fail(__VA_ARGS__); \
  } while (0)

#endif  // FUSED_RNN_BASE_CHECK_H_
