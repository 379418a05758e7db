// The large products, exactly: small integers, all forms of the operands, on several threads.
#include "rnn/gemm.h"

#include <vector>

#include "base/team.h"
#include "check.h"
#include "fused_rnn/rnn.h"
#include "guarded_array.h"
#include "isas.h"
#include "random.h"

namespace fused_rnn {
namespace {

struct Form {
  bool a_transposed, b_transposed;
  int64_t gap;  // ld - row length
  bool accumulate;
};

// A matrix of small integers whose last row ends at the inaccessible page; between its rows is NaN.
template <typename Real>
struct Matrix {
  Matrix(int64_t rows, int64_t columns, bool transposed, int64_t gap)
      : transposed(transposed),
        ld((transposed ? rows : columns) + gap),
        outer(transposed ? columns : rows),
        inner(transposed ? rows : columns),
        data(outer > 0 && inner > 0 ? outer * ld - gap : 0) {}
  Real& At(int64_t i, int64_t j) { return data[transposed ? j * ld + i : i * ld + j]; }
  void Fill(Random* random) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) data[o * ld + i] = static_cast<Real>(random->Int(-4, 4));
    }
  }
  bool GapsAreNan() const {
    for (int64_t o = 0; o + 1 < outer && inner > 0; ++o) {
      for (int64_t i = inner; i < ld; ++i) {
        if (data[o * ld + i] == data[o * ld + i]) return false;
      }
    }
    return true;
  }

  bool transposed;
  int64_t ld, outer, inner;
  GuardedArray<Real> data;
};

template <typename Real>
void TestProduct(int64_t M, int64_t N, int64_t K, const Form& form) {
  Scope scope("M %d, N %d, K %d, a_transposed %d, b_transposed %d, gap %d, accumulate %d",
              static_cast<int>(M), static_cast<int>(N), static_cast<int>(K), form.a_transposed,
              form.b_transposed, static_cast<int>(form.gap), form.accumulate);
  Random random(M * 10007 + N * 101 + K);
  Matrix<Real> a(M, K, form.a_transposed, form.gap), b(K, N, form.b_transposed, form.gap),
      c(M, N, false, form.gap);
  a.Fill(&random);
  b.Fill(&random);
  if (form.accumulate) c.Fill(&random);
  std::vector<Real> expected(M * N);
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      Real sum = form.accumulate ? c.At(m, n) : Real(0);
      for (int64_t k = 0; k < K; ++k) sum += a.At(m, k) * b.At(k, n);
      expected[m * N + n] = sum;
    }
  }
  using Varying = typename GemmArgs<Real>::Varying;
  for (Varying varying : {Varying::kNone, Varying::kM, Varying::kK}) {
    Matrix<Real> result = c;
    Gemm<Real>(Execution(),
               {M, N, K, a.data.data(), a.ld, form.a_transposed, b.data.data(), b.ld,
                form.b_transposed, result.data.data(), result.ld, form.accumulate, varying});
    int64_t wrong = 0;
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) wrong += result.At(m, n) != expected[m * N + n];
    }
    CHECK_EQ(wrong, 0);
    CHECK(result.GapsAreNan() && result.data.Intact());
  }
}

template <typename Real>
void TestForms(int64_t M, int64_t N, int64_t K) {
  for (bool a_transposed : {false, true}) {
    for (bool b_transposed : {false, true}) {
      for (bool accumulate : {false, true}) {
        TestProduct<Real>(M, N, K, {a_transposed, b_transposed, (M + N + K) % 2 * 3, accumulate});
      }
    }
  }
}

template <typename Real>
void TestSizes() {
  for (int64_t M : {0, 1, 2, 7, 19}) {
    for (int64_t N : {0, 1, 3, 17}) {
      for (int64_t K : {0, 1, 2, 9}) TestForms<Real>(M, N, K);
    }
  }
  // Beyond the blocks of the float64 product (56 rows, 32 columns, 512 of K), large enough for five
  // threads.
  for (int threads : {1, 5}) {
    Scope scope("threads %d", threads);
    SetNumThreads(threads);
    CHECK_EQ(Execution().TeamSizeFor(97.0 * 131 * 803), threads);
    TestForms<Real>(97, 131, 803);
    TestForms<Real>(1, 2503, 4001);
    TestForms<Real>(1100, 33, 301);  // several blocks of rows
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  TestSizes<float>();  // oneDNN's, whatever our instruction set
  ForEachIsa([] { TestSizes<double>(); });
  return TestResult();
}
