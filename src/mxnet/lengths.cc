#include "lengths.h"

#include <mshadow/base.h>
#include <mshadow/bfloat.h>

#include <limits>
#include <sstream>
#include <string>

#include "infer.h"

namespace fused_rnn {
namespace mx {
namespace {

// From `inexact` on, T does not hold every whole number. `Wide` holds every value of T.
template <class T, class Wide>
std::vector<int64_t> Read(const void* data, int64_t count, int64_t steps,
                          int64_t inexact = std::numeric_limits<int64_t>::max()) {
  std::vector<int64_t> lengths(count);
  for (int64_t row = 0; row < count; ++row) {
    const Wide given = static_cast<Wide>(static_cast<const T*>(data)[row]);
    // Written so that NaN fails; a value in the range can be converted.
    const bool in_range = given >= Wide{0} && given <= static_cast<Wide>(steps);
    if (in_range) lengths[row] = static_cast<int64_t>(given);
    if (!in_range || static_cast<Wide>(lengths[row]) != given) {
      std::ostringstream message;
      message << "sequence_length[" << row << "] is " << given
              << ", expected a whole number in [0, " << steps << "]";
      Fail(message.str());
    }
    // The type's largest exact value may stand for the next one, if that is allowed at all.
    if (lengths[row] >= inexact && steps > inexact) {
      Fail("sequence_length[" + std::to_string(row) + "] is " + std::to_string(lengths[row]) +
           " in a type that does not hold every whole number from " + std::to_string(inexact) +
           " on, so the length meant may be another; expected int32, int64 or float64 (a cast of "
           "the model, such as AMP's, must leave sequence_length out)");
    }
  }
  return lengths;
}

}  // namespace

std::vector<int64_t> ReadLengths(const void* data, int mxnet_type, int64_t count, int64_t steps) {
  switch (mxnet_type) {
    case mshadow::kFloat32:
      return Read<float, double>(data, count, steps, int64_t{1} << 24);
    case mshadow::kFloat64:
      return Read<double, double>(data, count, steps);
    case mshadow::kFloat16:
      return Read<mshadow::half::half_t, float>(data, count, steps, int64_t{1} << 11);
    case mshadow::kBfloat16:
      return Read<mshadow::bfloat::bf16_t, float>(data, count, steps, int64_t{1} << 8);
    case mshadow::kUint8:
      return Read<uint8_t, int64_t>(data, count, steps);
    case mshadow::kInt8:
      return Read<int8_t, int64_t>(data, count, steps);
    case mshadow::kInt32:
      return Read<int32_t, int64_t>(data, count, steps);
    case mshadow::kInt64:
      return Read<int64_t, int64_t>(data, count, steps);
    default:
      Fail(std::string("sequence_length has type ") + TypeName(mxnet_type) +
           ", expected an integer or floating-point type");
  }
}

}  // namespace mx
}  // namespace fused_rnn
