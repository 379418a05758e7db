#include "rnn/dropout.h"

#include <algorithm>

#include "base/team.h"

namespace fused_rnn {
namespace {

struct Random4 {
  uint32_t value[4];
};

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
// section 3.3): a pure function of counter and key.
Random4 Philox(uint64_t counter_low, uint64_t counter_high, uint64_t key) {
  uint32_t c[4] = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                   static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

}  // namespace

void DrawMask(const Execution& execution, const Steps& steps, int64_t width, double p,
              uint64_t seed, int64_t l, uint8_t* mask) {
  // Kept if a uniform 32-bit number is below this; 2^32 keeps all, 0 none.
  const uint64_t kept_below = static_cast<uint64_t>((1 - p) * 4294967296.0);
  constexpr double kWorkPerElement = 20;  // in multiply-adds
  const double work = kWorkPerElement * steps.rows() * width;
  ParallelFor(execution, work, steps.T(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < steps.n(t); ++i) {
        uint8_t* row = mask + (steps.row(t) + i) * width;
        const uint64_t place = static_cast<uint64_t>(t * steps.N() + steps.order(i));
        for (int64_t j = 0; j < width; j += 4) {
          // 2^20 layers and 2^46 units are beyond any model that fits a memory.
          const Random4 random =
              Philox(place, static_cast<uint64_t>(l) << 44 | static_cast<uint64_t>(j / 4), seed);
          for (int64_t u = 0; u < std::min<int64_t>(4, width - j); ++u)
            row[j + u] = random.value[u] < kept_below;
        }
      }
    }
  });
}

template <typename Real>
void ApplyMask(const Execution& execution, int64_t rows, int64_t width, double p,
               const uint8_t* mask, const Real* in, Real* out) {
  const Real scale = p < 1 ? static_cast<Real>(1 / (1 - p)) : Real(0);
  const double work = static_cast<double>(rows) * width;
  ParallelFor(execution, work, rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * width; i < end * width; ++i)
      out[i] = mask[i] ? in[i] * scale : Real(0);
  });
}

template void ApplyMask(const Execution&, int64_t, int64_t, double, const uint8_t*, const float*,
                        float*);
template void ApplyMask(const Execution&, int64_t, int64_t, double, const uint8_t*, const double*,
                        double*);

}  // namespace fused_rnn
