// Sizes and places of everything in the workspace and the reserve. The size queries and the passes
// read the same plan.
#ifndef FUSED_RNN_RNN_MEMORY_PLAN_H_
#define FUSED_RNN_RNN_MEMORY_PLAN_H_

#include <vector>

#include "rnn/dims.h"
#include "rnn/panel_layout.h"

namespace fused_rnn {

// Part of a buffer; in bytes, 64-byte aligned.
struct Region {
  int64_t offset = 0;
  int64_t bytes = 0;

  template <typename T>
  T* In(void* buffer) const {
    return reinterpret_cast<T*>(static_cast<char*>(buffer) + offset);
  }
  template <typename T>
  const T* In(const void* buffer) const {
    return reinterpret_cast<const T*>(static_cast<const char*>(buffer) + offset);
  }
};

// Lays regions one after another. `gap` bytes are left before, between and after them (tests put
// guard patterns there).
class RegionPlan {
 public:
  explicit RegionPlan(int64_t gap) : gap_(gap), bytes_(gap) {}
  Region Add(int64_t bytes);
  int64_t bytes() const { return bytes_; }
  const std::vector<Region>& regions() const { return regions_; }

 private:
  int64_t gap_, bytes_;
  std::vector<Region> regions_;
};

// The shapes below use rows = sum of the lengths (planned as T*N); elements are of the type
// computed with, those of panels of the weight format's. "[D]" in front of a shape: one after
// another for each direction. Hp = H rounded up to whole vectors of V elements.

struct ReservePlan : RegionPlan {
  ReservePlan(const Dims& dims, int64_t V, int64_t gap = 0);
  Region gates;  // [L][D] [rows, kept_gates*Hp], panel order (see cell.h)
  Region value;  // [L][D] [rows, Hp], of a cell that keeps one (Cell::keeps_value)
  Region c;      // [L][D] [rows, H], with a cell state
  Region y;      // [L-1] [rows, D*S]: outputs of the layers below the last, undropped
  Region mask;   // [L-1] [rows, D*S] bytes: 1 = kept; with dropout
  // [T, N, D*S], 16-bit types: the last layer's output before it is rounded to the stored type. A
  // derivative taken of the rounded one, 1 - y^2 near saturation, would be off by half.
  Region y_top;
};

// The panels of R by stages of the cell, each of its own gates, one after another.
struct RecurrentPanels {
  PanelLayout stage[kMaxStages];
  int64_t stages;

  // Of the units: the same in every stage.
  int64_t V() const { return stage[0].V; }
  int64_t blocks() const { return stage[0].blocks(); }
  int64_t padded_columns() const { return stage[0].padded_columns(); }
  // In elements; where the panels of stage s begin, and the size of all.
  int64_t Offset(int64_t s) const { return s == 0 ? 0 : stage[0].size(); }
  int64_t size() const { return Offset(stages - 1) + stage[stages - 1].size(); }
};

// In which form a forward reads a matrix of weights.
enum class WeightForm {
  kRows,            // as the caller stores it
  kPanelsIfPacked,  // panels where a PackedWeights has them; to pack them for one call does not pay
  kPanels,          // panels, which the call packs for itself if no PackedWeights has them
};

struct ForwardPlan : RegionPlan {
  ForwardPlan(const Dims& dims, bool training, int64_t V, int64_t gap = 0);
  // W of layer l [I_l -> G*H], R [S -> G*H], Wp [H -> P].
  PanelLayout Input(int64_t l) const;
  RecurrentPanels recurrent;
  PanelLayout projection;
  WeightForm input_form;
  WeightForm recurrent_form;  // of R and Wp
  int64_t chunk;              // time steps whose inputs are projected at once
  Region bias;                // [D] [cell.vectors(), H]: see CellForwardArgs::bias
  Region input_panels;        // [D] Input(l), of one layer at a time; if packed
  Region panels;              // [D] recurrent; if packed
  Region projection_panels;   // [D] projection; if packed
  Region gates;               // [D] [chunk*N, G*Hp], where the reserve does not keep them
  Region value;               // [D] [N, Hp], inference of a cell of two stages
  Region c;                   // [D] [N, H], inference with a cell state
  Region unprojected;         // [D] [N, H]: o tanh(c) before the projection
  Region dropped;             // [rows, D*S]: the dropped output of the layer below; with dropout
  Region y[2];  // [rows, D*S]: outputs of the layers below the last, by turns; inference
  // With lengths: packed copies.
  Region x;      // [rows, I]
  Region y_top;  // [rows, D*S]
  Region h0;     // [D] [N, S]
  Region c0;     // [D] [N, H]

 private:
  PanelLayout input_;  // of the first layer
  int64_t upper_;      // input size of those above
};

struct BackwardPlan : RegionPlan {
  BackwardPlan(const Dims& dims, int64_t V, int64_t gap = 0);
  RecurrentPanels recurrent;  // R^T [stage's gates * H -> S]
  PanelLayout projection;     // Wp^T [P -> H]
  Region panels;              // [D] recurrent
  Region projection_panels;   // [D] projection
  Region gradients;           // [D] [rows, gradients*H], of the pre-activations
  Region sums;                // [D] [cell.sums(), H]
  Region dc;                  // [D] [N, H], with a cell state
  Region carry;               // [D] [N, H], of a cell that carries (Cell::carries)
  Region dh;                  // [D] [rows, P]: gradients of h; projected
  Region unprojected;         // [D] [rows, H]: o tanh(c); projected
  Region h_prev;              // [rows, S]: h_{t-1} of every row, of one direction at a time
  Region dropped;             // [rows, D*S], as in the forward
  Region dy[2];  // [rows, D*S]: gradients of the outputs of the layers below the last, by turns
  // With lengths: packed copies.
  Region x, dx;  // [rows, I]
  Region y_top;  // [rows, D*S]
  Region dy_top;
  Region h0, dhN;  // [D] [N, S]
  Region c0, dcN;  // [D] [N, H]
};

// For the 16-bit types: float32 copies of the caller's tensors (their shapes: rnn.h), beside the
// workspace of the pass itself.
struct StagedForwardPlan : RegionPlan {
  StagedForwardPlan(const Dims& dims, bool training, int64_t inner_bytes, int64_t gap = 0);
  Region x, h0, c0, hN, cN;
  Region y;  // inference; in training it is the reserve's y_top
  Region inner;
};

struct StagedBackwardPlan : StagedForwardPlan {  // hN, cN hold dhN, dcN
  StagedBackwardPlan(const Dims& dims, int64_t inner_bytes, int64_t gap = 0);
  Region params, dy, dx, dparams, dh0, dc0;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_MEMORY_PLAN_H_
