#include "rnn/dims.h"

#include <cinttypes>
#include <cmath>

#include "base/check.h"
#include "cells/cells.h"

namespace fused_rnn {

namespace {

void CheckAtLeast(const char* name, int64_t value, int64_t least) {
  FUSED_RNN_CHECK(value >= least, "%s: expected >= %" PRId64 ", got %" PRId64, name, least, value);
}

void CheckFields(const Problem& p) {
  const int mode = static_cast<int>(p.mode);
  FUSED_RNN_CHECK(mode >= 0 && mode < kModeCount, "mode: expected 0 to %d, got %d", kModeCount - 1,
                  mode);
  const Cell& cell = kCells[mode];
  const int dtype = static_cast<int>(p.dtype);
  FUSED_RNN_CHECK(dtype >= 0 && dtype <= 3, "dtype: expected 0 to 3, got %d", dtype);
  CheckAtLeast("T", p.T, 0);
  CheckAtLeast("N", p.N, 0);
  CheckAtLeast("I", p.I, 0);
  CheckAtLeast("H (state_size)", p.H, 1);
  CheckAtLeast("L (num_layers)", p.L, 1);
  FUSED_RNN_CHECK(p.D == 1 || p.D == 2, "D (directions): expected 1 or 2, got %" PRId64, p.D);
  CheckAtLeast("P (projection_size)", p.P, 0);
  if (p.P > 0) {
    FUSED_RNN_CHECK(cell.cell_state,
                    "projection_size: expected none, as mode is not lstm, got %" PRId64, p.P);
    FUSED_RNN_CHECK(p.P <= p.H, "projection_size: expected <= state_size %" PRId64 ", got %" PRId64,
                    p.H, p.P);
  }
  FUSED_RNN_CHECK(p.dropout >= 0 && p.dropout <= 1, "dropout (p): expected 0 to 1, got %g",
                  p.dropout);
  if (p.clip) {
    FUSED_RNN_CHECK(
        cell.cell_state,
        "lstm_state_clip_min, lstm_state_clip_max: expected none, as mode is not lstm, got %g, %g",
        p.clip_min, p.clip_max);
    FUSED_RNN_CHECK(p.clip_min <= p.clip_max,
                    "lstm_state_clip_min: expected <= lstm_state_clip_max %g, got %g", p.clip_max,
                    p.clip_min);
  }
}

}  // namespace

const char* ModeName(Mode mode) { return kCells[static_cast<int>(mode)].name; }

bool HasCellState(Mode mode) { return kCells[static_cast<int>(mode)].cell_state; }

Dims::Dims(const Problem& problem) : Problem(problem) {
  CheckFields(problem);
  cell_ = &kCells[static_cast<int>(mode)];
  G = cell_->gates;
  S = projected() ? P : H;
  kept_gates = cell_->keeps_gates ? G : 0;
  drops = dropout > 0 && L > 1;

  // No buffer of any pass holds more elements than this, so that below here 64-bit products cannot
  // overflow.
  constexpr double kMargin = 64;  // vector padding, both directions, several buffers of a kind
  const double h = static_cast<double>(H) + kMargin, in = static_cast<double>(I) + 2 * h + kMargin;
  const double rows =
      static_cast<double>(T) * static_cast<double>(N) + static_cast<double>(N) + kMargin;
  const double elements =
      static_cast<double>(L) * 2 * (8 * h * (in + 2 * h) + rows * (12 * h + in));
  FUSED_RNN_CHECK(elements * 8 < std::ldexp(1.0, 62),
                  "T %" PRId64 ", N %" PRId64 ", I %" PRId64 ", H %" PRId64 ", L %" PRId64
                  ": expected sizes that fit 63 bits, got about %.3g bytes",
                  T, N, I, H, L, elements * 8);
}

}  // namespace fused_rnn
