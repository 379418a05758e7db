// One layer of the backward pass: its recurrence from the last step to the first, and the gradients
// of weights and inputs.
#ifndef FUSED_RNN_RNN_BACKWARD_LAYER_H_
#define FUSED_RNN_RNN_BACKWARD_LAYER_H_

#include <algorithm>

#include "base/profile.h"
#include "kernels/kernel_table.h"
#include "rnn/gemm.h"
#include "rnn/memory_plan.h"
#include "rnn/pack.h"
#include "rnn/param_layout.h"
#include "rnn/recurrence.h"
#include "rnn/rows.h"
#include "rnn/steps.h"

namespace fused_rnn {

// A gradient that goes to the caller.
template <typename Real>
struct Output {
  Real* data;  // null: not wanted
  bool add;

  Output(void* data, Request request)
      : data(request == Request::kNull ? nullptr : static_cast<Real*>(data)),
        add(request == Request::kAdd) {}
  Output Part(int64_t offset) const {
    Output part = *this;
    if (data != nullptr) part.data += offset;
    return part;
  }
  void Put(int64_t index, Real value) const { data[index] = add ? data[index] + value : value; }
  // data[j] = values[j], j < n; null `values` are zeros.
  void PutAll(const Real* values, int64_t n) const {
    if (data == nullptr) return;
    for (int64_t j = 0; j < n; ++j) Put(j, values != nullptr ? values[j] : Real(0));
  }
};

// One direction of one layer. Row i of a step is at row(t) + i in arrays of [rows, ...].
template <typename Real, typename Weight>
struct BackwardDirection {
  const Real* W;
  const Weight* R;
  const Weight* Wp;
  const Real* h0;           // [N, S], packed order
  const Real* c0;           // [N, H], packed order
  const Real* dhN;          // [N, S], packed order, or null
  const Real* dcN;          // [N, H], packed order, or null
  const Real* gates;        // [rows, kept_gates*Hp], panel order
  const Real* recurrent_n;  // [rows, Hp]
  const Real* c;            // [rows, H]
  const Real* y;            // [rows, y_ld]: this direction's columns
  const Real* dy;           // likewise, or null
  int64_t y_ld;
  Output<Real> dh0{nullptr, Request::kNull};  // [N, S], the caller's order
  Output<Real> dc0{nullptr, Request::kNull};  // [N, H], the caller's order
  Weight* panels;                             // of R^T
  Weight* projection;                         // panels of Wp^T
  Real* dgates;                               // [rows, grad_gates*H]
  Real* db;                                   // [grad_gates*H]
  Real* dc;                                   // [N, H]
  Real* carry;                                // [N, H]
  Real* dh;                                   // [rows, P]
  Real* unprojected;                          // [rows, H]
};

template <typename Real, typename Weight>
class LayerBackward {
 public:
  LayerBackward(const Execution& execution, const Dims& dims, const Steps& steps,
                const BackwardPlan& plan)
      : execution_(execution),
        dims_(dims),
        steps_(steps),
        plan_(plan),
        Hp_(PanelLayout{dims.H, 1, 0, plan.recurrent.V}.padded_columns()),
        gates_ld_(dims.kept_gates * Hp_) {}

  int64_t Hp() const { return Hp_; }

  BackwardDirection<Real, Weight>& direction(int64_t d) { return direction_[d]; }

  void RunRecurrence() {
    const double step_work = static_cast<double>(dims_.N) * dims_.G * dims_.H * dims_.S;
    RunDirections(execution_, dims_.D, dims_.D * dims_.T * step_work, step_work,
                  [&](int64_t d, DirectionPhases& phases) { RunDirection(d, phases); });
    for (int64_t d = 0; d < dims_.D; ++d) PassEmptySequences(direction_[d]);
  }

