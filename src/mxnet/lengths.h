// The input `sequence_length`.
#ifndef FUSED_RNN_SRC_MXNET_LENGTHS_H_
#define FUSED_RNN_SRC_MXNET_LENGTHS_H_

#include <cstdint>
#include <vector>

namespace fused_rnn {
namespace mx {

// Reads `count` lengths of an MXNet type. Throws fused_rnn::Error that names the first row whose
// length is not a whole number in [0, steps], or may be another than was meant: in a type of few
// bits, such as float16 above 2048.
std::vector<int64_t> ReadLengths(const void* data, int mxnet_type, int64_t count, int64_t steps);

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_LENGTHS_H_
