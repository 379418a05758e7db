// One layer of the forward pass: its input projection and its recurrence.
#ifndef FUSED_RNN_RNN_FORWARD_LAYER_H_
#define FUSED_RNN_RNN_FORWARD_LAYER_H_

#include <algorithm>

#include "kernels/kernel_table.h"
#include "rnn/gemm.h"
#include "rnn/memory_plan.h"
#include "rnn/recurrence.h"
#include "rnn/rows.h"
#include "rnn/steps.h"

namespace fused_rnn {

// One direction of one layer. Row i of a step is at row(t) + i in arrays of [rows, ...].
template <typename Real, typename Weight>
struct ForwardDirection {
  const Real* W;
  const Weight* R;
  const Weight* Wp;
  const Real* bW;
  const Real* bR;
  const Real* h0;      // [N, S], packed order
  const Real* c0;      // [N, H], packed order
  Real* bias;          // [G*H], then [H]: see ForwardPlan
  Weight* panels;      // of R
  Weight* projection;  // panels of Wp
  Real* gates;         // [rows, gates_ld]
  int64_t gates_ld;
  Real* c;            // [rows, H] if c_per_step, else [N, H]
  Real* unprojected;  // [N, H]
  Real* y;            // [rows, y_ld]: this direction's columns
  int64_t y_ld;
};

template <typename Real, typename Weight>
class LayerForward {
 public:
  LayerForward(const Dims& dims, const Steps& steps, const ForwardPlan& plan, bool training)
      : dims_(dims), steps_(steps), plan_(plan), training_(training) {}

  ForwardDirection<Real, Weight>& direction(int64_t d) { return direction_[d]; }
  bool training() const { return training_; }

  // input [rows, input_size]
  void Run(const Real* input, int64_t input_size) {
    for (int64_t d = 0; d < dims_.D; ++d) {
      const ForwardDirection<Real, Weight>& dir = direction_[d];
      FoldBiases(dir);
      Gemm({steps_.rows(), dims_.G * dims_.H, input_size, input, input_size, false, dir.W,
            input_size, true, dir.gates, dir.gates_ld, false, dir.bias});
    }
    const double step_work = static_cast<double>(dims_.N) * dims_.G * dims_.H * dims_.S;
    RunDirections(dims_.D, dims_.D * dims_.T * step_work, step_work,
                  [&](int64_t d, DirectionPhases& phases) { RunRecurrence(d, phases); });
  }

  // The state after sequence i's own last step, or the initial one if it has none: [S], [H].
  const Real* LastHidden(int64_t d, int64_t i) const {
    const ForwardDirection<Real, Weight>& dir = direction_[d];
    if (steps_.length(i) == 0) return dir.h0 + i * dims_.S;
    return dir.y + LastRow(d, i) * dir.y_ld;
  }
  const Real* LastCell(int64_t d, int64_t i) const {
    const ForwardDirection<Real, Weight>& dir = direction_[d];
    if (steps_.length(i) == 0) return dir.c0 + i * dims_.H;
    return dir.c + (training_ ? LastRow(d, i) : i) * dims_.H;
  }

 private:
  int64_t LastRow(int64_t d, int64_t i) const {
    return steps_.row(d == 0 ? steps_.length(i) - 1 : 0) + i;
  }

  // Both biases are added with the input projection, but for a GRU's n gate, whose bR is inside the
  // reset product.
  void FoldBiases(const ForwardDirection<Real, Weight>& dir) const {
    const int64_t GH = dims_.G * dims_.H, folded = dims_.gru() ? 2 * dims_.H : GH;
    for (int64_t j = 0; j < folded; ++j) dir.bias[j] = dir.bW[j] + dir.bR[j];
    if (dims_.gru()) {
      std::copy(dir.bW + folded, dir.bW + GH, dir.bias + folded);
      std::copy(dir.bR + folded, dir.bR + GH, dir.bias + GH);
    }
  }

