// One layer of the forward pass, in one parallel region. Each thread owns some hidden units in all
// their gates and packs their weights once. It projects the inputs of a chunk of time steps for its
// units, then at each step multiplies h_{t-1} with their recurrent weights and applies the gate
// arithmetic while the product is in its cache.
#ifndef FUSED_RNN_RNN_FORWARD_LAYER_H_
#define FUSED_RNN_RNN_FORWARD_LAYER_H_

#include <algorithm>

#include "base/profile.h"
#include "kernels/kernel_table.h"
#include "rnn/memory_plan.h"
#include "rnn/packed_weights.h"
#include "rnn/recurrence.h"
#include "rnn/rows.h"
#include "rnn/steps.h"

namespace fused_rnn {

// One direction of one layer. Row i of a step is at row(t) + i in arrays of [rows, ...].
template <typename Format>
struct ForwardDirection {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;
  const Weight* W;
  const Weight* R;
  const Weight* Wp;
  const Weight* bW;
  const Weight* bR;
  const Weight* unit_weights;  // [cell.unit_weights, H]
  const Real* h0;              // [N, S], packed order
  const Real* c0;              // [N, H], packed order
  Real* bias;                  // see CellForwardArgs
  bool packed;                 // bias and panels are there already
  Packed* input_panels;  // of W; like the following null if weights are to be read as they are
  Packed* panels;        // of R
  Packed* projection;    // panels of Wp
  Real* gates;           // [rows, G*Hp] if kept, else [chunk*N, G*Hp]
  Real* value;           // [rows, Hp] in training, else [N, Hp]; null if the cell has none
  Real* c;               // [rows, H] in training, else [N, H]; null without a cell state
  Real* unprojected;     // [N, H]
  Real* y;               // [rows, y_ld]: this direction's columns
  int64_t y_ld;
};

template <typename Format>
class LayerForward {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;

 public:
  LayerForward(const Execution& execution, const Dims& dims, const Steps& steps,
               const ForwardPlan& plan, bool training)
      : execution_(execution), dims_(dims), steps_(steps), plan_(plan), training_(training) {}

  ForwardDirection<Format>& direction(int64_t d) { return direction_[d]; }
  bool keeps_gates() const { return training_ && dims_.kept_gates > 0; }

  // x [rows, input.K]
  void Run(const Real* x, const PanelLayout& input) {
    x_ = x;
    input_ = input;
    for (int64_t d = 0; d < dims_.D; ++d) {
      const ForwardDirection<Format>& dir = direction_[d];
      if (!dir.packed) FoldBiases(dims_, dir.bW, dir.bR, dir.unit_weights, dir.bias);
    }
    const double step_work = static_cast<double>(dims_.N) * dims_.G * dims_.H * dims_.S;
    const double work =
        static_cast<double>(steps_.rows()) * dims_.G * dims_.H * (dims_.S + input.K);
    RunDirections(execution_, dims_.D, dims_.D * work, step_work,
                  [&](int64_t d, DirectionPhases& phases) { RunDirection(d, phases); });
  }

  // The state after sequence i's own last step, or the initial one if it has none: [S], [H].
  const Real* LastHidden(int64_t d, int64_t i) const {
    const ForwardDirection<Format>& dir = direction_[d];
    if (steps_.length(i) == 0) return dir.h0 + i * dims_.S;
    return dir.y + LastRow(d, i) * dir.y_ld;
  }
  const Real* LastCell(int64_t d, int64_t i) const {
    const ForwardDirection<Format>& dir = direction_[d];
    if (steps_.length(i) == 0) return dir.c0 + i * dims_.H;
    return dir.c + (training_ ? LastRow(d, i) : i) * dims_.H;
  }

 private:
  // An input tile is so many cell tiles, and its rows are taken so many at a time: then the rows
  // stay in the second-level cache while the panels of the tile pass by, and the panels in the
  // third.
  static constexpr int64_t kInputTiles = 2;
  static constexpr int64_t kInputRows = 60;

  int64_t LastRow(int64_t d, int64_t i) const {
    return steps_.row(d == 0 ? steps_.length(i) - 1 : 0) + i;
  }

  void RunDirection(int64_t d, DirectionPhases& phases) const {
    const ForwardDirection<Format>& dir = direction_[d];
    const int64_t blocks = plan_.recurrent.blocks(), per_tile = BlocksPerTile(dims_.G, kInputRows);
    if (!dir.packed) PackOwn(dir, phases);
    for (int64_t begin = 0; begin < steps_.T(); begin += plan_.chunk) {
      const int64_t end = std::min(steps_.T(), begin + plan_.chunk);
      const Range rows = RowsOf(d, begin, end);
      const int64_t gates_row =
          keeps_gates() ? 0 : rows.begin;  // the row that dir.gates begins with
      phases.Run(blocks, kInputTiles * per_tile, Order::kForth,
                 [&](BlockTile tile) { ProjectInput(dir, rows, gates_row, tile); });
      phases.RunSteps([&](auto& step_phases) {
        for (int64_t s = begin; s < end; ++s) {
          RunStep(dir, StepOf(steps_, d, s, /*backward=*/false), gates_row, step_phases);
        }
      });
    }
  }

