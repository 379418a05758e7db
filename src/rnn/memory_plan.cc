#include "rnn/memory_plan.h"

#include <algorithm>

#include "rnn/param_layout.h"
#include "rnn/weight_format.h"

namespace fused_rnn {
namespace {

constexpr int64_t kAlignment = 64;

// Weights that so few rows meet, over all steps, are not packed for one call: packing would be most
// of the work.
constexpr int64_t kFewRows = 3;
// A single row meets each weight once a step, and reads rows of weights as fast as panels: the
// first of these says when panels are still better, the second from how many steps on they pay.
// At the end of a row of weights the lanes of a vector are added up, which is much for a short row
// (measured at N = 1, H = 64: half as fast). And the workspace is in huge pages as a rule, the
// caller's weights are not (measured at N = 1: 10 % at H = 800, 15 % at 1024); with 16-bit weights,
// whose panels are slower than rows, that does not pay.
constexpr int64_t kShortRow = 128;
constexpr int64_t kManySteps = 64;

// Time steps whose inputs are projected at once: if possible so few that the result is still in a
// shared cache when the steps read it, but enough rows for the product to run at full speed, and
// enough steps for what the change costs: a projection puts the input weights in the cache in the
// place of the recurrent ones (960 rows instead of 240 were measured 2 % faster at H = 800 and
// 1024, and 5 % at 2048).
int64_t StepsPerChunk(const Dims& dims, int64_t row_bytes) {
  constexpr int64_t kLeastRows = 960, kBytes = 4 << 20;
  const int64_t rows = std::max(kLeastRows, kBytes / std::max<int64_t>(1, row_bytes));
  return std::max<int64_t>(1, std::min(dims.T, rows / std::max<int64_t>(1, dims.N)));
}

WeightForm InputForm(const Dims& dims) {
  const int64_t rows = dims.T * dims.N;
  if (rows > kFewRows) return WeightForm::kPanels;
  const bool panels_are_faster = rows > 1 || dims.S <= kShortRow || !dims.half();
  return panels_are_faster ? WeightForm::kPanelsIfPacked : WeightForm::kRows;
}

WeightForm RecurrentForm(const Dims& dims) {
  const bool better = dims.N > 1 || dims.S <= kShortRow;
  if (!better && dims.half()) return WeightForm::kRows;
  const bool pays = dims.T * dims.N > kFewRows && (better || dims.T >= kManySteps);
  return pays ? WeightForm::kPanels : WeightForm::kPanelsIfPacked;
}

RecurrentPanels ForwardPanels(const Dims& dims, int64_t V) {
  RecurrentPanels panels{};
  panels.stages = dims.cell().stages;
  for (int64_t s = 0; s < panels.stages; ++s)
    panels.stage[s] = {dims.H, dims.cell().stage_gates[s], dims.S, V, PanelFormulaOf(dims)};
  return panels;
}

RecurrentPanels BackwardPanels(const Dims& dims, int64_t V) {
  RecurrentPanels panels{};
  panels.stages = dims.cell().stages;
  for (int64_t s = 0; s < panels.stages; ++s)
    panels.stage[s] = {dims.S, 1, dims.cell().stage_gates[s] * dims.H, V, PanelFormulaOf(dims)};
  return panels;
}

}  // namespace

Region RegionPlan::Add(int64_t bytes) {
  const Region region{bytes_, bytes};
  regions_.push_back(region);
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment + gap_;
  return region;
}

ReservePlan::ReservePlan(const Dims& dims, int64_t V, int64_t gap) : RegionPlan(gap) {
  const int64_t e = dims.ComputedBytes(), rows = dims.T * dims.N, LD = dims.L * dims.D;
  const int64_t between = (dims.L - 1) * rows * dims.D * dims.S;
  const int64_t Hp = PanelLayout{dims.H, 1, 0, V}.padded_columns();
  gates = Add(e * LD * rows * dims.kept_gates * Hp);
  value = Add(dims.cell().keeps_value ? e * LD * rows * Hp : 0);
  c = Add(dims.cell().cell_state ? e * LD * rows * dims.H : 0);
  y = Add(e * between);
  mask = Add(dims.drops ? between : 0);
  y_top = Add(dims.half() ? e * rows * dims.D * dims.S : 0);
}

ForwardPlan::ForwardPlan(const Dims& dims, bool training, int64_t V, int64_t gap)
    : RegionPlan(gap),
      recurrent(ForwardPanels(dims, V)),
      projection{dims.P, 1, dims.H, V, PanelFormulaOf(dims)},
      input_form(InputForm(dims)),
      recurrent_form(RecurrentForm(dims)),
      input_{dims.H, dims.G, dims.I, V, PanelFormulaOf(dims)},
      upper_(dims.D * dims.S) {
  const int64_t e = dims.ComputedBytes(), w = PackedBytes(dims), D = dims.D;
  const int64_t rows = dims.T * dims.N, NH = dims.N * dims.H, out = rows * D * dims.S;
  const int64_t Hp = recurrent.padded_columns(), gates_row = dims.G * Hp;
  const Cell& cell = dims.cell();
  const bool sorts = dims.variable_length;
  const bool packs_recurrent = recurrent_form == WeightForm::kPanels;
  chunk = StepsPerChunk(dims, e * gates_row);
  const int64_t largest_input = std::max(Input(0).size(), dims.L > 1 ? Input(1).size() : 0);
  bias = Add(e * D * cell.vectors() * dims.H);
  input_panels = Add(input_form == WeightForm::kPanels ? w * D * largest_input : 0);
  panels = Add(packs_recurrent ? w * D * recurrent.size() : 0);
  projection_panels = Add(packs_recurrent ? w * D * projection.size() : 0);
  gates = Add(training && cell.keeps_gates ? 0 : e * D * chunk * dims.N * gates_row);
  value = Add(!training && cell.stages > 1 ? e * D * dims.N * Hp : 0);
  c = Add(!training && cell.cell_state ? e * D * NH : 0);
  unprojected = Add(dims.projected() ? e * D * NH : 0);
  dropped = Add(training && dims.drops ? e * out : 0);
  for (int64_t i = 0; i < 2; ++i) y[i] = Add(!training && dims.L > i + 1 ? e * out : 0);
  x = Add(sorts ? e * rows * dims.I : 0);
  y_top = Add(sorts ? e * out : 0);
  h0 = Add(sorts ? e * D * dims.N * dims.S : 0);
  c0 = Add(sorts && cell.cell_state ? e * D * NH : 0);
}

PanelLayout ForwardPlan::Input(int64_t l) const {
  PanelLayout layout = input_;
  if (l > 0) layout.K = upper_;
  return layout;
}

BackwardPlan::BackwardPlan(const Dims& dims, int64_t V, int64_t gap)
    : RegionPlan(gap),
      recurrent(BackwardPanels(dims, V)),
      projection{dims.projected() ? dims.H : 0, 1, dims.P, V, PanelFormulaOf(dims)} {
  const int64_t e = dims.ComputedBytes(), rows = dims.T * dims.N, D = dims.D;
  const int64_t NH = dims.N * dims.H, NS = dims.N * dims.S, out = rows * D * dims.S;
  const Cell& cell = dims.cell();
  const bool sorts = dims.variable_length;
  panels = Add(PackedBytes(dims) * D * recurrent.size());
  projection_panels = Add(PackedBytes(dims) * D * projection.size());
  gradients = Add(e * D * rows * cell.gradients * dims.H);
  sums = Add(e * D * cell.sums() * dims.H);
  dc = Add(cell.cell_state ? e * D * NH : 0);
  carry = Add(cell.carries ? e * D * NH : 0);
  dh = Add(e * D * rows * dims.P);
  unprojected = Add(dims.projected() ? e * D * rows * dims.H : 0);
  h_prev = Add(e * rows * dims.S);
  dropped = Add(dims.drops ? e * out : 0);
  for (int64_t i = 0; i < 2; ++i) dy[i] = Add(dims.L > i + 1 ? e * out : 0);
  x = Add(sorts ? e * rows * dims.I : 0);
  dx = Add(sorts ? e * rows * dims.I : 0);
  y_top = Add(sorts ? e * out : 0);
  dy_top = Add(sorts ? e * out : 0);
  h0 = Add(sorts ? e * D * NS : 0);
  dhN = Add(sorts ? e * D * NS : 0);
  c0 = Add(sorts && cell.cell_state ? e * D * NH : 0);
  dcN = Add(sorts && cell.cell_state ? e * D * NH : 0);
}

StagedForwardPlan::StagedForwardPlan(const Dims& dims, bool training, int64_t inner_bytes,
                                     int64_t gap)
    : RegionPlan(gap) {
  const int64_t states = dims.L * dims.D * dims.N;
  x = Add(4 * dims.T * dims.N * dims.I);
  h0 = Add(4 * states * dims.S);
  c0 = Add(dims.cell().cell_state ? 4 * states * dims.H : 0);
  y = Add(training ? 0 : 4 * dims.T * dims.N * dims.D * dims.S);
  hN = Add(h0.bytes);
  cN = Add(c0.bytes);
  inner = Add(inner_bytes);
}

StagedBackwardPlan::StagedBackwardPlan(const Dims& dims, int64_t inner_bytes, int64_t gap)
    : StagedForwardPlan(dims, /*training=*/true, inner_bytes, gap) {
  params = Add(4 * ParamLayout(dims).size());
  dy = Add(4 * dims.T * dims.N * dims.D * dims.S);
  dx = Add(x.bytes);
  dparams = Add(params.bytes);
  dh0 = Add(h0.bytes);
  dc0 = Add(c0.bytes);
}

}  // namespace fused_rnn
