// The threads that teams are made of.
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/processors.h"
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
  Job* after = nullptr;        // in the list of open jobs
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
  // The process's own. Never destroyed: its threads run until the process ends. Threads do not
  // survive fork(), and a thread of the parent may have held the lock, so a child makes a new one.
  static Pool& Get() {
    Pool* pool = own_.load(std::memory_order_acquire);
    if (pool != nullptr) return *pool;
    Pool* made = new Pool;
    if (own_.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *pool;
  }
  static void Forget() { own_.store(nullptr); }

  void RunTeam(Job* job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (threads_ < job->team - 1 && AddThread()) {
      }
      Job** end = &open_;
      while (*end != nullptr) end = &(*end)->after;
      *end = job;
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
    } catch (const std::exception&) {
      return false;  // the system has no more, or no memory: teams are smaller
    }
    ++threads_;
    return true;
  }

  void Close(Job* job) {
    for (Job** open = &open_; *open != nullptr; open = &(*open)->after) {
      if (*open == job) {
        *open = job->after;
        return;
      }
    }
  }

  void Work() {
    UseProcessMask();
    for (;;) {
      const uint32_t posted = posted_.load(std::memory_order_acquire);
      std::unique_lock<std::mutex> lock(mutex_);
      if (open_ == nullptr) {
        lock.unlock();
        for (int i = 0; i < kSpinsBeforeSleep && posted_.load(std::memory_order_acquire) == posted;
             ++i)
          _mm_pause();
        lock.lock();
        wake_.wait(lock, [this] { return open_ != nullptr; });
      }
      Job* job = open_;
      const int thread = job->next++;
      if (job->next == job->team) open_ = job->after;
      job->inside.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      Run(*job, thread);
      lock.lock();
      if (job->inside.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
    }
  }

  static std::atomic<Pool*> own_;

  std::mutex mutex_;
  std::condition_variable wake_, left_;
  Job* open_ = nullptr;  // those that can still be joined, oldest first
  std::atomic<uint32_t> posted_{0};
  int threads_ = 0;
};

std::atomic<Pool*> Pool::own_{nullptr};
const int g_fork_handler = pthread_atfork(nullptr, nullptr, [] { Pool::Forget(); });

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
