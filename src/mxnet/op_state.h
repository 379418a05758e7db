// The state of one operator: what a forward leaves for its backward. Memory that dies with a call
// is not kept here, so that all states work in the same.
#ifndef FUSED_RNN_SRC_MXNET_OP_STATE_H_
#define FUSED_RNN_SRC_MXNET_OP_STATE_H_

#include <mxnet/op_attr_types.h>

#include <vector>

#include "abi.h"
#include "buffer.h"
#include "fused_rnn/rnn.h"
#include "infer.h"

namespace fused_rnn {
namespace mx {

// An array of a call. `variable` and `version` tell whether MXNet wrote it between two calls; a
// dense copy that MXNet made of another array has none.
struct Tensor {
  void* data = nullptr;
  mxnet::TShape shape;
  int64_t size = 0;
  int type = 0;
  const void* variable = nullptr;
  size_t version = 0;
};

class OpState {
 public:
  explicit OpState(const abi::RnnParam& param);
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

  // Whether `state` is a live OpState. States of the native operator come here when it is replaced
  // while they live.
  static bool IsLive(const void* state);
  static int64_t LiveCount();

 private:
  // What an input was at some time.
  struct Stamp {
    const void* data = nullptr;
    const void* variable = nullptr;
    size_t version = 0;
    uint64_t hash = 0;
  };
  static Stamp StampOf(const Tensor& tensor);
  static bool IsUnchanged(const Stamp& stamp, const Tensor& tensor);

  // The forward that wrote the reserve.
  struct Recorded {
    bool valid = false;
    Problem problem;
    uint64_t dropout_seed = 0;
    std::vector<int64_t> lengths;
    Stamp x, params, h0, c0;
    const void* y = nullptr;
  };

  Problem ProblemFor(const Tensor& x) const;
  bool IsRecorded(const Problem& problem, const std::vector<int64_t>& lengths,
                  const BackwardArgs& args, const Tensors& inputs) const;
  void RunForward(const Problem& problem, ForwardArgs args, bool training);
  void Recompute(Problem* problem, const BackwardArgs& args, void* y, size_t y_bytes);

  const abi::RnnParam param_;
  const ForwardSlots slots_;
  const BackwardSlots backward_slots_;
  Recorded recorded_;
  Buffer reserve_{BufferKind::kReserve};
};

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_OP_STATE_H_
