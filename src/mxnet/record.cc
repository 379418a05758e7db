#include "record.h"

#include <map>

namespace fused_rnn {
namespace mx {
namespace {

// The latest record of each name, as far as it lives.
thread_local std::map<std::string, std::weak_ptr<Record>> latest;

const char kCopy[] = "_mirror";

void ForgetEnded() {
  for (auto entry = latest.begin(); entry != latest.end();) {
    entry = entry->second.expired() ? latest.erase(entry) : std::next(entry);
  }
}

}  // namespace

std::shared_ptr<Record> OriginalOf(const std::string& node) {
  const size_t ending = sizeof(kCopy) - 1;
  if (node.size() <= ending || node.compare(node.size() - ending, ending, kCopy) != 0)
    return nullptr;
  const auto entry = latest.find(node.substr(0, node.size() - ending));
  return entry == latest.end() ? nullptr : entry->second.lock();
}

std::shared_ptr<Record> MakeRecord(const std::string& node, Record* original) {
  // A copy runs after its original: what it reads there must be of the same iteration.
  auto record = std::make_shared<Record>(node, original ? original->order : abi::MakeOrder());
  if (original != nullptr) ++original->copies;
  if (!node.empty()) {
    ForgetEnded();
    latest[node] = record;
  }
  return record;
}

}  // namespace mx
}  // namespace fused_rnn
