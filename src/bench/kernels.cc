// Times every kernel of kernel_list.h by itself, with the instruction set that FUSED_RNN_MAX_ISA
// allows, next to what the processor can do at most (the probes of kernel_table.h), and the large
// products. Prints JSON; the entries (bench.h) are named KIND/DTYPE/DETAIL.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/team.h"
#include "bench/bench.h"
#include "cells/cells.h"
#include "fused_rnn/rnn.h"
#include "kernels/kernel_list.h"
#include "rnn/gemm.h"
#include "rnn/memory_plan.h"
#include "rnn/packed_weights.h"
#include "rnn/recurrence.h"

namespace fused_rnn {
namespace {

volatile double g_sink;

template <typename Kernel>
std::string NameOf(const char* kind, Kernel, const std::string& detail) {
  return std::string(kind) + "/" + Kernel::kType + "/" + detail;
}

template <typename Real>
Timed FmaProbe() {
  constexpr int64_t kIterations = 1000;
  const auto call = [] {
    Real value;
    const double operations = Kernels<Real>(ActiveIsa()).fma_rounds(kIterations, &value);
    g_sink = static_cast<double>(value);
    return operations;
  };
  return {"fma", call(), call};
}

template <typename Weight>
void Read(const Weight* data, int64_t n) {
  const int64_t floats = n * static_cast<int64_t>(sizeof(Weight)) / 4;
  g_sink = static_cast<double>(
      Kernels<float>(ActiveIsa()).read_all(reinterpret_cast<const float*>(data), floats));
}

// A recurrent product's tiles of one row up to an input product's 60, at K = 800. Panels of more
// than the second-level cache holds, in the order of a recurrence (recurrence.h).
template <typename Format>
void Time(Bench* bench, kernel::Gemm<Format> kernel) {
  using Real = typename Format::Real;
  using Packed = typename Format::Packed;
  constexpr int64_t K = 800, kBytes = 5'000'000;
  const int64_t V = Kernels<Real>(ActiveIsa()).lanes;
  const int64_t tile = kTilePanels * Format::kPanel.Size(K, V);
  const int64_t tile_bytes = tile * static_cast<int64_t>(sizeof(Packed));
  const int64_t tiles = bench->options().quick ? 2 : kBytes / tile_bytes;
  const Array<Packed> panels(tiles * tile);
  const auto gemm_of_rows = kernel.Of(ActiveIsa());
  for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 40, 60}) {
    const std::string name = NameOf("tile", kernel, std::to_string(rows));
    if (!bench->Wants(name)) continue;
    const Array<Real> a(rows * K), c(rows * kTilePanels * V);
    int64_t step = 0;
    const auto sweep = [&](const auto& body) {
      SerialPhases(Execution()).Run(tiles, /*per_tile=*/1, OrderOfStep(step++), body);
    };
    const auto gemm = [&] {
      sweep([&](BlockTile at) {
        // The recurrent products prefetch, the input products (more rows) do not.
        const Packed* next = rows <= kTileRows ? panels.get() + at.next * tile : nullptr;
        gemm_of_rows({rows, K, kTilePanels, a.get(), K, panels.get() + at.begin * tile, c.get(),
                      kTilePanels * V, false, next});
      });
    };
    const auto read = [&] {
      sweep([&](BlockTile at) { Read(panels.get() + at.begin * tile, tile); });
    };
    bench->Measure(name, {{"kernel", 2.0 * static_cast<double>(rows * tiles * tile), gemm},
                          FmaProbe<Real>(),
                          {"read", static_cast<double>(tiles * tile_bytes), read}});
  }
}

// One row with weights that are not packed, of sizes for each level of cache.
template <typename Format>
void Time(Bench* bench, kernel::RowGemm<Format> kernel) {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  constexpr int64_t K = 800, row_bytes = K * static_cast<int64_t>(sizeof(Weight));
  for (int64_t bytes : {64'000, 512'000, 5'120'000}) {
    const std::string name = NameOf("row", kernel, std::to_string(bytes));
    if (!bench->Wants(name)) continue;
    const int64_t columns = bytes / row_bytes;
    const Array<Weight> w(columns * K);
    const Array<Real> a(K), c(columns);
    const auto row_gemm = [&, run = kernel.Of(ActiveIsa())] {
      run({1, K, columns, a.get(), K, w.get(), K, c.get(), columns});
    };
    const double work = static_cast<double>(columns * row_bytes);
    bench->Measure(
        name, {{"kernel", work, row_gemm}, {"read", work, [&] { Read(w.get(), columns * K); }}});
  }
}

