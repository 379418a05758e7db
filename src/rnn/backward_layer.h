// One layer of the backward pass: its recurrence from the last step to the first.
#ifndef FUSED_RNN_RNN_BACKWARD_LAYER_H_
#define FUSED_RNN_RNN_BACKWARD_LAYER_H_

#include <algorithm>
#include <type_traits>

#include "base/profile.h"
#include "kernels/kernel_table.h"
#include "rnn/large_products.h"
#include "rnn/memory_plan.h"
#include "rnn/pack.h"
#include "rnn/recurrence.h"
#include "rnn/rows.h"
#include "rnn/steps.h"

namespace fused_rnn {

template <typename Format>
class LayerBackward {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;

 public:
  LayerBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                const BackwardPlan& plan)
      : execution_(execution),
        dims_(dims),
        steps_(steps),
        plan_(plan),
        Hp_(PanelLayout{dims.H, 1, 0, plan.recurrent.V()}.padded_columns()),
        gates_ld_(dims.kept_gates * Hp_),
        gradients_ld_(dims.cell().gradients * dims.H) {}

  int64_t Hp() const { return Hp_; }

  BackwardDirection<Format>& direction(int64_t d) { return direction_[d]; }

  void RunRecurrence() {
    const double step_work = static_cast<double>(dims_.N) * dims_.G * dims_.H * dims_.S;
    RunDirections(execution_, dims_.D, dims_.D * dims_.T * step_work, step_work,
                  [&](int64_t d, DirectionPhases& phases) { RunDirection(d, phases); });
    for (int64_t d = 0; d < dims_.D; ++d) PassEmptySequences(direction_[d]);
  }

 private:
  // Without projection a thread owns hidden units, which are the columns of R^T. With it, the
  // columns of R^T are those of h, and the hidden units are the columns of Wp^T.
  void RunDirection(int64_t d, DirectionPhases& phases) const {
    const BackwardDirection<Format>& dir = direction_[d];
    const int64_t blocks = plan_.recurrent.blocks(), projected_blocks = plan_.projection.blocks();
    const int64_t per_tile = BlocksPerTile(1, dims_.N);
    phases.Run(blocks, per_tile, Order::kForth, [&](BlockTile tile) {
      const StageTimer timer(Stage::kPacking);
      Pack(dir, tile);
      if (!dims_.projected()) ClearSums(dir, tile);
    });
    phases.Run(projected_blocks, per_tile, Order::kForth, [&](BlockTile tile) {
      PackProjection(dir, tile);
      ClearSums(dir, tile);
    });
    phases.RunSteps([&](auto& step_phases) {
      for (int64_t s = 0; s <= steps_.T(); ++s) {
        const Step step = StepOf(steps_, d, s, /*backward=*/true);
        const Order order = OrderOfStep(s);
        step_phases.Run(blocks, per_tile, order, [&](BlockTile tile) {
          if (dims_.projected()) {
            RunHidden(dir, step, tile);
          } else {
            RunStep(dir, step, d, tile);
          }
        });
        step_phases.Run(projected_blocks, per_tile, order,
                        [&](BlockTile tile) { RunProjected(dir, step, d, tile); });
        for (int stage = cell_.stages - 2; stage >= 0; --stage) {
          step_phases.Run(blocks, per_tile, order,
                          [&](BlockTile tile) { RunEarlierStage(dir, step, d, stage, tile); });
        }
      }
    });
  }

  // Rows [k, k + K) of the panels of `tile`, from w [K, ld].
  void PackTile(const PanelLayout& layout, const Weight* w, int64_t ld, int64_t k, int64_t K,
                BlockTile tile, Packed* panels) const {
    const int64_t column = tile.begin * layout.V;
    const int64_t columns = std::min(tile.count * layout.V, layout.columns - column);
    PackRows(panel_kernels_, layout, w + column, ld, k, K, columns,
             panels + layout.Offset(tile.begin, 0));
  }

