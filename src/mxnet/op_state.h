// The state of one operator: a session of the core's, and what of a call is MXNet's own.
#ifndef FUSED_RNN_SRC_MXNET_OP_STATE_H_
#define FUSED_RNN_SRC_MXNET_OP_STATE_H_

#include <mxnet/op_attr_types.h>

#include <memory>
#include <vector>

#include "abi.h"
#include "fused_rnn/memory.h"
#include "fused_rnn/session.h"
#include "infer.h"
#include "record.h"

namespace fused_rnn {
namespace mx {

// An array of a call.
struct Tensor {
  void* data = nullptr;
  mxnet::TShape shape;
  int64_t size = 0;
  int type = 0;
};

class OpState {
 public:
  // The state of a node; `original` is that of which the node is a copy, or null.
  OpState(const nnvm::NodeAttrs& attrs, std::shared_ptr<Record> record,
          std::shared_ptr<Record> original);
  ~OpState();
  OpState(const OpState&) = delete;
  OpState& operator=(const OpState&) = delete;

  using Tensors = std::vector<Tensor>;
  using Requests = std::vector<mxnet::OpReqType>;

  // Inputs and outputs are placed as ForwardSlots and BackwardSlots say; outputs of request kNullOp
  // may be empty. MXNet runs one call on a state at a time.
  void Forward(const mxnet::OpContext& ctx, const Tensors& inputs, const Requests& requests,
               const Tensors& outputs);
  void Backward(const Tensors& inputs, const Requests& requests, const Tensors& outputs);

  // Whether forwards of this process keep no reserve from now on, so that each backward computes
  // its forward again. Returns the former setting.
  static bool SetRecompute(bool on);

  // Whether `state`, which is an OpState or one of the native operator's, is an OpState. The latter
  // come here when the operator is replaced while they live.
  static bool IsOne(const void* state);
  static int64_t LiveCount();
  // Counts the workspaces and reserves of all states.
  static MemoryAccount memory;

 private:
  // The first member: no state of the native operator, whose first words are sizes, begins so.
  const void* const mark_[2];

  Problem ProblemFor(const Tensor& x) const;
  const Stamp& Original(const Problem& problem, const InputHashes& hashes) const;
  bool ExpectsBackward(bool need_grad, bool is_train) const;

  const abi::RnnParam param_;
  const Problem problem_;  // without sizes, type and dropout
  const ForwardSlots slots_;
  const BackwardSlots backward_slots_;
  const std::shared_ptr<Record> record_;
  const std::shared_ptr<const Record> original_;
  Session session_{&memory};
  int forwards_in_vain_ = 0;  // with a reserve, since the last backward
  bool was_denied_ = false;   // a backward has come for a forward of which none was expected
};

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_OP_STATE_H_
