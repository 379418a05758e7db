#include "base/check.h"

#include <cstdarg>
#include <cstdio>

namespace fused_rnn {

Error::Error(const char* message) : std::runtime_error(message) {}
Error::~Error() = default;

void Fail(const char* format, ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  throw Error(message);
}

}  // namespace fused_rnn
