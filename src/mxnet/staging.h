// Outputs of a call that the core cannot write in place: it allows no overlap of an output with
// another array, and its forward cannot add.
#ifndef FUSED_RNN_SRC_MXNET_STAGING_H_
#define FUSED_RNN_SRC_MXNET_STAGING_H_

#include <mxnet/op_attr_types.h>

#include <vector>

#include "fused_rnn/memory.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {
namespace mx {

class Staging {
 public:
  // `account` counts the memory of what is staged.
  explicit Staging(MemoryAccount* account) : scratch_(MemoryKind::kWorkspace, account) {}

  void AddInput(const void* data, size_t bytes);

  // Returns the output's index. `core_adds`: the core can carry out kAddTo itself.
  int AddOutput(void* data, size_t bytes, mxnet::OpReqType request, bool core_adds);

  // An output that the core must have somewhere, though nobody asked for it.
  int AddUnwanted(size_t bytes);

  // To be called when all arrays are known.
  void Place();

  // Where and how the core writes an output; null for kNullOp.
  void* target(int output) const { return outputs_[output].target; }
  Request request(int output) const { return outputs_[output].request; }

  // Brings the staged outputs, of elements of an MXNet type, to where they belong.
  void Commit(int mxnet_type) const;

 private:
  struct Range {
    const char* begin;
    const char* end;
  };
  struct Output {
    char* data;
    size_t bytes;
    mxnet::OpReqType wanted;
    bool staged;
    Request request;
    void* target;
  };

  bool Overlaps(const Output& output) const;

  Buffer scratch_;
  std::vector<Range> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_STAGING_H_