  // Adds or writes the gradients of direction d's weights and biases. dparams: the whole vector.
  void WeightGradients(int64_t l, int64_t d, const Real* input, const ParamLayout& layout,
                       const Output<Real>& dparams, Real* h_prev) const {
    if (dparams.data == nullptr) return;
    const BackwardDirection<Real, Weight>& dir = direction_[d];
    const int64_t H = dims_.H, GH = dims_.G * H, S = dims_.S, rows = steps_.rows(),
                  ld = dims_.grad_gates * H;
    const int64_t input_size = dims_.InputSize(l);
    const auto product = [&](int64_t M, int64_t N, const Real* a, int64_t a_ld, const Real* b,
                             int64_t b_ld, int64_t to) {
      Gemm<Real>(execution_,
                 {M, N, rows, a, a_ld, true, b, b_ld, false, dparams.data + to, N, dparams.add});
    };
    GatherPrevious(dir, d, h_prev);
    product(GH, input_size, InputSide(dir), ld, input, input_size, layout.W(l, d));
    const Output<Real> dbW = dparams.Part(layout.bW(l, d)), dbR = dparams.Part(layout.bR(l, d));
    if (dims_.gru()) {  // dgates are n', r, z, n; rows of R are r, z, n
      product(2 * H, S, dir.dgates + H, ld, h_prev, S, layout.R(l, d));
      product(H, S, dir.dgates, ld, h_prev, S, layout.R(l, d) + 2 * H * S);
      dbW.PutAll(dir.db + H, GH);
      dbR.PutAll(dir.db + H, 2 * H);
      dbR.Part(2 * H).PutAll(dir.db, H);
    } else {
      product(GH, S, dir.dgates, ld, h_prev, S, layout.R(l, d));
      dbW.PutAll(dir.db, GH);
      dbR.PutAll(dir.db, GH);
    }
    if (dims_.projected())
      product(dims_.P, H, dir.dh, dims_.P, dir.unprojected, H, layout.Wp(l, d));
  }

  // dx [rows, input_size] = (or +=) this direction's part.
  void InputGradient(int64_t l, int64_t d, Real* dx, bool add) const {
    const BackwardDirection<Real, Weight>& dir = direction_[d];
    const int64_t input_size = dims_.InputSize(l);
    Gemm<Real>(execution_,
               {steps_.rows(), input_size, dims_.G * dims_.H, InputSide(dir),
                dims_.grad_gates * dims_.H, false, dir.W, input_size, false, dx, input_size, add});
  }

 private:
  // Without projection a thread owns hidden units, which are the columns of R^T. With it, the
  // columns of R^T are those of h, and the hidden units are the columns of Wp^T.
  void RunDirection(int64_t d, DirectionPhases& phases) const {
    const BackwardDirection<Real, Weight>& dir = direction_[d];
    const int64_t blocks = plan_.recurrent.blocks(), projected_blocks = plan_.projection.blocks();
    const int64_t per_tile = BlocksPerTile(1, dims_.N);
    phases.Run(blocks, per_tile, Order::kForth, [&](BlockTile tile) {
      const StageTimer timer(Stage::kPacking);
      Pack(dir, tile);
      if (!dims_.projected()) ClearBiasSums(dir, tile);
    });
    phases.Run(projected_blocks, per_tile, Order::kForth, [&](BlockTile tile) {
      PackProjection(dir, tile);
      ClearBiasSums(dir, tile);
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
      }
    });
  }

  // The columns of dgates that belong to W x + bW; those of R h + bR begin at column 0 (see
  // CellBackwardArgs::dgates).
  const Real* InputSide(const BackwardDirection<Real, Weight>& dir) const {
    return dir.dgates + (dims_.gru() ? dims_.H : 0);
  }

  // Rows [k, k + K) of the panels of `tile`, from w [K, ld].
  void PackTile(const PanelLayout& layout, const Weight* w, int64_t ld, int64_t k, int64_t K,
                BlockTile tile, Weight* panels) const {
    const int64_t column = tile.begin * layout.V;
    const int64_t columns = std::min(tile.count * layout.V, layout.columns - column);
    PackRows(panel_kernels_, layout.V, w + column, ld, K, columns,
             panels + layout.Offset(tile.begin, 0) + k * layout.V, layout.K * layout.V);
  }

  void Pack(const BackwardDirection<Real, Weight>& dir, BlockTile tile) const {
    const PanelLayout& layout = plan_.recurrent;
    const int64_t H = dims_.H, S = dims_.S;
    if (dims_.gru()) {  // k runs over n', r, z
      PackTile(layout, dir.R + 2 * H * S, S, 0, H, tile, dir.panels);
      PackTile(layout, dir.R, S, H, 2 * H, tile, dir.panels);
    } else {
      PackTile(layout, dir.R, S, 0, layout.K, tile, dir.panels);
    }
  }

