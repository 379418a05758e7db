// OpenMP's threads, which serve MXNet's other operators.
#ifndef FUSED_RNN_SRC_MXNET_OPENMP_H_
#define FUSED_RNN_SRC_MXNET_OPENMP_H_

namespace fused_rnn {
namespace mx {

// Ends the OpenMP threads that wait for the calling thread's next parallel region, if a call of
// `work` multiply-adds is long enough for that to pay. After each region they look out for the next
// for some milliseconds without sleeping, on the very cores that our threads are about to need. The
// next region makes new ones. Does nothing in a forked process.
void EndIdleThreads(double work);

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_OPENMP_H_