// The panels of w [K, columns], as the backward makes them: a tile at a time.
template <typename Format>
void PackTiles(const typename Format::Weight* w, int64_t columns, int64_t K,
               typename Format::Packed* panels) {
  const int64_t V = Kernels<typename Format::Real>(ActiveIsa()).lanes, width = kTilePanels * V;
  const PanelLayout layout{columns, 1, K, V, Format::kPanel};
  for (int64_t j = 0; j < columns; j += width) {
    PackRows(Panels<Format>(ActiveIsa()), layout, w + j, columns, 0, K,
             std::min(width, columns - j), panels + layout.Offset(j / V, 0));
  }
}

// The recurrent weights [4K, K] of an LSTM with K units: pack(w, panels, K).
template <typename Format, typename Kernel, typename PackWeights>
void TimePacking(Bench* bench, Kernel kernel, const PackWeights& pack) {
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;
  for (int64_t K : {64, 800, 1024}) {
    const std::string name = NameOf(kernel.kName, kernel, std::to_string(K));
    if (!bench->Wants(name)) continue;
    const int64_t size = 4 * K * K;
    const Array<Weight> w(size);
    const Array<Packed> panels(size);
    const double work = static_cast<double>(size) * sizeof(Weight);
    bench->Measure(name, {{"kernel", work, [&] { pack(w.get(), panels.get(), K); }},
                          {"read", work, [&] { Read(w.get(), size); }}});
  }
}

// As the forward packs them.
template <typename Format>
void Time(Bench* bench, kernel::PackTransposed<Format> kernel) {
  const int64_t V = Kernels<typename Format::Real>(ActiveIsa()).lanes;
  const auto pack = kernel.Of(ActiveIsa());
  TimePacking<Format>(bench, kernel, [&](auto* w, auto* panels, int64_t K) {
    for (int64_t j = 0; j < 4 * K; j += V) pack(w + j * K, K, V, K, panels + j * K, V);
  });
}

// As the backward does.
template <typename Format>
void Time(Bench* bench, kernel::Pack<Format> kernel) {
  TimePacking<Format>(bench, kernel, [](auto* w, auto* panels, int64_t K) {
    PackTiles<Format>(w, K, 4 * K, panels);
  });
}

// Tensors of sizes for each level of cache: bytes of the 16-bit type, which are read or written.
template <typename From, typename To, typename Kernel>
void TimeConversion(Bench* bench, Kernel kernel) {
  for (int64_t bytes : {4'096, 128'000, 2'560'000}) {
    const std::string name = NameOf(kernel.kName, kernel, std::to_string(bytes));
    if (!bench->Wants(name)) continue;
    const int64_t n = bytes / 2;
    const Array<From> from(n);
    const Array<To> to(n);
    const double work = static_cast<double>(n) * sizeof(From);
    bench->Measure(name, {{"kernel", work,
                           [&, run = kernel.Of(ActiveIsa())] { run(from.get(), to.get(), n); }},
                          {"read", work, [&] { Read(from.get(), n); }}});
  }
}

template <typename Half>
void Time(Bench* bench, kernel::Widen<Half> kernel) {
  TimeConversion<Half, float>(bench, kernel);
}

template <typename Half>
void Time(Bench* bench, kernel::Narrow<Half> kernel) {
  TimeConversion<float, Half>(bench, kernel);
}

// An array in the first-level cache.
template <typename Real, typename Kernel>
void TimeActivation(Bench* bench, Kernel kernel) {
  constexpr int64_t kSize = 1024;
  const std::string name = NameOf(kernel.kName, kernel, std::to_string(kSize));
  if (!bench->Wants(name)) return;
  const Array<Real> x(kSize), y(kSize);
  bench->Measure(name, {{"kernel", static_cast<double>(kSize),
                         [&, run = kernel.Of(ActiveIsa())] { run(x.get(), y.get(), kSize); }},
                        FmaProbe<Real>()});
}

