// Packed weights of predictions, kept from call to call.
//
// A prediction of a few steps packs its weights for as long as it computes with them, and the next
// one most often has the same. Nothing tells for certain that nobody has written to an array since
// (a framework's counts miss writes through other libraries, and an address says nothing), so the
// contents decide: their hash is the key. Reading the weights for it costs a third of packing them.
#ifndef FUSED_RNN_SESSION_PACK_CACHE_H_
#define FUSED_RNN_SESSION_PACK_CACHE_H_

#include <memory>

#include "fused_rnn/rnn.h"

namespace fused_rnn {

// The packed weights of a prediction, or null where it is to do without: packing does not pay, or
// would be a small part of the call, or these weights are met for the first time, and may change
// before each call. Any number of threads may ask. Throws what PackedWeights throws, and Error for
// a bad FUSED_RNN_PACK_CACHE_MB in the environment.
std::shared_ptr<const PackedWeights> FindPackedWeights(const Problem& problem, const void* params,
                                                       const Interrupt& interrupt);

}  // namespace fused_rnn

#endif  // FUSED_RNN_SESSION_PACK_CACHE_H_
