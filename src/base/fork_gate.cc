#include "base/fork_gate.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace fused_rnn {
namespace {

std::atomic<int> g_inside{0}, g_forking{0};
std::atomic<bool> g_broken{false};

// Whether the condition comes true within 0.2 seconds, a hundred times what compiling a product
// takes.
template <typename Condition>
bool Await(const Condition& condition) {
  constexpr int kSleeps = 2000;
  for (int i = 0; i < kSleeps; ++i) {
    if (condition()) return true;
    usleep(100);
  }
  return false;
}

const int g_fork_handlers = pthread_atfork(
    [] {
      ++g_forking;
      Await([] { return g_inside.load() == 0; });
    },
    [] { --g_forking; },
    [] {
      g_forking = 0;
      if (g_inside.exchange(0) > 0) g_broken = true;
    });

}  // namespace

ForkGate::ForkGate() {
  const bool entered = Await([] {
    if (g_forking.load() > 0) return false;
    ++g_inside;
    // A fork that begins here sees this thread inside and waits for it, or is seen by it.
    if (g_forking.load() == 0) return true;
    --g_inside;
    return false;
  });
  if (!entered) ++g_inside;
}

ForkGate::~ForkGate() { --g_inside; }

bool BrokenByFork() { return g_broken.load(std::memory_order_relaxed); }

}  // namespace fused_rnn