  void RunRecurrence(int64_t d, DirectionPhases& phases) const {
    const ForwardDirection<Real, Weight>& dir = direction_[d];
    const int64_t blocks = plan_.recurrent.blocks(), per_tile = BlocksPerTile(dims_.G);
    if (plan_.packs) {  // The owner packs, so that the panels are in its cache.
      phases.Run(blocks, per_tile, [&](BlockTile tile) { Pack(dir, tile); });
      phases.Run(plan_.projection.blocks(), BlocksPerTile(1),
                 [&](BlockTile tile) { PackProjection(dir, tile); });
    }
    for (int64_t s = 0; s < steps_.T(); ++s) {
      const Step step = StepOf(steps_, d, s, /*backward=*/false);
      phases.Run(blocks, per_tile, [&](BlockTile tile) {
        RunRows(dir, step, 0, step.continuing, dir.y + step.prev_row * dir.y_ld, dir.y_ld,
                CellRows(dir, step.prev_row), tile);
        RunRows(dir, step, step.continuing, step.n, dir.h0, dims_.S, dir.c0, tile);
      });
      phases.Run(plan_.projection.blocks(), BlocksPerTile(1),
                 [&](BlockTile tile) { Project(dir, step, tile); });
    }
  }

  Real* CellRows(const ForwardDirection<Real, Weight>& dir, int64_t row) const {
    return training_ ? dir.c + row * dims_.H : dir.c;
  }

  void Pack(const ForwardDirection<Real, Weight>& dir, BlockTile tile) const {
    const PanelLayout& layout = plan_.recurrent;
    for (int64_t b = tile.begin; b < tile.begin + tile.count; ++b) {
      for (int64_t g = 0; g < dims_.G; ++g) {
        panel_kernels_.pack_transposed(dir.R + (g * dims_.H + b * layout.V) * dims_.S, dims_.S,
                                       layout.ColumnsOf(b), layout.K,
                                       dir.panels + layout.Offset(b, g));
      }
    }
  }

  void PackProjection(const ForwardDirection<Real, Weight>& dir, BlockTile tile) const {
    const PanelLayout& layout = plan_.projection;
    for (int64_t b = tile.begin; b < tile.begin + tile.count; ++b) {
      panel_kernels_.pack_transposed(dir.Wp + b * layout.V * dims_.H, dims_.H, layout.ColumnsOf(b),
                                     dims_.H, dir.projection + layout.Offset(b, 0));
    }
  }

  // tile [rows, count*gates*V] = a [rows, K] times the weights of `blocks`: from their panels if
  // they are packed, else from the matrix w [gates*columns, K] itself.
  void Product(const PanelLayout& layout, const Weight* w, const Weight* panels, BlockTile blocks,
               const Real* a, int64_t a_ld, int64_t rows, bool prefetch, Real* tile) const {
    const int64_t V = layout.V, G = layout.gates, K = layout.K, tile_ld = blocks.count * G * V;
    if (plan_.packs) {
      panel_kernels_.gemm({rows, K, blocks.count * G, a, a_ld,
                           panels + layout.Offset(blocks.begin, 0), tile, tile_ld, false,
                           prefetch ? panels + layout.Offset(blocks.next, 0) : nullptr});
      return;
    }
    for (int64_t b = 0; b < blocks.count; ++b) {
      const int64_t block = blocks.begin + b, columns = layout.ColumnsOf(block);
      for (int64_t g = 0; g < G; ++g) {
        Real* c = tile + (b * G + g) * V;
        panel_kernels_.row_gemm(
            {rows, K, columns, a, a_ld, w + (g * layout.columns + block * V) * K, K, c, tile_ld});
        // The lanes beyond the last column are computed with, as those of a panel are, and not
        // stored.
        for (int64_t r = 0; r < rows; ++r) {
          std::fill(c + r * tile_ld + columns, c + r * tile_ld + V, Real(0));
        }
      }
    }
  }