template <typename Real>
void Time(Bench* bench, kernel::Sigmoid<Real> kernel) {
  TimeActivation<Real>(bench, kernel);
}

template <typename Real>
void Time(Bench* bench, kernel::Tanh<Real> kernel) {
  TimeActivation<Real>(bench, kernel);
}

// The probes are timed beside all others.
template <typename Real>
void Time(Bench*, kernel::FmaRounds<Real>) {}
template <typename Real>
void Time(Bench*, kernel::ReadAll<Real>) {}

// The gate arithmetic of one tile of a training step of 20 sequences; everything is in the
// first-level cache.
template <typename Real>
void Time(Bench* bench, kernel::Cells<Real> kernel) {
  constexpr int64_t kRows = 20;
  for (int mode = 0; mode < kModeCount; ++mode) {
    const Cell& cell = kCells[mode];
    const int64_t G = cell.gates;
    const int64_t units = BlocksPerTile(G, kRows) * Kernels<Real>(ActiveIsa()).lanes;
    const std::string name = NameOf("gates", kernel, cell.name);
    if (!bench->Wants(name)) continue;
    const int64_t size = kRows * cell.sums() * units;  // of the largest
    const Array<Real> tile(size), gates(size), vectors(size), sums(size), gradients(size),
        value(size), h_prev(size), c_prev(size), c(size), h(size), dh(size), dc(size), out(size);
    const auto rows = [units](const Array<Real>& array) { return Rows<Real>{array.get(), units}; };
    const auto read = [units](const Array<Real>& array) {
      return Rows<const Real>{array.get(), units};
    };
    CellForwardArgs<Real> forward{};
    forward.rows = kRows;
    forward.units = units;
    forward.in[ForwardIn::kTile] = {tile.get(), G * units};
    forward.in[ForwardIn::kH] = read(h_prev);
    forward.in[ForwardIn::kCell] = read(c_prev);
    forward.out[ForwardOut::kGates] = {gates.get(), G * units};
    forward.out[ForwardOut::kValue] = rows(value);
    forward.out[ForwardOut::kCell] = rows(c);
    forward.out[ForwardOut::kH] = rows(h);
    forward.keep = true;
    forward.bias = vectors.get();
    forward.bias_stride = units;
    CellBackwardArgs<Real> backward{};
    backward.rows = kRows;
    backward.units = units;
    backward.in[BackwardIn::kTile] = backward.in[BackwardIn::kHeadGradient] = read(dh);
    backward.in[BackwardIn::kGates] = {gates.get(), G * units};
    backward.in[BackwardIn::kValue] = read(value);
    backward.in[BackwardIn::kH] = read(h);
    backward.in[BackwardIn::kPreviousH] = read(h_prev);
    backward.in[BackwardIn::kCell] = read(c);
    backward.in[BackwardIn::kPreviousCell] = read(c_prev);
    backward.in[BackwardIn::kCellGradient] = read(dc);
    backward.out[BackwardOut::kGradients] = {gradients.get(), cell.gradients * units};
    backward.out[BackwardOut::kCarry] = backward.out[BackwardOut::kCellGradient] = rows(out);
    backward.stride = units;
    backward.unit_weights = vectors.get();
    backward.sums = sums.get();
    const double work = static_cast<double>(kRows * units);
    const CellKernels<Real>& kernels = kernel.Of(ActiveIsa())[mode];
    const auto run = [&cell](auto* stages, const auto& args) {
      for (int s = 0; s < cell.stages; ++s) stages[s](args);
    };
    bench->Measure(name, {{"forward", work, [&] { run(kernels.forward, forward); }},
                          {"backward", work, [&] { run(kernels.backward, backward); }},
                          FmaProbe<Real>()});
  }
}

// c [M, panels*V] = a [M, K] times panels: chunks of rows and runs of rows and panels as
// forward_layer.h has them for its input products.
template <typename Real>
void OwnProduct(const PanelLayout& layout, int64_t M, int64_t chunk, const Real* a,
                const Real* panels, Real* c) {
  constexpr int64_t kRun = 60, kPanels = 2 * kTilePanels;
  const int64_t K = layout.K, c_ld = layout.panels() * layout.V;
  for (int64_t begin = 0; begin < M; begin += chunk) {
    const int64_t end = std::min(M, begin + chunk);
    for (int64_t p = 0; p < layout.panels(); p += kPanels) {
      const int64_t count = std::min(kPanels, layout.panels() - p);
      for (int64_t row = begin; row < end; row += kRun) {
        Panels<PlainWeights<Real, Real>>(ActiveIsa())
            .gemm({std::min(kRun, end - row), K, count, a + row * K, K, panels + p * K * layout.V,
                   c + row * c_ld + p * layout.V, c_ld, false, nullptr});
      }
    }
  }
}

