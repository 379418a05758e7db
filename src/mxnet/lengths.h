// The input `sequence_length`.
#ifndef FUSED_RNN_SRC_MXNET_LENGTHS_H_
#define FUSED_RNN_SRC_MXNET_LENGTHS_H_

#include <cstdint>
#include <vector>

namespace fused_rnn {
namespace mx {

// Reads `count` lengths of an MXNet type. Throws fused_rnn::Error that names the first row whose
// length is not a whole number in [0, steps].
std::vector<int64_t> ReadLengths(const void* data, int mxnet_type, int64_t count, int64_t steps);

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_LENGTHS_H_