  // Rows [begin, end) of a step, whose previous states are rows of h_prev and c_prev with the same
  // index.
  void RunRows(const ForwardDirection<Real, Weight>& dir, const Step& step, int64_t begin,
               int64_t end, const Real* h_prev, int64_t h_prev_ld, const Real* c_prev,
               BlockTile blocks) const {
    if (begin == end) return;
    const PanelLayout& layout = plan_.recurrent;
    const int64_t G = dims_.G, H = dims_.H, V = layout.V, row0 = step.row;
    Real* c_rows = CellRows(dir, row0);
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const int64_t unit = blocks.begin * V, units = std::min(blocks.count * V, H - unit);
    const int64_t tile_ld = blocks.count * G * V;
    ForEachRowRun(begin, end, [&](int64_t row, int64_t rows) {
      Real* gates = dir.gates + (row0 + row) * dir.gates_ld + unit;
      PrefetchGates(gates, dir.gates_ld, rows, units);
      Product(layout, dir.R, dir.panels, blocks, h_prev + row * h_prev_ld, h_prev_ld, rows,
              /*prefetch=*/row == begin, tile);
      CellForwardArgs<Real> cell{};
      cell.rows = rows;
      cell.units = units;
      cell.tile = tile;
      cell.tile_ld = tile_ld;
      cell.gates = gates;
      cell.gates_ld = dir.gates_ld;
      cell.gate_stride = H;
      cell.keep = training_ && dims_.kept_gates > 0;
      if (dims_.gru()) {
        cell.bias_n = dir.bias + G * H + unit;
        cell.h_prev = h_prev + row * h_prev_ld + unit;
        cell.h_prev_ld = h_prev_ld;
      }
      if (dims_.lstm()) {
        cell.c_prev = c_prev + row * H + unit;
        cell.c = c_rows + row * H + unit;
        cell.c_prev_ld = cell.c_ld = H;
        cell.clip = dims_.clip;
        cell.clip_nan = dims_.clip_nan;
        cell.clip_min = static_cast<Real>(dims_.clip_min);
        cell.clip_max = static_cast<Real>(dims_.clip_max);
      }
      cell.h = dims_.projected() ? dir.unprojected + row * H + unit
                                 : dir.y + (row0 + row) * dir.y_ld + unit;
      cell.h_ld = dims_.projected() ? H : dir.y_ld;
      kernels_.cell_forward[static_cast<int>(dims_.mode)](cell);
    });
  }

  // The projected inputs of a tile are rows * G short pieces far apart, which the hardware does not
  // foresee.
  void PrefetchGates(const Real* gates, int64_t gates_ld, int64_t rows, int64_t units) const {
    constexpr int64_t kLine = 64 / sizeof(Real);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t g = 0; g < dims_.G; ++g) {
        for (int64_t j = 0; j < units; j += kLine)
          __builtin_prefetch(gates + i * gates_ld + g * dims_.H + j, 1, 2);
      }
    }
  }

  // h = Wp (o tanh(c)) for the columns of `blocks`.
  void Project(const ForwardDirection<Real, Weight>& dir, const Step& step,
               BlockTile blocks) const {
    const PanelLayout& layout = plan_.projection;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const int64_t column = blocks.begin * layout.V;
    const int64_t columns = std::min(blocks.count * layout.V, dims_.P - column);
    const int64_t tile_ld = blocks.count * layout.V;
    ForEachRowRun(0, step.n, [&](int64_t row, int64_t rows) {
      Product(layout, dir.Wp, dir.projection, blocks, dir.unprojected + row * dims_.H, dims_.H,
              rows, /*prefetch=*/false, tile);
      for (int64_t i = 0; i < rows; ++i) {
        const Real* from = tile + i * tile_ld;
        std::copy(from, from + columns, dir.y + (step.row + row + i) * dir.y_ld + column);
      }
    });
  }

  const Dims& dims_;
  const Steps& steps_;
  const ForwardPlan& plan_;
  const bool training_;
  const KernelTable<Real>& kernels_ = Kernels<Real>();
  const PanelKernels<Real, Weight>& panel_kernels_ = Panels<Real, Weight>();
  ForwardDirection<Real, Weight> direction_[2];
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_FORWARD_LAYER_H_