// The large products of a DeepSpeech2 LSTM layer: x W^T, which the forward computes with our own
// tile, and dW = dgates^T x and dx = dgates W, for which the backward has a library. Own times
// include the packing.
template <typename Real>
void Products(Bench* bench) {
  const char* dtype = kTypeName<Real>;
  if (!bench->Wants(std::string("product/") + dtype)) return;
  Problem problem;
  problem.T = bench->options().quick ? 3 : 300;
  problem.N = 20;
  problem.I = problem.H = 800;
  const Dims dims(problem);
  const ForwardPlan plan(dims, /*training=*/true, Kernels<Real>(ActiveIsa()).lanes);
  const int64_t M = dims.T * dims.N, H = dims.H, GH = dims.G * H, chunk = plan.chunk * dims.N;
  const PanelLayout forward = plan.Input(0), backward{H, 1, GH, forward.V};
  const Array<Real> x(M * H), W(GH * H), dgates(M * GH), c(std::max(M * GH, GH * H)),
      panels(GH * H);
  const double work = 2.0 * static_cast<double>(M) * static_cast<double>(GH * H);
  const auto library = [&](const GemmArgs<Real>& args) {
    return Timed{"library", work, [args] { Gemm(Execution(), args); }};
  };
  const auto measure = [&](const char* detail, std::vector<Timed> timed) {
    const std::string name = std::string("product/") + dtype + "/" + detail;
    timed.push_back(FmaProbe<Real>());
    bench->Measure(name, timed);
  };
  measure("forward", {library({M, GH, H, x.get(), H, false, W.get(), H, true, c.get(), GH, false}),
                      {"own", work, [&] {
                         PackBlocks(Panels<PlainWeights<Real, Real>>(ActiveIsa()), forward, W.get(),
                                    0, forward.blocks(), panels.get());
                         OwnProduct(forward, M, chunk, x.get(), panels.get(), c.get());
                       }}});
  measure("dW",
          {library({GH, H, M, dgates.get(), GH, true, x.get(), H, false, c.get(), H, false})});
  measure("dx", {library({M, H, GH, dgates.get(), GH, false, W.get(), H, false, c.get(), H, false}),
                 {"own", work, [&] {
                    PackTiles<PlainWeights<Real, Real>>(W.get(), H, GH, panels.get());
                    OwnProduct(backward, M, chunk, dgates.get(), panels.get(), c.get());
                  }}});
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("--quick")) {
      options.quick = true;
      options.seconds = 0;
      options.rounds = 1;
    } else if (is("--only") && i + 1 < argc) {
      options.only = argv[++i];
    } else if (is("--calls") && i + 1 < argc) {
      options.calls = std::atoll(argv[++i]);
    } else {
      std::fprintf(stderr,
                   "expected [--quick] [--only NAME_OR_FIRST_PARTS] [--calls NUMBER], got %s\n",
                   argv[i]);
      std::exit(2);
    }
  }
  return options;
}

void Run(const Options& options) {
  Bench bench(options);
  SetNumThreads(1);
  const FlushSubnormals flush;  // as the passes do
  std::printf(
      "{\"isa\": \"%s\", \"lanes\": %d, \"backend\": \"%s\", \"compiler\": \"GCC %s\", "
      "\"entries\": [",
      IsaName(), Kernels<float>(ActiveIsa()).lanes, GemmBackend(), __VERSION__);
  ForEachKernel([&](auto kernel) { Time(&bench, kernel); });
  if (ActiveIsa() == DetectedIsa()) {  // libraries choose theirs for themselves
    Products<float>(&bench);
    Products<double>(&bench);
  }
  std::printf("\n]}\n");
}

}  // namespace
}  // namespace fused_rnn

int main(int argc, char** argv) try {
  fused_rnn::Run(fused_rnn::Parse(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
