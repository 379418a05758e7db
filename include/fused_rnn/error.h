// How a call ends other than by its result: what it throws, and how its caller ends it.
#ifndef FUSED_RNN_ERROR_H_
#define FUSED_RNN_ERROR_H_

#include <cstddef>
#include <new>
#include <stdexcept>

#define FUSED_RNN_API __attribute__((visibility("default")))

namespace fused_rnn {

// Thrown for every rejected argument; what() names the argument, what was expected and what came.
// std::runtime_error, so that the message crosses libraries built with either of libstdc++'s string
// layouts.
class FUSED_RNN_API Error : public std::runtime_error {
 public:
  explicit Error(const char* message);
  ~Error() override;
};

// Thrown where memory lacks; what() says how much was wanted.
class FUSED_RNN_API OutOfMemory : public std::bad_alloc {
 public:
  // `purpose`: what it was for. bytes: 0 where that is not known.
  OutOfMemory(const char* purpose, size_t bytes);
  ~OutOfMemory() override;
  const char* what() const noexcept override { return message_; }

 private:
  char message_[128];
};

// Thrown by a call whose caller wanted it to end (`Interrupt`).
class FUSED_RNN_API Interrupted : public Error {
 public:
  Interrupted();
  ~Interrupted() override;
};

// How a caller ends a long call: `requested(context)` is called now and then (not more than about
// ten times a second) on the thread that made the call; once it returns true, the call throws
// Interrupted within milliseconds. Its outputs, gradients to be added to included, then hold
// anything. `requested` must not throw. Null: the call cannot be ended.
struct Interrupt {
  bool (*requested)(void* context) = nullptr;
  void* context = nullptr;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_ERROR_H_