  void PackProjection(const BackwardDirection<Real, Weight>& dir, BlockTile tile) const {
    PackTile(plan_.projection, dir.Wp, dims_.H, 0, dims_.P, tile, dir.projection);
  }

  void ClearBiasSums(const BackwardDirection<Real, Weight>& dir, BlockTile tile) const {
    const int64_t V = plan_.recurrent.V, H = dims_.H;
    const int64_t begin = tile.begin * V, end = std::min(H, begin + tile.count * V);
    for (int64_t g = 0; g < dims_.grad_gates; ++g) {
      std::fill(dir.db + g * H + begin, dir.db + g * H + end, Real(0));
    }
  }

  // tile = dgates of rows [row, row + rows) of the step before, times the panels of `count` blocks.
  void RecurrentTile(const BackwardDirection<Real, Weight>& dir, const Step& step, BlockTile blocks,
                     int64_t row, int64_t rows, Real* tile) const {
    const StageTimer timer(Stage::kRecurrentProducts);
    const PanelLayout& layout = plan_.recurrent;
    const int64_t ld = dims_.grad_gates * dims_.H;
    panel_kernels_.gemm({rows, layout.K, blocks.count, dir.dgates + (step.prev_row + row) * ld, ld,
                         dir.panels + layout.Offset(blocks.begin, 0), tile, blocks.count * layout.V,
                         false, row == 0 ? dir.panels + layout.Offset(blocks.next, 0) : nullptr});
  }

  // One step without projection, for the hidden units of `blocks`.
  void RunStep(const BackwardDirection<Real, Weight>& dir, const Step& step, int64_t d,
               BlockTile blocks) const {
    const int64_t V = plan_.recurrent.V, H = dims_.H;
    alignas(64) Real tile[kMaxTileBytes / sizeof(Real)];
    const int64_t unit = blocks.begin * V, units = std::min(blocks.count * V, H - unit),
                  tile_ld = blocks.count * V;
    ForEachRowRun(0, step.continuing, [&](int64_t row, int64_t rows) {
      PrefetchRows(dir.gates + (step.row + row) * gates_ld_ + unit * dims_.kept_gates, gates_ld_,
                   dims_.kept_gates > 0 ? rows : 0, dims_.kept_gates * tile_ld);
      RecurrentTile(dir, step, blocks, row, rows, tile);
      RunCell(dir, step, d, {row, row + rows}, unit, units, tile, tile_ld,
              dims_.gru() ? dir.carry + row * H + unit : nullptr);
    });
    if (step.continuing < step.n) {
      const Real* dhN = dir.dhN != nullptr ? dir.dhN + step.continuing * H + unit : nullptr;
      RunCell(dir, step, d, {step.continuing, step.n}, unit, units, nullptr, 0, dhN);
    }
    ForEachRowRun(step.continuing, step.prev_n, [&](int64_t row, int64_t rows) {
      if (dir.dh0.data != nullptr) {
        RecurrentTile(dir, step, blocks, row, rows, tile);
        EndHidden(dir, row, rows, unit, units, tile, tile_ld);
      }
      EndCell(dir, row, rows, unit, units);
    });
  }