  // Rows k of a stage's panels are those of R that belong to the stage's gradient k.
  void Pack(const BackwardDirection<Format>& dir, BlockTile tile) const {
    const int64_t H = dims_.H, S = dims_.S;
    for (int i = 0; i < cell_.parts; ++i) {
      const RecurrentPart& part = cell_.part[i];
      const int64_t k = (part.gradient - cell_.FirstGradient(part.stage)) * H;
      PackTile(plan_.recurrent.stage[part.stage], dir.R + part.gate * H * S, S, k, part.count * H,
               tile, dir.panels + plan_.recurrent.Offset(part.stage));
    }
  }

  void PackProjection(const BackwardDirection<Format>& dir, BlockTile tile) const {
    PackTile(plan_.projection, dir.Wp, dims_.H, 0, dims_.P, tile, dir.projection);
  }

  void ClearSums(const BackwardDirection<Format>& dir, BlockTile tile) const {
    const int64_t V = plan_.recurrent.V(), H = dims_.H;
    const int64_t begin = tile.begin * V, end = std::min(H, begin + tile.count * V);
    for (int64_t k = 0; k < cell_.sums(); ++k) {
      std::fill(dir.sums + k * H + begin, dir.sums + k * H + end, Real(0));
    }
  }

  // tile = a stage's gradients, rows [row, row + rows) of them, times the panels of `blocks`.
  void RecurrentTile(const BackwardDirection<Format>& dir, int stage, BlockTile blocks, int64_t row,
                     int64_t rows, bool prefetch, Real* tile) const {
    const StageTimer timer(Stage::kRecurrentProducts);
    const PanelLayout& layout = plan_.recurrent.stage[stage];
    const Packed* panels = dir.panels + plan_.recurrent.Offset(stage);
    const Real* gradients =
        dir.gradients + row * gradients_ld_ + cell_.FirstGradient(stage) * dims_.H;
    panel_kernels_.gemm({rows, layout.K, blocks.count, gradients, gradients_ld_,
                         panels + layout.Offset(blocks.begin, 0), tile, blocks.count * layout.V,
                         false, prefetch ? panels + layout.Offset(blocks.next, 0) : nullptr});
  }

  // Of rows of `step` that continue: the gradient of the state before, as the step before left it.
  void PreviousTile(const BackwardDirection<Format>& dir, const Step& step, BlockTile blocks,
                    int64_t row, int64_t rows, Real* tile) const {
    RecurrentTile(dir, 0, blocks, step.prev_row + row, rows, /*prefetch=*/row == 0, tile);
  }

  // One step without projection, for the hidden units of `blocks`.
  void RunStep(const BackwardDirection<Format>& dir, const Step& step, int64_t d,
               BlockTile blocks) const {
    const int64_t V = plan_.recurrent.V(), H = dims_.H;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const int64_t unit = blocks.begin * V, units = std::min(blocks.count * V, H - unit),
                  tile_ld = blocks.count * V;
    ForEachRowRun(0, step.continuing, [&](int64_t row, int64_t rows) {
      PrefetchRows(dir.gates + (step.row + row) * gates_ld_ + unit * dims_.kept_gates, gates_ld_,
                   dims_.kept_gates > 0 ? rows : 0, dims_.kept_gates * tile_ld);
      PreviousTile(dir, step, blocks, row, rows, tile);
      RunCell(dir, step, d, cell_.stages - 1, {row, row + rows}, unit, units, {tile, tile_ld},
              Rows<const Real>{dir.carry, H}.From(row, unit));
    });
    if (step.continuing < step.n) {
      RunCell(dir, step, d, cell_.stages - 1, {step.continuing, step.n}, unit, units, {},
              Rows<const Real>{dir.dhN, H}.From(step.continuing, unit));
    }
    ForEachRowRun(step.continuing, step.prev_n, [&](int64_t row, int64_t rows) {
      if (dir.dh0.data != nullptr) {
        PreviousTile(dir, step, blocks, row, rows, tile);
        EndHidden(dir, row, rows, unit, units, tile, tile_ld);
      }
      EndCell(dir, row, rows, unit, units);
    });
  }

