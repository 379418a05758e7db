// What the states of a graph's nodes know of each other: of which node one is the copy.
#ifndef FUSED_RNN_SRC_MXNET_RECORD_H_
#define FUSED_RNN_SRC_MXNET_RECORD_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "abi.h"
#include "fused_rnn/session.h"

namespace fused_rnn {
namespace mx {

struct Record {
  Record(std::string node, abi::Order calls) : name(std::move(node)), order(std::move(calls)) {}

  const std::string name;  // of the node; imperative calls have none
  const abi::Order order;  // of the calls that read and write this
  // Copies of the node that compute it again for the backward (see OriginalOf). Of several, all but
  // one belong to another node of the same name.
  std::atomic<int> copies{0};

  Stamp stamp;  // of the node's latest forward
};

// Memory mirroring (MXNET_BACKWARD_DO_MIRROR, __force_mirroring__): MXNet puts a copy of a node
// into the backward graph, to compute it again there instead of keeping what it gave. The original
// of a node, if its name is that of a copy, else null. A state's copy is made by the same thread,
// after it: an executor makes the states of its graph one after another.
std::shared_ptr<Record> OriginalOf(const std::string& node);

// Makes the record of a node's state to be.
std::shared_ptr<Record> MakeRecord(const std::string& node, Record* original);

}  // namespace mx
}  // namespace fused_rnn

#endif  // FUSED_RNN_SRC_MXNET_RECORD_H_