  // The owner packs, so that the panels are in its cache.
  void PackOwn(const ForwardDirection<Format>& dir, DirectionPhases& phases) const {
    const auto pack = [this](const PanelLayout& layout, const Weight* w, BlockTile tile,
                             Packed* panels) {
      if (panels != nullptr) PackBlocks(panel_kernels_, layout, w, tile.begin, tile.count, panels);
    };
    phases.Run(plan_.recurrent.blocks(), BlocksPerTile(dims_.G, kInputRows), Order::kForth,
               [&](BlockTile tile) {
                 const StageTimer timer(Stage::kPacking);
                 pack(input_, dir.W, tile, dir.input_panels);
                 if (dir.panels == nullptr) return;
                 for (int s = 0; s < cell_.stages; ++s) {
                   pack(plan_.recurrent.stage[s], WeightsOf(dir, s), tile, PanelsOf(dir, s));
                 }
               });
    phases.Run(plan_.projection.blocks(), BlocksPerTile(1, kInputRows), Order::kForth,
               [&](BlockTile tile) { pack(plan_.projection, dir.Wp, tile, dir.projection); });
  }

  template <typename Phases>
  void RunStep(const ForwardDirection<Format>& dir, const Step& step, int64_t gates_row,
               Phases& phases) const {
    const Order order = OrderOfStep(step.t);
    const Previous continuing{{dir.y + step.prev_row * dir.y_ld, dir.y_ld},
                              {StepRows(dir.c, step.prev_row, dims_.H), dims_.H}};
    const Previous beginning{{dir.h0, dims_.S}, {dir.c0, dims_.H}};
    for (int s = 0; s < cell_.stages; ++s) {
      const int64_t per_tile = BlocksPerTile(cell_.stage_gates[s], step.n);
      phases.Run(plan_.recurrent.blocks(), per_tile, order, [&](BlockTile tile) {
        RunRows(dir, step, s, {0, step.continuing}, continuing, gates_row, tile);
        RunRows(dir, step, s, {step.continuing, step.n}, beginning, gates_row, tile);
      });
    }
    phases.Run(plan_.projection.blocks(), BlocksPerTile(1, step.n), order,
               [&](BlockTile tile) { Project(dir, step, tile); });
  }

  // The rows of steps [begin, end) of direction d.
  Range RowsOf(int64_t d, int64_t begin, int64_t end) const {
    const int64_t a = steps_.TimeOf(d, begin), b = steps_.TimeOf(d, end - 1);
    return {steps_.row(std::min(a, b)), steps_.row(std::max(a, b) + 1)};
  }

  // The rows of a step that begins at `row`, of an array that has rows for all steps in training
  // and else for one. Null stays null.
  template <typename T>
  T* StepRows(T* data, int64_t row, int64_t ld) const {
    return training_ && data != nullptr ? data + row * ld : data;
  }

  const Weight* WeightsOf(const ForwardDirection<Format>& dir, int stage) const {
    return dir.R + cell_.FirstGate(stage) * dims_.H * dims_.S;
  }
  // Null if they are not packed.
  Packed* PanelsOf(const ForwardDirection<Format>& dir, int stage) const {
    return dir.panels != nullptr ? dir.panels + plan_.recurrent.Offset(stage) : nullptr;
  }

  // W x for rows `rows` and the units of `tile`.
  void ProjectInput(const ForwardDirection<Format>& dir, Range rows, int64_t gates_row,
                    BlockTile tile) const {
    const StageTimer timer(Stage::kInputProducts);
    const int64_t K = input_.K, width = dims_.G * input_.V, ld = dims_.G * input_.padded_columns();
    for (int64_t row = rows.begin; row < rows.end; row += kInputRows) {
      const int64_t count = std::min(kInputRows, rows.end - row);
      Real* gates = dir.gates + (row - gates_row) * ld + tile.begin * width;
      if (K == 0) {
        for (int64_t i = 0; i < count; ++i)
          std::fill_n(gates + i * ld, tile.count * width, Real(0));
      } else {
        Product(input_, dir.W, dir.input_panels, tile, x_ + row * K, K, count, /*prefetch=*/false,
                gates, ld);
      }
    }
  }

  // tile [rows, count*gates*V] = a [rows, K] times the weights of `blocks`: from their panels if
  // they are packed, else from the matrix w [gates*columns, K] itself.
  void Product(const PanelLayout& layout, const Weight* w, const Packed* panels, BlockTile blocks,
               const Real* a, int64_t a_ld, int64_t rows, bool prefetch, Real* c,
               int64_t c_ld) const {
    const int64_t V = layout.V, G = layout.gates, K = layout.K;
    if (panels != nullptr) {
      panel_kernels_.gemm({rows, K, blocks.count * G, a, a_ld,
                           panels + layout.Offset(blocks.begin, 0), c, c_ld, false,
                           prefetch ? panels + layout.Offset(blocks.next, 0) : nullptr});
      return;
    }
    for (int64_t b = 0; b < blocks.count; ++b) {
      const int64_t block = blocks.begin + b, columns = layout.ColumnsOf(block);
      for (int64_t g = 0; g < G; ++g) {
        Real* part = c + (b * G + g) * V;
        panel_kernels_.row_gemm(
            {rows, K, columns, a, a_ld, w + (g * layout.columns + block * V) * K, K, part, c_ld});
        // The lanes beyond the last column are computed with, as those of a panel are, and not
        // stored.
        for (int64_t r = 0; r < rows; ++r) {
          std::fill(part + r * c_ld + columns, part + r * c_ld + V, Real(0));
        }
      }
    }
  }

