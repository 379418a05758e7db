// Reproducible test data.
#ifndef FUSED_RNN_TESTS_CPP_RANDOM_H_
#define FUSED_RNN_TESTS_CPP_RANDOM_H_

#include <cstdint>
#include <type_traits>

namespace fused_rnn {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  double Uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(Bits() >> 11) * 0x1p-53;
  }
  // low <= result <= high
  int64_t Int(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Bits() % static_cast<uint64_t>(high - low + 1));
  }

  template <typename Values>
  void FillUniform(Values* values, double low, double high) {
    for (auto& value : *values)
      value = static_cast<std::decay_t<decltype(value)>>(Uniform(low, high));
  }
  // Small integers, whose sums of products are exact in any order.
  template <typename Values>
  void FillInts(Values* values, int64_t low, int64_t high) {
    for (auto& value : *values) value = static_cast<std::decay_t<decltype(value)>>(Int(low, high));
  }

 private:
  uint64_t state_;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_RANDOM_H_
