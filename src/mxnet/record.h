// What is kept of a state's last forward, besides its reserve.
#ifndef FUSED_RNN_SRC_MXNET_RECORD_H_
#define FUSED_RNN_SRC_MXNET_RECORD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {
namespace mx {

// Contents of the inputs of a call.
struct InputHashes {
  uint64_t x = 0, params = 0, h0 = 0, c0 = 0;

  bool operator==(const InputHashes& other) const {
    return x == other.x && params == other.params && h0 == other.h0 && c0 == other.c0;
  }
};

struct Record {
  Record(std::string node, abi::Order calls) : name(std::move(node)), order(std::move(calls)) {}

  const std::string name;  // of the node; imperative calls have none
  const abi::Order order;  // of the calls that read and write this
  // Copies of the node that compute it again for the backward (see OriginalOf). Of several, all but
  // one belong to another node of the same name.
  std::atomic<int> copies{0};

  Problem problem;
  std::vector<int64_t> lengths;
  uint64_t dropout_seed = 0;
  // Whether a backward may come, to which the hashes will tell what has changed.
  bool hashed = false;
  InputHashes inputs;
  uint64_t y = 0;
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