  // With projection, first half of a step: dh for the columns of `blocks`.
  void RunHidden(const BackwardDirection<Real, Weight>& dir, const Step& step,
                 BlockTile blocks) const {
    const int64_t V = plan_.recurrent.V, P = dims_.P;
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
      RecurrentTile(dir, step, blocks, row, rows, tile);
      const int64_t going = std::max<int64_t>(0, std::min(rows, step.continuing - row));
      for (int64_t i = 0; i < going; ++i) store(row + i, column, columns, tile + i * tile_ld);
      EndHidden(dir, row + going, rows - going, column, columns, tile + going * tile_ld, tile_ld);
    });
    for (int64_t row = step.continuing; row < step.n; ++row) {
      store(row, column, columns, dir.dhN != nullptr ? dir.dhN + row * P + column : nullptr);
    }
  }

  // With projection, second half: dh Wp, then the gate arithmetic for the hidden units of `blocks`.
  void RunProjected(const BackwardDirection<Real, Weight>& dir, const Step& step, int64_t d,
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
      RunCell(dir, step, d, {row, row + rows}, unit, units, tile, tile_ld, nullptr);
    };
    ForEachRowRun(0, step.continuing, run);
    ForEachRowRun(step.continuing, step.n, run);
    EndCell(dir, step.continuing, step.prev_n - step.continuing, unit, units);
  }

  // Gate arithmetic of rows [rows.begin, rows.end), all of which continue from the step before or
  // all of which begin here (with a carry of dhN). tile, carry: their first row is rows.begin.
  void RunCell(const BackwardDirection<Real, Weight>& dir, const Step& step, int64_t d, Range rows,
               int64_t unit, int64_t units, const Real* tile, int64_t tile_ld,
               const Real* carry) const {
    const int64_t H = dims_.H, row = rows.begin, at = step.row + row;
    const bool begins = row >= step.continuing;
    CellBackwardArgs<Real> cell{};
    cell.rows = rows.end - rows.begin;
    cell.units = units;
    cell.tile = tile;
    cell.tile_ld = tile_ld;
    cell.carry = carry;
    cell.carry_ld = H;
    if (dir.dy != nullptr && !dims_.projected()) cell.dy = dir.dy + at * dir.y_ld + unit;
    cell.dy_ld = cell.h_ld = dir.y_ld;
    cell.h = dir.y + at * dir.y_ld + unit;
    cell.gates = dir.gates + at * gates_ld_ + unit * dims_.kept_gates;
    cell.gates_ld = gates_ld_;
    cell.dgates = dir.dgates + at * dims_.grad_gates * H + unit;
    cell.dgates_ld = dims_.grad_gates * H;
    cell.dgate_stride = H;
    cell.db = dir.db + unit;
    if (dims_.lstm()) {
      cell.c = dir.c + at * H + unit;
      cell.c_ld = cell.dc_ld = cell.dc_out_ld = H;
      const Real* dc = begins ? dir.dcN : dir.dc;
      cell.dc = dc != nullptr ? dc + row * H + unit : nullptr;
      cell.dc_out = dir.dc + row * H + unit;
      if (dims_.projected()) cell.unprojected = dir.unprojected + at * H + unit;
      cell.unprojected_ld = H;
      cell.clip = dims_.clip;
      cell.clip_min = static_cast<Real>(dims_.clip_min);
      cell.clip_max = static_cast<Real>(dims_.clip_max);
    }
    if (dims_.gru()) {
      cell.carry_out = dir.carry + row * H + unit;
      cell.carry_out_ld = H;
      cell.recurrent_n = dir.recurrent_n + at * Hp_ + unit;
      cell.recurrent_n_ld = Hp_;
    }
    // The states before this step: those of the step that the forward computed before it, or the
    // initial ones.
    ForEachPrevious(step.t, d, rows, [&](Range part, int64_t prev_row) {
      CellBackwardArgs<Real> piece = cell;
      const int64_t skip = part.begin - row;
      Skip(&piece, skip);
      piece.rows = part.end - part.begin;
      const bool initial = prev_row < 0;
      if (dims_.lstm()) {
        piece.c_prev = (initial ? dir.c0 : dir.c + prev_row * H) + part.begin * H + unit;
        piece.c_prev_ld = H;
      }
      if (dims_.gru()) {
        piece.h_prev =
            (initial ? dir.h0 + part.begin * H : dir.y + (prev_row + part.begin) * dir.y_ld) + unit;
        piece.h_prev_ld = initial ? H : dir.y_ld;
      }
      const StageTimer timer(Stage::kGates);
      kernels_.cell_backward[static_cast<int>(dims_.mode)](piece);
    });
  }

  // Moves all row pointers on by `rows`.
  static void Skip(CellBackwardArgs<Real>* cell, int64_t rows) {
    const auto move = [rows](auto** pointer, int64_t ld) {
      if (*pointer != nullptr) *pointer += rows * ld;
    };
    move(&cell->tile, cell->tile_ld);
    move(&cell->carry, cell->carry_ld);
    move(&cell->dy, cell->dy_ld);
    move(&cell->carry_out, cell->carry_out_ld);
    move(&cell->gates, cell->gates_ld);
    move(&cell->recurrent_n, cell->recurrent_n_ld);
    move(&cell->h, cell->h_ld);
    move(&cell->c, cell->c_ld);
    move(&cell->dc, cell->dc_ld);
    move(&cell->dc_out, cell->dc_out_ld);
    move(&cell->dgates, cell->dgates_ld);
    move(&cell->unprojected, cell->unprojected_ld);
  }

  // Cuts rows of time t into those with a step before it in direction d's order and those that
  // begin at t. body(part, first row of the step before, or -1 for the initial state)
  template <typename Body>
  void ForEachPrevious(int64_t t, int64_t d, Range rows, const Body& body) const {
    const int64_t prev = d == 0 ? t - 1 : t + 1;
    const bool has_prev = prev >= 0 && prev < steps_.T();
    const int64_t with_prev =
        std::max(rows.begin, std::min(rows.end, has_prev ? steps_.n(prev) : 0));
    if (rows.begin < with_prev) body(Range{rows.begin, with_prev}, steps_.row(prev));
    if (with_prev < rows.end) body(Range{with_prev, rows.end}, int64_t{-1});
  }

  // dh0 of rows that ended: the recurrent product, and for a GRU what went past the gates.
  void EndHidden(const BackwardDirection<Real, Weight>& dir, int64_t row, int64_t rows,
                 int64_t column, int64_t columns, const Real* tile, int64_t tile_ld) const {
    if (dir.dh0.data == nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      const Output<Real> dh0 = dir.dh0.Part(steps_.order(row + i) * dims_.S + column);
      for (int64_t j = 0; j < columns; ++j) {
        const Real carry = dims_.gru() ? dir.carry[(row + i) * dims_.H + column + j] : Real(0);
        dh0.Put(j, tile[i * tile_ld + j] + carry);
      }
    }
  }

  void EndCell(const BackwardDirection<Real, Weight>& dir, int64_t row, int64_t rows, int64_t unit,
               int64_t units) const {
    if (!dims_.lstm()) return;
    for (int64_t i = row; i < row + rows; ++i) {
      dir.dc0.Part(steps_.order(i) * dims_.H + unit).PutAll(dir.dc + i * dims_.H + unit, units);
    }
  }

  // A sequence without steps hands its final states' gradients to its initial ones.
  void PassEmptySequences(const BackwardDirection<Real, Weight>& dir) const {
    const int64_t first = steps_.T() > 0 ? steps_.n(0) : 0;
    for (int64_t i = first; i < steps_.N(); ++i) {
      dir.dh0.Part(steps_.order(i) * dims_.S)
          .PutAll(dir.dhN != nullptr ? dir.dhN + i * dims_.S : nullptr, dims_.S);
      if (!dims_.lstm()) continue;
      dir.dc0.Part(steps_.order(i) * dims_.H)
          .PutAll(dir.dcN != nullptr ? dir.dcN + i * dims_.H : nullptr, dims_.H);
    }
  }

  // h_prev [rows, S] = h_{t-1} of every row.
  void GatherPrevious(const BackwardDirection<Real, Weight>& dir, int64_t d, Real* h_prev) const {
    const int64_t S = dims_.S;
    const double work = static_cast<double>(steps_.rows()) * S;
    ParallelFor(execution_, work, steps_.T(), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        ForEachPrevious(t, d, {0, steps_.n(t)}, [&](Range part, int64_t prev_row) {
          for (int64_t i = part.begin; i < part.end; ++i) {
            const Real* from = prev_row < 0 ? dir.h0 + i * S : dir.y + (prev_row + i) * dir.y_ld;
            std::copy(from, from + S, h_prev + (steps_.row(t) + i) * S);
          }
        });
      }
    });
  }

  const Execution& execution_;
  const Dims& dims_;
  const Steps& steps_;
  const BackwardPlan& plan_;
  const int64_t Hp_;  // H rounded up to whole vectors, as in ReservePlan
  const int64_t gates_ld_;
  const KernelTable<Real>& kernels_ = Kernels<Real>(execution_.isa());
  const PanelKernels<Real, Weight>& panel_kernels_ = Panels<Real, Weight>(execution_.isa());
  BackwardDirection<Real, Weight> direction_[2];
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_BACKWARD_LAYER_H_