  // With projection, first half of a step: dh for the columns of `blocks`.
  void RunHidden(const BackwardDirection<Format>& dir, const Step& step, BlockTile blocks) const {
    const int64_t V = plan_.recurrent.V(), P = dims_.P;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const auto store = [&](int64_t row, int64_t column, int64_t columns, const Real* recurrent) {
      const int64_t at = step.row + row;
      for (int64_t j = 0; j < columns; ++j) {
        Real dh = dir.dy != nullptr ? dir.dy[at * dir.y_ld + column + j] : Real(0);
        if (recurrent != nullptr) dh += recurrent[j];
        dir.dh[at * P + column + j] = dh;
      }
    };
    const int64_t column = blocks.begin * V, columns = std::min(blocks.count * V, P - column),
                  tile_ld = blocks.count * V;
    ForEachRowRun(0, step.prev_n, [&](int64_t row, int64_t rows) {
      PreviousTile(dir, step, blocks, row, rows, tile);
      const int64_t going = std::max<int64_t>(0, std::min(rows, step.continuing - row));
      for (int64_t i = 0; i < going; ++i) store(row + i, column, columns, tile + i * tile_ld);
      EndHidden(dir, row + going, rows - going, column, columns, tile + going * tile_ld, tile_ld);
    });
    for (int64_t row = step.continuing; row < step.n; ++row) {
      store(row, column, columns, dir.dhN != nullptr ? dir.dhN + row * P + column : nullptr);
    }
  }

  // With projection, second half: dh Wp, then the gate arithmetic for the hidden units of `blocks`.
  void RunProjected(const BackwardDirection<Format>& dir, const Step& step, int64_t d,
                    BlockTile blocks) const {
    const PanelLayout& layout = plan_.projection;
    const int64_t V = layout.V, H = dims_.H, P = dims_.P;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const int64_t unit = blocks.begin * V, units = std::min(blocks.count * V, H - unit),
                  tile_ld = blocks.count * V;
    const auto run = [&](int64_t row, int64_t rows) {
      {
        const StageTimer timer(Stage::kRecurrentProducts);
        panel_kernels_.gemm({rows, P, blocks.count, dir.dh + (step.row + row) * P, P,
                             dir.projection + layout.Offset(blocks.begin, 0), tile, tile_ld, false,
                             nullptr});
      }
      RunCell(dir, step, d, cell_.stages - 1, {row, row + rows}, unit, units, {tile, tile_ld}, {});
    };
    ForEachRowRun(0, step.continuing, run);
    ForEachRowRun(step.continuing, step.n, run);
    EndCell(dir, step.continuing, step.prev_n - step.continuing, unit, units);
  }

  // A stage that another has followed, for the hidden units of `blocks`.
  void RunEarlierStage(const BackwardDirection<Format>& dir, const Step& step, int64_t d, int stage,
                       BlockTile blocks) const {
    const int64_t V = plan_.recurrent.V(), unit = blocks.begin * V;
    const int64_t units = std::min(blocks.count * V, dims_.H - unit), tile_ld = blocks.count * V;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    ForEachRowRun(0, step.n, [&](int64_t row, int64_t rows) {
      RecurrentTile(dir, stage + 1, blocks, step.row + row, rows, /*prefetch=*/row == 0, tile);
      RunCell(dir, step, d, stage, {row, row + rows}, unit, units, {tile, tile_ld}, {});
    });
  }

