#include "base/check.h"

#include <cstdarg>
#include <cstdio>

namespace fused_rnn {

Error::Error(const char* message) : std::runtime_error(message) {}
Error::~Error() = default;

OutOfMemory::OutOfMemory(const char* purpose, size_t bytes) {
  if (bytes == 0) {
    std::snprintf(message_, sizeof(message_), "out of memory for %s", purpose);
  } else {
    std::snprintf(message_, sizeof(message_), "out of memory: no %zu bytes for %s", bytes, purpose);
  }
}
OutOfMemory::~OutOfMemory() = default;

Interrupted::Interrupted() : Error("interrupted") {}
Interrupted::~Interrupted() = default;

void Fail(const char* format, ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  throw Error(message);
}

}  // namespace fused_rnn
