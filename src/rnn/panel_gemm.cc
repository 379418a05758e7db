// Products on our own panel kernels, after Goto and van de Geijn ("Anatomy of
// high-performance matrix multiplication", 2008): panels of B are packed and stay in the cache
// while rows of A pass by.
#include <algorithm>
#include <memory>
#include <new>

#include "fused_rnn/rnn.h"
#include "kernels/kernel_table.h"
#include "rnn/gemm.h"
#include "rnn/pack.h"

namespace fused_rnn {
namespace {

// Of A and B at a time: a strip of A and the panels of B stay in the second-level cache.
constexpr int64_t kBlockK = 512;
constexpr int64_t kBlockRows = 256;
constexpr int64_t kStrip = 56;  // whole row tiles of every instruction set
constexpr int64_t kPanels = 4;
// Rows of A^T lie so far apart that their starts do not compete for one place of a cache.
constexpr int64_t kTransposedLd = kBlockK + 16;
constexpr int64_t kAlignment = 64;  // bytes: those of the widest vector

// One per thread, kept for its next products.
template <typename Real>
struct Scratch {
  static constexpr int64_t kMostLanes = kAlignment / sizeof(Real);
  alignas(kAlignment) Real b[kPanels * kBlockK * kMostLanes];
  alignas(kAlignment) Real a[kBlockRows * kTransposedLd];
  alignas(kAlignment) Real c[kStrip * kPanels * kMostLanes];
};

template <typename Real>
class Product {
  using Weights = PlainWeights<Real, Real>;

 public:
  Product(Isa isa, const GemmArgs<Real>& args)
      : args_(args), kernels_(Panels<Weights>(isa)), V_(Kernels<Real>(isa).lanes) {
    static thread_local std::unique_ptr<Scratch<Real>> scratch;
    if (scratch == nullptr) scratch.reset(new (std::nothrow) Scratch<Real>);
    if (scratch == nullptr) throw OutOfMemory("a matrix product's scratch", sizeof(Scratch<Real>));
    scratch_ = scratch.get();
  }

  void Run() {
    const int64_t width = kPanels * V_;
    for (int64_t m = 0; m < args_.M; m += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, args_.M - m);
      for (int64_t k = 0; k < args_.K; k += kBlockK) {
        const int64_t K = std::min(kBlockK, args_.K - k);
        PlaceA(m, rows, k, K);
        for (int64_t n = 0; n < args_.N; n += width) {
          const int64_t columns = std::min(width, args_.N - n);
          PackB(k, K, n, columns);
          Multiply(m, rows, k, K, n, columns);
        }
      }
    }
  }

 private:
  // Rows [m, m + rows) of A, columns [k, k + K): where they are, or transposed into the scratch.
  void PlaceA(int64_t m, int64_t rows, int64_t k, int64_t K) {
    a_ = args_.a + m * args_.a_ld + k;
    a_ld_ = args_.a_ld;
    if (!args_.a_transposed) return;
    a_ = scratch_->a;
    a_ld_ = kTransposedLd;
    for (int64_t i = 0; i < K; i += V_) {
      kernels_.pack_transposed(args_.a + (k + i) * args_.a_ld + m, args_.a_ld, std::min(V_, K - i),
                               rows, scratch_->a + i, kTransposedLd);
    }
  }

  void PackB(int64_t k, int64_t K, int64_t n, int64_t columns) {
    if (args_.b_transposed) {
      for (int64_t j = 0; j < columns; j += V_) {
        kernels_.pack_transposed(args_.b + (n + j) * args_.b_ld + k, args_.b_ld,
                                 std::min(V_, columns - j), K, scratch_->b + j * K, V_);
      }
      return;
    }
    PackRows(kernels_, PanelLayout{columns, 1, K, V_}, args_.b + k * args_.b_ld + n, args_.b_ld, 0,
             K, columns, scratch_->b);
  }

  void Multiply(int64_t m, int64_t rows, int64_t k, int64_t K, int64_t n, int64_t columns) {
    const int64_t panels = (columns + V_ - 1) / V_, padded = panels * V_;
    const bool accumulate = args_.accumulate || k > 0;
    for (int64_t r = 0; r < rows; r += kStrip) {
      const int64_t strip = std::min(kStrip, rows - r);
      const Real* a = a_ + r * a_ld_;
      Real* c = args_.c + (m + r) * args_.c_ld + n;
      if (columns == padded) {
        kernels_.gemm(
            {strip, K, panels, a, a_ld_, scratch_->b, c, args_.c_ld, accumulate, nullptr});
        continue;
      }
      // The kernel writes whole vectors.
      kernels_.gemm({strip, K, panels, a, a_ld_, scratch_->b, scratch_->c, padded, false, nullptr});
      for (int64_t i = 0; i < strip; ++i) {
        Real* to = c + i * args_.c_ld;
        const Real* from = scratch_->c + i * padded;
        for (int64_t j = 0; j < columns; ++j) to[j] = accumulate ? to[j] + from[j] : from[j];
      }
    }
  }

  const GemmArgs<Real>& args_;
  const PanelKernels<Weights>& kernels_;
  const int64_t V_;
  Scratch<Real>* scratch_;
  const Real* a_ = nullptr;
  int64_t a_ld_ = 0;
};

}  // namespace

template <typename Real>
void OwnGemm(Isa isa, const GemmArgs<Real>& args) {
  Product<Real>(isa, args).Run();
}

template void OwnGemm(Isa, const GemmArgs<float>&);
template void OwnGemm(Isa, const GemmArgs<double>&);

}  // namespace fused_rnn
