// What the operator's attributes mean: positions of inputs and outputs, the core's problem, shapes,
// types and storage.
#ifndef FUSED_RNN_SRC_MXNET_INFER_H_
#define FUSED_RNN_SRC_MXNET_INFER_H_

#include <mxnet/op_attr_types.h>

#include <string>
#include <vector>

#include "abi.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {
namespace mx {

// MXNet's name of one of its types.
const char* TypeName(int mxnet_type);

// Throws fused_rnn::Error.
[[noreturn]] void Fail(const std::string& message);

constexpr int kAbsent = -1;

// Positions among the inputs and outputs of the operator, and among the outputs of its backward,
// which follow the inputs.
struct ForwardSlots {
  explicit ForwardSlots(const abi::RnnParam& param);

  int x = 0, params = 1, h0 = 2, c0 = kAbsent, lengths = kAbsent;
  int inputs = 3;
  int y = 0, hN = kAbsent, cN = kAbsent;
  int outputs = 1;
};

// Positions among the inputs of the backward: the order in which the native gradient gives them,
// and then our lengths.
struct BackwardSlots {
  explicit BackwardSlots(const abi::RnnParam& param);

  int x = 0, params = 1, h0 = 2, y = 3, dy = 4;
  int dhN = kAbsent, c0 = kAbsent, dcN = kAbsent, lengths = kAbsent;
  int inputs = 5;
};

// The problem without its sizes T, N, I, its type and its dropout. Rejects attributes that
// contradict each other.
//
// A cell that operator RNN lacks is told by the attribute __fused_rnn_cell__ beside the `mode` of
// its kin: "lstm_peephole" with mode "lstm". MXNet's parser lets such names through, and files keep
// them.
Problem ProblemOf(const nnvm::NodeAttrs& attrs);

// S, the size of a hidden state.
inline int64_t StateSize(const Problem& problem) { return problem.P > 0 ? problem.P : problem.H; }

// The core's name of an MXNet type. Rejects types of which there are no recurrent layers.
DType DTypeOf(int mxnet_type);

// The operator's attributes FInferShape, FInferType and FInferStorageType (the latter serves the
// backward too).
bool InferShape(const nnvm::NodeAttrs& attrs, mxnet::ShapeVector* inputs,
                mxnet::ShapeVector* outputs);
bool InferType(const nnvm::NodeAttrs& attrs, std::vector<int>* inputs, std::vector<int>* outputs);
bool InferStorage(const nnvm::NodeAttrs& attrs, int device, mxnet::DispatchMode* mode,
                  std::vector<int>* inputs, std::vector<int>* outputs);

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_INFER_H_
