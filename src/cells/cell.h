// What a recurrent cell is to the passes: a trait that tells its shape, and the arguments of its
// arithmetic. Each cell has one header with both; cells.h lists them.
//
// The arithmetic walks over blocks of V units (`ForEachBlock`, kernels/vec-inl.h), and the
// backward's begins with dh (`HiddenGradient`, hidden_gradient-inl.h).
//
// A step of a cell runs in stages. Each is one product with rows of R, followed by an epilogue: the
// cell's arithmetic for a few hidden units. A stage waits for all units of the one before, so a
// cell whose gates all read h_{t-1} has one; a second one reads what the first has left
// (`ForwardOut::kValue`). The backward runs the stages from the last to the first.
#ifndef FUSED_RNN_CELLS_CELL_H_
#define FUSED_RNN_CELLS_CELL_H_

#include <cstdint>

namespace fused_rnn {

constexpr int kMaxStages = 2;

// A row of folded biases: bW of one gate plus bR of one, each a gate's number or kNoGate.
constexpr int kNoGate = -1;
struct FoldedBias {
  int input, recurrent;
};

// `count` gradients of pre-activations from column `gradient` on, in units of H columns, which
// belong to as many gates' rows of R (and of bR) from `gate` on, all of one stage.
struct RecurrentPart {
  int stage, gradient, gate, count;
};

struct Cell {
  static constexpr int kMostBiases = 5, kMostParts = 3;

  const char* name;  // of its mode
  int gates;         // G, blocks of H rows in W, R, bW and bR
  bool cell_state;   // c beside h; such a cell may be clipped and projected
  // Per hidden unit, vectors beside the biases: peepholes. Behind all biases of the parameters, and
  // behind the folded biases and the gradients' sums of a layer.
  int unit_weights;

  // The forward.
  int biases;  // folded, which come first in `bias` of the arguments below
  FoldedBias bias[kMostBiases];
  int stages;
  int stage_gates[kMaxStages];  // gates whose rows of R a stage reads, one stage after another

  // What a training forward keeps of each unit and step beside h (and c).
  bool keeps_gates;  // all gates after their activation
  // One value more. Of a cell of two stages it is the input of the second's product, in predictions
  // too, and as wide as h_{t-1}.
  bool keeps_value;

  // The backward.
  bool carries;        // part of dh goes to dh_{t-1} past the products
  int gradients;       // of pre-activations, per unit and step
  int input_gradient;  // the first of the G that belong to W x + bW
  int parts;
  RecurrentPart part[kMostParts];

  // Vectors [H] that the forward reads, and sums that the backward forms, of one layer.
  constexpr int vectors() const { return biases + unit_weights; }
  constexpr int sums() const { return gradients + unit_weights; }
  // The first gate of a stage, or its first gradient.
  constexpr int FirstGate(int stage) const { return stage == 0 ? 0 : stage_gates[0]; }
  constexpr int FirstGradient(int stage) const {
    int first = gradients;
    for (int i = 0; i < parts; ++i) {
      if (part[i].stage == stage && part[i].gradient < first) first = part[i].gradient;
    }
    return first;
  }
};

// Rows of something: row i begins at data + i*ld. Null data: there are none.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t ld = 0;

  T* At(int64_t row) const { return data + row * ld; }
  // Those from `row` and `column` on. Null stays null.
  Rows From(int64_t row, int64_t column) const {
    return {data != nullptr ? At(row) + column : nullptr, ld};
  }
};

// The rows of a call, by their names.
template <typename T, typename Name>
struct RowSet {
  Rows<T> all[static_cast<int>(Name::kCount)];

  Rows<T>& operator[](Name name) { return all[static_cast<int>(name)]; }
  const Rows<T>& operator[](Name name) const { return all[static_cast<int>(name)]; }
  // Moves all of them on.
  void Skip(int64_t count) {
    for (Rows<T>& each : all) each = each.From(count, 0);
  }
};

// The arguments below are those of `units` hidden units for `rows` sequences at one time step.
// Pointers are those of the first of these units; units may be any number >= 1. V is the vector
// width in elements. "Panel order" of G gates puts gate g of unit block b (V units) at column
// (b*G + g)*V, as products with panels come out; lanes beyond the last unit are there and mean
// nothing. "Whole blocks": unit u at column u, with such lanes too.

enum class ForwardIn : int {
  kTile,  // the stage's product; panel order of the stage's gates
  kH,     // h_{t-1}
  kCell,  // c_{t-1}
  kCount,
};
enum class ForwardOut : int {
  // Panel order of all gates. In: W x_t. Out, if `keep`: the gates after their activation; a stage
  // may always leave here what a later one reads.
  kGates,
  kValue,  // Cell::keeps_value; whole blocks
  kCell,   // c_t; may be c_{t-1}
  kH,      // h_t, before a projection
  kCount,
};

template <typename Real>
struct CellForwardArgs {
  int64_t rows, units;
  RowSet<const Real, ForwardIn> in;
  RowSet<Real, ForwardOut> out;
  bool keep;         // this is a training forward
  const Real* bias;  // the folded biases, then the unit weights; number k at k*bias_stride
  int64_t bias_stride;
  bool clip, clip_nan;  // of a cell state
  Real clip_min, clip_max;
};

// dh = kHeadGradient + kTile + kCarry, each null where it is zero. The second stage of two gets dh
// in its backward, which comes first; its kTile leads to dh. The first stage's kTile is the
// gradient of the value.
enum class BackwardIn : int {
  kTile,  // gradients times R^T: of step t+1 for the last stage, else of the stage after; unit u at
          // column u
  kCarry,         // the part of dh that did not go through the products of step t+1, or dhN
  kHeadGradient,  // dy
  kGates,         // as kept by the forward
  kValue,         // as kept by the forward
  kH,             // h_t
  kPreviousH,     // h_{t-1}
  kCell,          // c_t
  kPreviousCell,  // c_{t-1}
  kCellGradient,  // dc_t from step t+1, or dcN; may be null
  kCount,
};
enum class BackwardOut : int {
  kGradients,     // of the pre-activations: gradient k at column k*stride
  kCarry,         // what dh_{t-1} gets beside the products; may be the kCarry that is read
  kCellGradient,  // dc_{t-1}; may be the one that is read
  kUnprojected,   // receives h_t before its projection; null: not wanted
  kCount,
};

template <typename Real>
struct CellBackwardArgs {
  int64_t rows, units;
  RowSet<const Real, BackwardIn> in;
  RowSet<Real, BackwardOut> out;
  int64_t stride;            // between gradients, sums, and unit weights, of a unit
  const Real* unit_weights;  // number k at k*stride
  // Sums over rows are added here: gradient k's at k*stride, behind them those of the unit weights.
  Real* sums;
  bool clip;
  Real clip_min, clip_max;
};

// A cell's epilogues by stage, in the order of the forward.
template <typename Real>
struct CellKernels {
  void (*forward[kMaxStages])(const CellForwardArgs<Real>&);
  void (*backward[kMaxStages])(const CellBackwardArgs<Real>&);
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_CELLS_CELL_H_
