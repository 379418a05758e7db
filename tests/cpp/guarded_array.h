// An array whose neighbourhood is watched.
#ifndef FUSED_RNN_TESTS_CPP_GUARDED_ARRAY_H_
#define FUSED_RNN_TESTS_CPP_GUARDED_ARRAY_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <utility>
#include <vector>

namespace fused_rnn {

// Memory in front of an inaccessible page. It is kept for the next taker of the same size, as
// system calls cost far more than a test's arithmetic.
class GuardedPages {
 public:
  static constexpr int64_t kPage = 4096;

  static unsigned char* Take(int64_t bytes) {
    std::vector<unsigned char*>& free = Free()[bytes];
    if (!free.empty()) {
      unsigned char* pages = free.back();
      free.pop_back();
      return pages;
    }
    void* pages =
        mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    mprotect(static_cast<unsigned char*>(pages) + bytes, kPage, PROT_NONE);
    return static_cast<unsigned char*>(pages);
  }
  static void Return(unsigned char* pages, int64_t bytes) { Free()[bytes].push_back(pages); }

 private:
  static std::map<int64_t, std::vector<unsigned char*>>& Free() {
    static thread_local std::map<int64_t, std::vector<unsigned char*>> free;
    return free;
  }
};

// Ends at an inaccessible page, so that reading or writing beyond it is a fault, whoever does it;
// what is in front (and behind, where `alignment` leaves room) holds a pattern. Starts as all bits
// set: NaN. Its address is a multiple of `alignment` and, by chance only, of more.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(int64_t size, int64_t alignment = alignof(T)) : size_(size) {
    const int64_t bytes = size * sizeof(T);
    mapped_ = (bytes + alignment + kFront + kPage - 1) / kPage * kPage;
    base_ = GuardedPages::Take(mapped_);
    unsigned char* start = base_ + (mapped_ - bytes) / alignment * alignment;
    data_ = reinterpret_cast<T*>(start);
    std::memset(start - kFront, kPattern, kFront);
    std::memset(start, 0xFF, bytes);
    std::fill(start + bytes, base_ + mapped_, kPattern);
  }
  GuardedArray(const GuardedArray& other) : GuardedArray(other.size_) {
    std::memcpy(static_cast<void*>(data_), other.data_, size_ * sizeof(T));
  }
  GuardedArray& operator=(GuardedArray other) {
    std::swap(base_, other.base_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~GuardedArray() { GuardedPages::Return(base_, mapped_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

  // Nobody has written around the array.
  bool Intact() const {
    const unsigned char* start = reinterpret_cast<const unsigned char*>(data_);
    const auto is_pattern = [](unsigned char byte) { return byte == kPattern; };
    return std::all_of(start - kFront, start, is_pattern) &&
           std::all_of(start + size_ * sizeof(T),
                       static_cast<const unsigned char*>(base_) + mapped_, is_pattern);
  }

 private:
  static constexpr int64_t kPage = GuardedPages::kPage;
  static constexpr int64_t kFront = 128;
  static constexpr unsigned char kPattern = 0xA5;

  unsigned char* base_;
  int64_t mapped_;
  T* data_;
  int64_t size_;
};

// Equal bit by bit: a NaN equals itself, and 0 is not -0.
template <typename Array>
bool SameBits(const Array& a, const Array& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(*a.data())) == 0;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_GUARDED_ARRAY_H_
