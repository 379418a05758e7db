// The products with packed panels and with weights as they are, and the packing, exactly: small
// integers, whose sums are exact in every order and type.
#ifndef FUSED_RNN_TESTS_CPP_KERNEL_TESTS_PANELS_H_
#define FUSED_RNN_TESTS_CPP_KERNEL_TESTS_PANELS_H_

#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"
#include "element.h"
#include "guarded_array.h"
#include "kernels/kernel_list.h"
#include "random.h"

namespace fused_rnn {
namespace {

constexpr int64_t kAlignment = 64;  // of panels

template <typename Weight>
bool IsNumber(Weight weight, double value) {
  const Weight expected = FromDouble<Weight>(value);
  return std::memcmp(&weight, &expected, sizeof(weight)) == 0;
}

// Inputs for up to max_rows rows and max_count panels and their products.
template <typename Format>
struct Product {
  using Real = typename Format::Real;
  using Packed = typename Format::Packed;

  Product(int64_t max_rows, int64_t max_count, int64_t K, int64_t V)
      : K(K),
        columns(max_count * V),
        panels(max_count * Format::kPanel.Size(K, V), kAlignment),
        a(max_rows * K),
        c(max_rows * columns) {
    Random random(K);
    std::vector<int64_t> b(K * columns);
    random.FillInts(&b, -3, 3);
    random.FillInts(&a, -3, 3);
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t j = 0; j < columns; ++j)
        panels[j / V * Format::kPanel.Size(K, V) + Format::kPanel.Index(k, j % V, V)] =
            FromDouble<Packed>(b[k * columns + j]);
    }
    for (int64_t row = 0; row < max_rows; ++row) {
      for (int64_t k = 0; k < K; ++k) {
        for (int64_t j = 0; j < columns; ++j)
          c[row * columns + j] += a[row * K + k] * b[k * columns + j];
      }
    }
  }

  int64_t K, columns;
  GuardedArray<Packed> panels;
  std::vector<int64_t> a, c;
};

// How the operands lie in memory.
struct Variant {
  int64_t a_gap, c_gap;  // a_ld - K, c_ld - columns
  bool accumulate, prefetch;
};

template <typename Format>
void TestProduct(kernel::Gemm<Format> gemm, const Product<Format>& product, int64_t rows,
                 int64_t count, const Variant& v) {
  using Real = typename Format::Real;
  const int64_t K = product.K, V = Kernels<Real>(ActiveIsa()).lanes, columns = count * V;
  const int64_t a_ld = K + v.a_gap, c_ld = columns + v.c_gap;
  Scope scope("rows %d, count %d, K %d, a_ld %d, c_ld %d, accumulate %d, prefetch %d",
              static_cast<int>(rows), static_cast<int>(count), static_cast<int>(K),
              static_cast<int>(a_ld), static_cast<int>(c_ld), v.accumulate, v.prefetch);
  // Both end with their last element, and what is between their rows is NaN; a's address is odd as
  // often as not.
  GuardedArray<Real> a(rows > 0 ? (rows - 1) * a_ld + K : 0), c((rows - 1) * c_ld + columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < K; ++k) a[row * a_ld + k] = static_cast<Real>(product.a[row * K + k]);
    for (int64_t j = 0; j < columns && v.accumulate; ++j)
      c[row * c_ld + j] = static_cast<Real>(row - j);
  }
  // The panels that are used end at the inaccessible page.
  const auto* panels = product.panels.end() - count * Format::kPanel.Size(K, V);
  const int64_t first_column = product.columns - columns;
  gemm.Of(ActiveIsa())({rows, K, count, a.data(), a_ld, panels, c.data(), c_ld, v.accumulate,
                        v.prefetch ? product.panels.data() : nullptr});
  int64_t wrong = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t expected =
          product.c[row * product.columns + first_column + j] + (v.accumulate ? row - j : 0);
      wrong += c[row * c_ld + j] != static_cast<Real>(expected);
    }
    for (int64_t j = columns; j < c_ld && row + 1 < rows; ++j)
      wrong += c[row * c_ld + j] == c[row * c_ld + j];
  }
  CHECK_EQ(wrong, 0);
  CHECK(c.Intact());
}

template <typename Format>
void TestKernel(kernel::Gemm<Format> gemm) {
  // More than two row tiles of the tallest kernel (14 rows), and a run of the recurrence (40 rows).
  constexpr int64_t kRows[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                               17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 40, 43};
  constexpr int64_t kMaxCount = 5;
  for (int64_t K : {1, 2, 3, 7, 64, 1023, 1024, 1025, 1500}) {
    const Product<Format> product(43, kMaxCount, K,
                                  Kernels<typename Format::Real>(ActiveIsa()).lanes);
    unsigned turn = 0;
    for (int64_t rows : kRows) {
      for (int64_t count = 1; count <= kMaxCount; ++count) {
        // All variants where they are cheap; one of them, by turns, where K is large.
        for (unsigned i = 0; i < (K < 100 ? 8 : 1); ++i, ++turn) {
          TestProduct(gemm, product, rows, count,
                      {turn & 1 ? 3 : 0, turn & 2 ? 5 : 0, (turn & 4) != 0, (turn * 5 & 8) != 0});
        }
        ++turn;
      }
    }
    CHECK(product.panels.Intact());
  }
}