  // The states before a step, as many rows as the step has.
  struct Previous {
    Rows<const Real> h, c;
  };

  // A stage of a step, for `rows` of it and the units of `blocks`.
  void RunRows(const ForwardDirection<Format>& dir, const Step& step, int stage, Range rows,
               const Previous& previous, int64_t gates_row, BlockTile blocks) const {
    if (rows.begin == rows.end) return;
    const PanelLayout& layout = plan_.recurrent.stage[stage];
    const int64_t G = dims_.G, H = dims_.H, V = layout.V, Hp = layout.padded_columns();
    const int64_t unit = blocks.begin * V, units = std::min(blocks.count * V, H - unit);
    const int64_t gates_width = blocks.count * G * V, tile_ld = blocks.count * layout.gates * V;
    const Rows<Real> gates{dir.gates + (step.row - gates_row) * G * Hp + unit * G, G * Hp};
    const Rows<Real> value{StepRows(dir.value, step.row, Hp), Hp};
    const Rows<Real> c{StepRows(dir.c, step.row, H), H};
    const Rows<Real> h = dims_.projected() ? Rows<Real>{dir.unprojected, H}
                                           : Rows<Real>{dir.y + step.row * dir.y_ld, dir.y_ld};
    const Rows<const Real> input = stage == 0 ? previous.h : Rows<const Real>{value.data, Hp};
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    CellForwardArgs<Real> cell{};
    cell.units = units;
    cell.keep = training_;
    cell.bias = dir.bias + unit;
    cell.bias_stride = H;
    cell.clip = dims_.clip;
    cell.clip_nan = dims_.clip_nan;
    cell.clip_min = static_cast<Real>(dims_.clip_min);
    cell.clip_max = static_cast<Real>(dims_.clip_max);
    ForEachRowRun(rows.begin, rows.end, [&](int64_t row, int64_t count) {
      PrefetchRows(gates.At(row), gates.ld, count, gates_width);
      {
        const StageTimer timer(Stage::kRecurrentProducts);
        Product(layout, WeightsOf(dir, stage), PanelsOf(dir, stage), blocks, input.At(row),
                input.ld, count, /*prefetch=*/row == rows.begin, tile, tile_ld);
      }
      cell.rows = count;
      cell.in[ForwardIn::kTile] = {tile, tile_ld};
      cell.in[ForwardIn::kH] = previous.h.From(row, unit);
      cell.in[ForwardIn::kCell] = previous.c.From(row, unit);
      cell.out[ForwardOut::kGates] = gates.From(row, 0);
      cell.out[ForwardOut::kValue] = value.From(row, unit);
      cell.out[ForwardOut::kCell] = c.From(row, unit);
      cell.out[ForwardOut::kH] = h.From(row, unit);
      const StageTimer timer(Stage::kGates);
      kernels_.cells[static_cast<int>(dims_.mode)].forward[stage](cell);
    });
  }

  // h = Wp (o tanh(c)) for the columns of `blocks`.
  void Project(const ForwardDirection<Format>& dir, const Step& step, BlockTile blocks) const {
    const StageTimer timer(Stage::kRecurrentProducts);
    const PanelLayout& layout = plan_.projection;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const int64_t column = blocks.begin * layout.V;
    const int64_t columns = std::min(blocks.count * layout.V, dims_.P - column);
    const int64_t tile_ld = blocks.count * layout.V;
    ForEachRowRun(0, step.n, [&](int64_t row, int64_t rows) {
      Product(layout, dir.Wp, dir.projection, blocks, dir.unprojected + row * dims_.H, dims_.H,
              rows, /*prefetch=*/false, tile, tile_ld);
      for (int64_t i = 0; i < rows; ++i) {
        const Real* from = tile + i * tile_ld;
        std::copy(from, from + columns, dir.y + (step.row + row + i) * dir.y_ld + column);
      }
    });
  }

  const Execution& execution_;
  const Dims& dims_;
  const Cell& cell_ = dims_.cell();
  const Steps& steps_;
  const ForwardPlan& plan_;
  const bool training_;
  const Real* x_ = nullptr;
  PanelLayout input_{};
  const KernelTable<Real>& kernels_ = Kernels<Real>(execution_.isa());
  const PanelKernels<Format>& panel_kernels_ = Panels<Format>(execution_.isa());
  ForwardDirection<Format> direction_[2];
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_FORWARD_LAYER_H_
