// What is measured about calls, their arrays and the processor; for benchmarks and front ends.
#ifndef FUSED_RNN_MEASURE_H_
#define FUSED_RNN_MEASURE_H_

#include <cstddef>
#include <cstdint>

#include "fused_rnn/error.h"

namespace fused_rnn {

enum class DType : int;  // rnn.h

// Where the time went between StartProfile and StopProfile, over all calls of the process: seconds,
// summed over threads, but for `elapsed`. Not to be started twice at a time.
struct Profile {
  double elapsed;
  double packing;
  double input_products;      // W x in the forward
  double recurrent_products;  // with R and Wp, forward and backward
  double gates;
  double waiting;         // for other threads at the end of phases
  double large_products;  // gradients of weights and inputs
};
FUSED_RNN_API void StartProfile();
FUSED_RNN_API Profile StopProfile();

// A hash of memory, the same on any number of threads: tells whether a tensor has changed between a
// forward and its backward.
FUSED_RNN_API uint64_t HashBytes(const void* data, size_t bytes);

// Multiply-adds (as 2 operations each) that `threads` threads (0 = NumThreads()) do per second with
// operands in registers, in GFLOP/s: the roof that benchmarks divide by. Runs for about `seconds`.
// Float32 or float64.
FUSED_RNN_API double MeasureFmaPeak(DType dtype, int threads, double seconds,
                                    const Interrupt& interrupt = {});

// GB/s at which `threads` threads (0 = NumThreads()) together read a buffer of `bytes` again and
// again, each its own part of it, as the recurrent weights are read at every step. The size decides
// which cache, or main memory, it is the bandwidth of.
FUSED_RNN_API double MeasureReadBandwidth(size_t bytes, int threads, double seconds,
                                          const Interrupt& interrupt = {});

}  // namespace fused_rnn

#endif  // FUSED_RNN_MEASURE_H_
