// A forward and its backward, with all that lies between them: what a front end calls whose caller
// holds arrays only.
//
// A `Session` leases the workspace of each call, keeps the reserve from a forward to its backward,
// and remembers what that forward computed from (`Stamp`), because between the two the caller may
// change arrays or run another backward. By the contents of the arrays it decides whether the
// reserve still serves. Where it does not, the backward computes its forward again, with the same
// dropout masks; where these are lost, it refuses.
#ifndef FUSED_RNN_SESSION_H_
#define FUSED_RNN_SESSION_H_

#include <cstdint>

#include "fused_rnn/memory.h"
#include "fused_rnn/rnn.h"

namespace fused_rnn {

// Hashes of the contents of a call's inputs (measure.h, HashBytes); 0 for those that do not exist.
struct InputHashes {
  uint64_t x = 0, params = 0, h0 = 0, c0 = 0, lengths = 0;

  bool operator==(const InputHashes& other) const {
    return x == other.x && params == other.params && h0 == other.h0 && c0 == other.c0 &&
           lengths == other.lengths;
  }
};

// Of the arguments of a forward to come. Throws Error for a problem that is not valid and for null.
FUSED_RNN_API InputHashes HashInputs(const Problem& problem, const ForwardArgs& args);

// What tells a forward from every other one.
struct Stamp {
  Problem problem;  // its dropout is 0 if nothing was dropped
  uint64_t dropout_seed = 0;
  // Whether contents were hashed: a backward may come, to which the hashes will tell what changed.
  bool hashed = false;
  InputHashes inputs;
  uint64_t y = 0;

  // Whether it was hashed and had these inputs, in these sizes and this type. Of the problem only
  // T, N, I and dtype are compared.
  FUSED_RNN_API bool Fits(const Problem& with, const InputHashes& hashes) const;
};

// What a forward leaves.
enum class Keep : int {
  kNothing,  // of a prediction
  kStamp,    // its backward computes it again
  kReserve,  // for its backward
};

// The calls of one session come one after another, from any threads. Sessions are independent of
// each other.
class FUSED_RNN_API Session {
 public:
  // `account` counts workspaces and reserve; null: nobody does.
  explicit Session(MemoryAccount* account = nullptr)
      : account_(account), reserve_(MemoryKind::kReserve, account) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Makes the stamp one that fits nothing, so that a backward computes its forward again.
  void Forget() { stamp_.hashed = false; }

  // fused_rnn::Forward, which see. `args` needs no workspace, and its reserve is ignored. Elements
  // drop if `problem.dropout` is not 0, whatever is kept.
  // `inputs`: what HashInputs says of the arguments, if the caller has asked already; else null.
  // Throws what fused_rnn::Forward throws; the session then knows no forward.
  void Forward(const Problem& problem, ForwardArgs args, Keep keep,
               const InputHashes* inputs = nullptr);

  // fused_rnn::Backward of the latest forward, or, if that had other inputs or another output, of
  // the one that these inputs belong to. `args` needs no workspace, and its reserve is ignored;
  // `problem.dropout` is the rate with which forwards of this layer may have dropped. The reserve
  // ends with the call: a second backward of one forward, which is rare, computes it anew.
  // Throws what fused_rnn::Backward throws (the reserve stays then); and Error if an input has
  // changed since a forward that dropped elements, whose masks do not belong to the inputs at hand.
  void Backward(Problem problem, BackwardArgs args);

  // That of the latest forward.
  const Stamp& stamp() const { return stamp_; }
  // Whether a reserve waits for its backward.
  bool has_reserve() const { return reserve_is_whole_; }

 private:
  void Run(const Problem& problem, ForwardArgs args, bool training);
  void Recompute(Problem* problem, const BackwardArgs& args, bool same_inputs, void* y);

  MemoryAccount* account_;
  Stamp stamp_;
  Buffer reserve_;
  bool reserve_is_whole_ = false;  // it holds what the stamp's forward left
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_SESSION_H_
