// Calls from Python: without the interpreter's lock while they compute, ended by Ctrl-C, and
// harmless at the process's end.
#ifndef FUSED_RNN_PYBIND_CALLS_H_
#define FUSED_RNN_PYBIND_CALLS_H_

#include <pybind11/pybind11.h>

#include <exception>

#include "fused_rnn/error.h"

namespace fused_rnn {

// One call, as long as it is alive; made first in a bound function. When the interpreter ends, it
// stops threads that still run (daemon threads) wherever they next ask for its lock, and unwinds
// them as they stand. So before it ends, calls in flight are made to end, and calls that other
// threads begin then never return (`WaitForCalls`).
class Call {
 public:
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // body(interrupt) without the interpreter's lock. An exception of it, and in the main thread one
  // of a signal's handler (KeyboardInterrupt), comes out here.
  template <typename Body>
  void Compute(const Body& body) {
    Unlock();
    std::exception_ptr failure;
    try {
      body(Interrupt{&Call::IsUnwanted, this});
    } catch (...) {
      failure = std::current_exception();
    }
    Lock();
    if (failure && PyErr_Occurred() == nullptr) std::rethrow_exception(failure);
    if (failure) throw pybind11::error_already_set();
  }

 private:
  void Unlock() { state_ = PyEval_SaveThread(); }
  void Lock();
  // For `Interrupt`: whether a signal wants to be handled, or the process to end.
  static bool IsUnwanted(void* call);

  PyThreadState* state_ = nullptr;
};

// For Python's atexit: returns when no other thread is in a call, and none will be.
void WaitForCalls();

}  // namespace fused_rnn

#endif  // FUSED_RNN_PYBIND_CALLS_H_
