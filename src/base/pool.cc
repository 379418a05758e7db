// The threads that teams are made of.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/team.h"

namespace fused_rnn {
namespace {

// A call of RunTeam. Threads join while it is open and there is a number left.
struct Job {
  internal::TeamFunction function;
  const void* closure;
  int team;
  int next = 1;                // the next thread's number; the caller is 0
  std::atomic<int> inside{0};  // threads other than the caller
};

void Run(const Job& job, int thread) {
  const FlushSubnormals flush;
  job.function(job.closure, thread, job.team);
}

// Some tens of microseconds: layers of a network and products of a pass follow one another faster
// than that, and then nobody need be woken.
constexpr int kSpinsBeforeSleep = 1000;

class Pool {
 public:
  // Never destroyed: its threads run until the process ends.
  static Pool& Get() {
    static Pool* pool = new Pool;
    return *pool;
  }

  void RunTeam(Job* job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (threads_ < job->team - 1 && AddThread()) {
      }
      open_.push_back(job);
      posted_.fetch_add(1, std::memory_order_release);
    }
    for (int i = 1; i < job->team; ++i) wake_.notify_one();
    Run(*job, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    Close(job);
    if (job->inside == 0) return;
    // Sleeping frees a core for a thread that has lost its own.
    left_.wait(lock, [job] { return job->inside == 0; });
  }

 private:
  bool AddThread() {
    try {
      std::thread([this] { Work(); }).detach();
    } catch (const std::system_error&) {
      return false;  // the system has no more: teams are smaller
    }
    ++threads_;
    return true;
  }

  void Close(Job* job) {
    for (auto open = open_.begin(); open != open_.end(); ++open) {
      if (*open == job) {
        open_.erase(open);
        return;
      }
    }
  }

  void Work() {
    for (;;) {
      const uint32_t posted = posted_.load(std::memory_order_acquire);
      std::unique_lock<std::mutex> lock(mutex_);
      if (open_.empty()) {
        lock.unlock();
        for (int i = 0; i < kSpinsBeforeSleep && posted_.load(std::memory_order_acquire) == posted;
             ++i)
          _mm_pause();
        lock.lock();
        wake_.wait(lock, [this] { return !open_.empty(); });
      }
      Job* job = open_.front();
      const int thread = job->next++;
      if (job->next == job->team) open_.pop_front();
      job->inside.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      Run(*job, thread);
      lock.lock();
      if (job->inside.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, left_;
  std::deque<Job*> open_;  // that can still be joined
  std::atomic<uint32_t> posted_{0};
  int threads_ = 0;
};

}  // namespace

void internal::RunTeam(int threads, TeamFunction function, const void* closure) {
  Job job{function, closure, threads > 1 ? threads : 1};
  if (job.team == 1) {
    Run(job, 0);
  } else {
    Pool::Get().RunTeam(&job);
  }
}

}  // namespace fused_rnn
