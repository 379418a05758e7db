// Weights into panels without groups. Compiled once per instruction set (see kernels.cc).
#ifndef FUSED_RNN_KERNELS_PACK_INL_H_
#define FUSED_RNN_KERNELS_PACK_INL_H_

#include "base/half.h"
#include "kernels/vec-inl.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA {
namespace {

// The bits of N elements of `bytes` bytes each.
template <int bytes, int N>
struct BitsOfElements;
template <int N>
struct BitsOfElements<2, N> {
  typedef uint16_t type __attribute__((vector_size(2 * N)));
};
template <int N>
struct BitsOfElements<4, N> {
  typedef uint32_t type __attribute__((vector_size(4 * N)));
};
template <int N>
struct BitsOfElements<8, N> {
  typedef uint64_t type __attribute__((vector_size(8 * N)));
};

// Transposes the V x V elements in `rows`. Each round interleaves row i with row i + V/2, which
// rotates the bits of an element's row and column number, taken as one number, by one place; after
// log2(V) rounds, rows and columns have changed places.
template <typename Bits, int V>
inline void Transpose(Bits (&rows)[V]) {
  Bits low, high;  // which lanes of two rows make up their interleaved halves
#pragma GCC unroll 16
  for (int i = 0; i < V; ++i) {
    low[i] = i / 2 + i % 2 * V;
    high[i] = low[i] + V / 2;
  }
#pragma GCC unroll 4
  for (int round = 1; round < V; round *= 2) {
    Bits next[V];
#pragma GCC unroll 8
    for (int i = 0; i < V / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + V / 2], low);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + V / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < V; ++i) rows[i] = next[i];
  }
}

// panel[k*panel_ld + j] = w[j*ld + k]
template <typename Format, typename Weight = typename Format::Weight>
void PackPanelTransposed(const Weight* w, int64_t ld, int64_t columns, int64_t K, Weight* panel,
                         int64_t panel_ld) {
  static_assert(Format::kPanel.group == 1);
  constexpr int V = kLanes<typename Format::Real>;
  using Bits = typename BitsOfElements<sizeof(Weight), V>::type;
  int64_t k = 0;
  if (columns == V) {
    for (; k + V <= K; k += V) {
      Bits rows[V];
#pragma GCC unroll 16
      for (int j = 0; j < V; ++j) __builtin_memcpy(&rows[j], w + j * ld + k, sizeof(Bits));
      Transpose<Bits, V>(rows);
#pragma GCC unroll 16
      for (int j = 0; j < V; ++j) {
        __builtin_memcpy(panel + (k + j) * panel_ld, &rows[j], sizeof(Bits));
      }
    }
  }
  for (; k < K; ++k) {
    for (int j = 0; j < V; ++j) panel[k * panel_ld + j] = j < columns ? w[j * ld + k] : Weight{};
  }
}

// panel (k, j) = w[k*ld + j]
template <typename Format, typename Weight = typename Format::Weight>
void PackPanel(const Weight* w, int64_t ld, int64_t columns, int64_t K, Weight* panel) {
  static_assert(Format::kPanel.group == 1);
  constexpr int V = kLanes<typename Format::Real>;
  if (columns == V) {
    for (int64_t k = 0; k < K; ++k) __builtin_memcpy(panel + k * V, w + k * ld, V * sizeof(Weight));
    return;
  }
  for (int64_t k = 0; k < K; ++k) {
    for (int j = 0; j < V; ++j) panel[k * V + j] = j < columns ? w[k * ld + j] : Weight{};
  }
}

}  // namespace
}  // namespace FUSED_RNN_ISA
}  // namespace fused_rnn

#endif  // FUSED_RNN_KERNELS_PACK_INL_H_
