// float64 products on our own panel kernel, after Goto and van de Geijn ("Anatomy of
// high-performance matrix multiplication", 2008): B is packed a panel at a time and stays in the
// second-level cache while blocks of A pass by.
#include <algorithm>

#include "kernels/kernel_table.h"
#include "rnn/gemm.h"

namespace fused_rnn {
namespace {

constexpr int64_t kBlockK = 256;
constexpr int64_t kBlockRows = 96;  // of A: 96 x 256 doubles are 192 KiB
constexpr int64_t kPanels = 4;      // of B at a time
constexpr int64_t kMaxLanes = 8;    // doubles in the widest vector

struct Scratch {
  alignas(64) double b[kPanels * kBlockK * kMaxLanes];
  alignas(64) double a[kBlockRows * kBlockK];
  alignas(64) double c[kBlockRows * kPanels * kMaxLanes];
};

// Columns [n0, n0 + columns) of C.
void PanelColumns(const GemmArgs<double>& args, const KernelTable<double>& kernels, int64_t n0,
                  int64_t columns, Scratch* scratch) {
  const int64_t V = kernels.lanes, panels = (columns + V - 1) / V, c_ld = panels * V;
  for (int64_t k0 = 0; k0 < args.K; k0 += kBlockK) {
    const int64_t K = std::min(kBlockK, args.K - k0);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t n = n0 + p * V, some = std::min(V, n0 + columns - n);
      if (args.b_transposed) {
        kernels.panels.pack_transposed(args.b + n * args.b_ld + k0, args.b_ld, some, K,
                                       scratch->b + p * K * V);
      } else {
        kernels.panels.pack(args.b + k0 * args.b_ld + n, args.b_ld, some, K,
                            scratch->b + p * K * V);
      }
    }
    for (int64_t m0 = 0; m0 < args.M; m0 += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, args.M - m0);
      const double* a = args.a + m0 * args.a_ld + k0;
      int64_t a_ld = args.a_ld;
      if (args.a_transposed) {
        for (int64_t k = 0; k < K; ++k) {
          for (int64_t m = 0; m < rows; ++m)
            scratch->a[m * K + k] = args.a[(k0 + k) * args.a_ld + m0 + m];
        }
        a = scratch->a;
        a_ld = K;
      }
      kernels.panels.gemm({rows, K, panels, a, a_ld, scratch->b, scratch->c, c_ld, false, nullptr});
      for (int64_t m = 0; m < rows; ++m) {
        double* c = args.c + (m0 + m) * args.c_ld + n0;
        const double* tile = scratch->c + m * c_ld;
        if (k0 > 0 || args.accumulate) {
          for (int64_t n = 0; n < columns; ++n) c[n] += tile[n];
        } else {
          std::copy(tile, tile + columns, c);
        }
      }
    }
  }
}

}  // namespace

void SerialGemm(const GemmArgs<double>& args) {
  static thread_local Scratch scratch;
  const KernelTable<double>& kernels = Kernels<double>();
  const int64_t width = kPanels * kernels.lanes;
  for (int64_t n = 0; n < args.N; n += width) {
    PanelColumns(args, kernels, n, std::min(width, args.N - n), &scratch);
  }
}

}  // namespace fused_rnn
