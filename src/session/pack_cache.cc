#include "session/pack_cache.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <new>

#include "base/check.h"
#include "fused_rnn/measure.h"
#include "fused_rnn/session.h"

namespace fused_rnn {
namespace {

// With more rows than this, packing is less than a twentieth of the call.
constexpr int64_t kMostRows = 1024;
// Weights that were met once and are not packed yet are remembered up to this number.
constexpr size_t kMostStrangers = 64;
constexpr double kDefaultLimit = 512;  // MB

// What packed weights are made of.
struct Key {
  Problem problem;
  const char* isa;
  uint64_t hash;

  bool operator==(const Key& other) const {
    const Problem &a = problem, &b = other.problem;
    return hash == other.hash && isa == other.isa && a.mode == b.mode && a.dtype == b.dtype &&
           a.I == b.I && a.H == b.H && a.L == b.L && a.D == b.D && a.P == b.P;
  }
};

// Bytes of packed weights to keep at most. Throws Error for what is no number.
size_t Limit() {
  static const size_t limit = [] {
    const char* text = std::getenv("FUSED_RNN_PACK_CACHE_MB");
    double megabytes = kDefaultLimit;
    if (text != nullptr && *text != '\0') {
      char* end = nullptr;
      megabytes = std::strtod(text, &end);
      FUSED_RNN_CHECK(*end == '\0' && megabytes >= 0 && megabytes <= 1e9,
                      "FUSED_RNN_PACK_CACHE_MB: expected a number from 0 to 1e9, got '%s'", text);
    }
    return static_cast<size_t>(megabytes * (1 << 20));
  }();
  return limit;
}

class PackCache {
 public:
  // The weights of `key`, if they are here. Else `known` tells whether they were met before.
  std::shared_ptr<const PackedWeights> Find(const Key& key, bool* known) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!(entry->key == key)) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->packed;
    }
    *known = false;
    for (auto stranger = strangers_.begin(); stranger != strangers_.end(); ++stranger) {
      if (!(*stranger == key)) continue;
      *known = true;
      strangers_.erase(stranger);
      return nullptr;
    }
    strangers_.push_front(key);
    if (strangers_.size() > kMostStrangers) strangers_.pop_back();
    return nullptr;
  }

  void Add(const Key& key, std::shared_ptr<const PackedWeights> packed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.key == key) return;  // another thread was faster
    }
    bytes_ += packed->bytes();
    entries_.push_front({key, std::move(packed)});
    while (bytes_ > Limit()) DropOldest();
  }

  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!entries_.empty()) DropOldest();
    strangers_.clear();
  }

  size_t bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const PackedWeights> packed;
  };

  void DropOldest() {
    bytes_ -= entries_.back().packed->bytes();
    entries_.pop_back();
  }

  std::mutex mutex_;
  std::list<Entry> entries_;  // the one that was used last is the first
  std::list<Key> strangers_;
  size_t bytes_ = 0;
};

// Never ended, for calls may come while the process ends. A thread of a parent may have held the
// lock, so a child makes a new one.
std::atomic<PackCache*> cache{new PackCache};

void RenewCache() {
  if (PackCache* renewed = new (std::nothrow) PackCache) cache = renewed;
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, RenewCache);

}  // namespace

std::shared_ptr<const PackedWeights> FindPackedWeights(const Problem& problem, const void* params,
                                                       const Interrupt& interrupt) {
  if (problem.T * problem.N > kMostRows || !ForwardPacks(problem)) return nullptr;
  const size_t bytes = ParamCount(problem) * ElementBytes(problem.dtype);
  if (bytes > Limit()) return nullptr;
  const Key key{problem, IsaName(), HashBytes(params, bytes)};
  bool known = false;
  std::shared_ptr<const PackedWeights> packed = cache.load()->Find(key, &known);
  if (packed == nullptr && known) {
    try {
      packed = std::make_shared<const PackedWeights>(problem, params, interrupt);
      cache.load()->Add(key, packed);
    } catch (const std::bad_alloc&) {  // the call itself may have enough
    }
  }
  return packed;
}

size_t CachedWeightBytes() { return cache.load()->bytes(); }

void DropCachedWeights() { cache.load()->Clear(); }

}  // namespace fused_rnn
