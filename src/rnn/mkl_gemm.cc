// float32 and float64 products by Intel MKL (build option FUSED_RNN_GEMM=mkl): the only file that
// sees it.
#include <mkl.h>

#include <string>

#include "fused_rnn/rnn.h"
#include "rnn/gemm.h"

namespace fused_rnn {
namespace {

// MKL takes its number of threads from a setting of the calling thread.
class OneThread {
 public:
  OneThread() : saved_(mkl_set_num_threads_local(1)) {}
  ~OneThread() { mkl_set_num_threads_local(saved_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_;
};

CBLAS_TRANSPOSE Transposition(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

void SerialGemm(Isa, const GemmArgs<float>& args) {
  const OneThread scope;
  cblas_sgemm(CblasRowMajor, Transposition(args.a_transposed), Transposition(args.b_transposed),
              args.M, args.N, args.K, 1.0f, args.a, args.a_ld, args.b, args.b_ld,
              args.accumulate ? 1.0f : 0.0f, args.c, args.c_ld);
}

void SerialGemm(Isa, const GemmArgs<double>& args) {
  const OneThread scope;
  cblas_dgemm(CblasRowMajor, Transposition(args.a_transposed), Transposition(args.b_transposed),
              args.M, args.N, args.K, 1.0, args.a, args.a_ld, args.b, args.b_ld,
              args.accumulate ? 1.0 : 0.0, args.c, args.c_ld);
}

const char* GemmBackend() {
  static const std::string name = [] {
    MKLVersion version;
    mkl_get_version(&version);
    return "MKL " + std::to_string(version.MajorVersion) + "." +
           std::to_string(version.MinorVersion) + "." + std::to_string(version.UpdateVersion);
  }();
  return name.c_str();
}

}  // namespace fused_rnn