// Weights as the caller stores them, [columns, K], which end at the inaccessible page.
template <typename Format>
void TestKernel(kernel::RowGemm<Format> row_gemm) {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  const int64_t V = Kernels<Real>(ActiveIsa()).lanes;
  Random random(3);
  for (int64_t K : {int64_t{1}, int64_t{2}, V - 1, V, V + 1, 2 * V - 1, 2 * V, 2 * V + 1, 3 * V,
                    int64_t{1025}}) {
    for (int64_t rows : {1, 2, 5}) {
      for (int64_t columns = 1; columns <= 9; ++columns) {
        for (int64_t gap : {0, 3}) {
          Scope scope("rows %d, columns %d, K %d, gap %d", static_cast<int>(rows),
                      static_cast<int>(columns), static_cast<int>(K), static_cast<int>(gap));
          const int64_t ld = K + gap, c_ld = columns + gap;
          GuardedArray<Real> a(rows * ld - gap), c(rows * c_ld - gap);
          GuardedArray<Weight> w(columns * ld - gap);
          std::vector<int64_t> a_ints(a.size()), w_ints(w.size());
          random.FillInts(&a_ints, -3, 3);
          random.FillInts(&w_ints, -3, 3);
          for (int64_t i = 0; i < a.size(); ++i)
            a[i] = i % ld < K ? static_cast<Real>(a_ints[i]) : a[i];
          for (int64_t i = 0; i < w.size(); ++i)
            w[i] = i % ld < K ? FromDouble<Weight>(w_ints[i]) : w[i];
          row_gemm.Of(ActiveIsa())({rows, K, columns, a.data(), ld, w.data(), ld, c.data(), c_ld});
          int64_t wrong = 0;
          for (int64_t i = 0; i < c.size(); ++i) {
            if (i % c_ld >= columns) {
              wrong += !std::isnan(c[i]);
              continue;
            }
            int64_t sum = 0;
            for (int64_t k = 0; k < K; ++k)
              sum += a_ints[i / c_ld * ld + k] * w_ints[i % c_ld * ld + k];
            wrong += c[i] != static_cast<Real>(sum);
          }
          CHECK_EQ(wrong, 0);
          CHECK(c.Intact());
        }
      }
    }
  }
}

// pack(w, ld, columns, K, panel), of a w [columns, K] if `transposed`, else [K, columns]: whole and
// partial panels.
template <typename Format, typename PackFunction>
void TestPacking(bool transposed, const PackFunction& pack) {
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;
  const int64_t V = Kernels<typename Format::Real>(ActiveIsa()).lanes;
  for (int64_t columns = 1; columns <= V; ++columns) {
    for (int64_t K : {1, 2, 5, 16, 33}) {
      for (int64_t gap : {0, 3}) {
        Scope scope("columns %d, K %d, gap %d", static_cast<int>(columns), static_cast<int>(K),
                    static_cast<int>(gap));
        const int64_t outer = transposed ? columns : K, ld = (transposed ? K : columns) + gap;
        GuardedArray<Weight> w(outer * ld - gap);
        GuardedArray<Packed> panel(Format::kPanel.Size(K, V), kAlignment);
        // Element (k, j) of the matrix is a number of its own.
        const auto value = [&](int64_t k, int64_t j) -> double {
          return 1 + k * V + j - (k % 2) * 300;
        };
        for (int64_t k = 0; k < K; ++k) {
          for (int64_t j = 0; j < columns; ++j)
            w[transposed ? j * ld + k : k * ld + j] = FromDouble<Weight>(value(k, j));
        }
        pack(w.data(), ld, columns, K, panel.data());
        int64_t wrong = 0;
        for (int64_t k = 0; k < K; ++k) {
          for (int64_t j = 0; j < V; ++j)
            wrong += !IsNumber(panel[Format::kPanel.Index(k, j, V)], j < columns ? value(k, j) : 0);
        }
        CHECK_EQ(wrong, 0);
        CHECK(w.Intact() && panel.Intact());
      }
    }
  }
}

template <typename Format>
void TestKernel(kernel::PackTransposed<Format> pack) {
  const int64_t V = Kernels<typename Format::Real>(ActiveIsa()).lanes;
  TestPacking<Format>(true, [&](auto* w, int64_t ld, int64_t columns, int64_t K, auto* panel) {
    pack.Of(ActiveIsa())(w, ld, columns, K, panel, V);
  });
}

template <typename Format>
void TestKernel(kernel::Pack<Format> pack) {
  TestPacking<Format>(false, pack.Of(ActiveIsa()));
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_KERNEL_TESTS_PANELS_H_
