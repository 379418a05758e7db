// Takes times, and prints each set of them as an entry of a JSON list:
//   {"name": ..., TIMED: {"work": ..., "seconds": [...]}, ...}
// where TIMED are a kernel and the probes beside it, `work` is what one call does (operations,
// bytes or units) and `seconds` the time of a call, round by round; the k-th times of an entry were
// taken in turn. It is the processor's time of the calling thread, which a neighbour on the core
// does not add to.
#ifndef FUSED_RNN_BENCH_BENCH_H_
#define FUSED_RNN_BENCH_BENCH_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "base/half.h"

namespace fused_rnn {

struct Options {
  double seconds = 0.01;  // of each time that is taken
  int64_t rounds = 9;
  bool quick = false;  // small sizes, and one round of single calls: does everything run?
  std::string only;    // the wanted entries: a name, or its first parts; empty: all
  int64_t calls = 0;   // > 0: so many calls of each kernel instead, for tools that count
};

// 64-byte aligned, of small numbers.
template <typename T>
class Array {
 public:
  explicit Array(int64_t size)
      : data_(static_cast<T*>(std::aligned_alloc(64, (size * sizeof(T) + 63) / 64 * 64))) {
    if (data_ == nullptr) throw std::bad_alloc();
    for (int64_t i = 0; i < size; ++i) Set(static_cast<float>(i % 17 - 8) / 16, &data_[i]);
  }
  ~Array() { std::free(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* get() const { return data_; }

 private:
  template <typename Half>
  static void Set(float value, Half* to) {
    Narrow(value, to);
  }
  static void Set(float value, float* to) { *to = value; }
  static void Set(float value, double* to) { *to = value; }

  T* data_;
};

struct Timed {
  const char* name;
  double work;  // of a call
  std::function<void()> call;
};

inline double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The time of a call, from as many as take `seconds`.
inline double SecondsPerCall(const std::function<void()>& call, double seconds) {
  const double start = ThreadSeconds();
  int64_t calls = 0;
  for (int64_t batch = 1;; batch *= 2) {
    for (int64_t i = 0; i < batch; ++i) call();
    calls += batch;
    const double elapsed = ThreadSeconds() - start;
    if (elapsed >= seconds) return elapsed / static_cast<double>(calls);
  }
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  const Options& options() const { return options_; }
  // Whether the entry `name`, or one whose name begins with these parts, is wanted.
  bool Wants(const std::string& name) const {
    const std::string given = name + "/", wanted = options_.only + "/";
    return options_.only.empty() || given.rfind(wanted, 0) == 0 || wanted.rfind(given, 0) == 0;
  }

  // Prints an entry; the first of `timed` is the kernel.
  void Measure(const std::string& name, const std::vector<Timed>& timed) {
    if (!Wants(name)) return;
    for (int64_t i = 0; i < options_.calls; ++i) timed[0].call();
    if (options_.calls > 0) return;
    std::vector<std::vector<double>> seconds(timed.size());
    for (const Timed& each : timed) each.call();  // the first call may allocate and make code
    for (int64_t round = 0; round < options_.rounds; ++round) {
      for (size_t i = 0; i < timed.size(); ++i) {
        seconds[i].push_back(SecondsPerCall(timed[i].call, options_.seconds));
      }
    }
    std::printf("%s\n{\"name\": \"%s\"", entries_++ > 0 ? "," : "", name.c_str());
    for (size_t i = 0; i < timed.size(); ++i) {
      std::printf(", \"%s\": {\"work\": %.0f, \"seconds\": [", timed[i].name, timed[i].work);
      for (size_t k = 0; k < seconds[i].size(); ++k) {
        std::printf("%s%.6g", k > 0 ? ", " : "", seconds[i][k]);
      }
      std::printf("]}");
    }
    std::printf("}");
  }

 private:
  const Options options_;
  int64_t entries_ = 0;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_BENCH_BENCH_H_