  // A stage's arithmetic for rows [rows.begin, rows.end), all of which continue from the step
  // before or all of which begin here (with a carry of dhN). The first row of tile and carry is
  // rows.begin.
  void RunCell(const BackwardDirection<Format>& dir, const Step& step, int64_t d, int stage,
               Range rows, int64_t unit, int64_t units, Rows<const Real> tile,
               Rows<const Real> carry) const {
    const int64_t H = dims_.H, row = rows.begin, at = step.row + row;
    const auto from = [unit](auto* data, int64_t ld, int64_t first) {
      return Rows<std::remove_pointer_t<decltype(data)>>{data, ld}.From(first, unit);
    };
    CellBackwardArgs<Real> cell{};
    cell.units = units;
    cell.in[BackwardIn::kTile] = tile;
    cell.in[BackwardIn::kCarry] = carry;
    if (!dims_.projected()) cell.in[BackwardIn::kHeadGradient] = from(dir.dy, dir.y_ld, at);
    cell.in[BackwardIn::kGates] = {dir.gates + at * gates_ld_ + unit * dims_.kept_gates, gates_ld_};
    cell.in[BackwardIn::kValue] = from(dir.value, Hp_, at);
    cell.in[BackwardIn::kH] = from(dir.y, dir.y_ld, at);
    cell.in[BackwardIn::kCell] = from(dir.c, H, at);
    const Real* dc = row >= step.continuing ? dir.dcN : dir.dc;
    cell.in[BackwardIn::kCellGradient] = from(dc, H, row);
    cell.out[BackwardOut::kGradients] = from(dir.gradients, gradients_ld_, at);
    cell.out[BackwardOut::kCarry] = from(dir.carry, H, row);
    cell.out[BackwardOut::kCellGradient] = from(dir.dc, H, row);
    if (dims_.projected()) cell.out[BackwardOut::kUnprojected] = from(dir.unprojected, H, at);
    cell.stride = H;
    cell.unit_weights = dir.unit_weights + unit;
    cell.sums = dir.sums + unit;
    cell.clip = dims_.clip;
    cell.clip_min = static_cast<Real>(dims_.clip_min);
    cell.clip_max = static_cast<Real>(dims_.clip_max);
    // The states before this step: those of the step that the forward computed before it, or the
    // initial ones.
    ForEachPrevious(steps_, step.t, d, rows, [&](Range part, int64_t prev_row) {
      const bool initial = prev_row < 0;
      CellBackwardArgs<Real> piece = cell;
      piece.in.Skip(part.begin - row);
      piece.out.Skip(part.begin - row);
      piece.rows = part.end - part.begin;
      piece.in[BackwardIn::kPreviousH] = initial ? from(dir.h0, dims_.S, part.begin)
                                                 : from(dir.y, dir.y_ld, prev_row + part.begin);
      piece.in[BackwardIn::kPreviousCell] =
          initial ? from(dir.c0, H, part.begin) : from(dir.c, H, prev_row + part.begin);
      const StageTimer timer(Stage::kGates);
      kernels_.cells[static_cast<int>(dims_.mode)].backward[stage](piece);
    });
  }

  // dh0 of rows that ended: the recurrent product, and what went past it.
  void EndHidden(const BackwardDirection<Format>& dir, int64_t row, int64_t rows, int64_t column,
                 int64_t columns, const Real* tile, int64_t tile_ld) const {
    if (dir.dh0.data == nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      const Output<Real> dh0 = dir.dh0.Part(steps_.order(row + i) * dims_.S + column);
      for (int64_t j = 0; j < columns; ++j) {
        const Real carry =
            dir.carry != nullptr ? dir.carry[(row + i) * dims_.H + column + j] : Real(0);
        dh0.Put(j, tile[i * tile_ld + j] + carry);
      }
    }
  }

  void EndCell(const BackwardDirection<Format>& dir, int64_t row, int64_t rows, int64_t unit,
               int64_t units) const {
    if (dir.dc == nullptr) return;
    for (int64_t i = row; i < row + rows; ++i) {
      dir.dc0.Part(steps_.order(i) * dims_.H + unit).PutAll(dir.dc + i * dims_.H + unit, units);
    }
  }

  // A sequence without steps hands its final states' gradients to its initial ones.
  void PassEmptySequences(const BackwardDirection<Format>& dir) const {
    const int64_t first = steps_.T() > 0 ? steps_.n(0) : 0;
    for (int64_t i = first; i < steps_.N(); ++i) {
      dir.dh0.Part(steps_.order(i) * dims_.S)
          .PutAll(dir.dhN != nullptr ? dir.dhN + i * dims_.S : nullptr, dims_.S);
      dir.dc0.Part(steps_.order(i) * dims_.H)
          .PutAll(dir.dcN != nullptr ? dir.dcN + i * dims_.H : nullptr, dims_.H);
    }
  }

  const Execution& execution_;
  const Dims& dims_;
  const Cell& cell_ = dims_.cell();
  const Steps& steps_;
  const BackwardPlan& plan_;
  const int64_t Hp_;  // H rounded up to whole vectors, as in ReservePlan
  const int64_t gates_ld_, gradients_ld_;
  const KernelTable<Real>& kernels_ = Kernels<Real>(execution_.isa());
  const PanelKernels<Format>& panel_kernels_ = Panels<Format>(execution_.isa());
  BackwardDirection<Format> direction_[2];
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_BACKWARD_LAYER_H_
