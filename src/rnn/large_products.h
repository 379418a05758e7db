// The gradients of a layer's weights and inputs, from those of its pre-activations: large products
// over all steps (gemm.h).
#ifndef FUSED_RNN_RNN_LARGE_PRODUCTS_H_
#define FUSED_RNN_RNN_LARGE_PRODUCTS_H_

#include <algorithm>

#include "base/team.h"
#include "rnn/gemm.h"
#include "rnn/output.h"
#include "rnn/param_layout.h"
#include "rnn/steps.h"

namespace fused_rnn {

// One direction of one layer. Row i of a step is at row(t) + i in arrays of [rows, ...].
template <typename Format>
struct BackwardDirection {
  using Real = typename Format::Real;
  using Weight = typename Format::Weight;
  using Packed = typename Format::Packed;
  const Real* W;
  const Weight* R;
  const Weight* Wp;
  const Real* h0;            // [N, S], packed order
  const Real* c0;            // [N, H], packed order
  const Real* dhN;           // [N, S], packed order, or null
  const Real* dcN;           // [N, H], packed order, or null
  const Real* unit_weights;  // [cell.unit_weights, H]
  const Real* gates;         // [rows, kept_gates*Hp], panel order
  const Real* value;         // [rows, Hp]; like the following null if the cell has none
  const Real* c;             // [rows, H]
  const Real* y;             // [rows, y_ld]: this direction's columns
  const Real* dy;            // likewise, or null
  int64_t y_ld;
  Output<Real> dh0{nullptr, Request::kNull};  // [N, S], the caller's order
  Output<Real> dc0{nullptr, Request::kNull};  // [N, H], the caller's order
  Packed* panels;                             // of R^T
  Packed* projection;                         // panels of Wp^T
  Real* gradients;                            // [rows, gradients*H]
  Real* sums;                                 // [cell.sums(), H]
  Real* dc;                                   // [N, H]; null without a cell state
  Real* carry;                                // [N, H]; null if the cell carries nothing
  Real* dh;                                   // [rows, P]
  Real* unprojected;                          // [rows, H]
};

template <typename Format>
class LargeProducts {
  using Real = typename Format::Real;
  using Varying = typename GemmArgs<Real>::Varying;

 public:
  using Direction = BackwardDirection<Format>;

  // Hp: H rounded up to whole vectors, as in ReservePlan.
  LargeProducts(const Execution& execution, const Dims& dims, const Steps& steps, int64_t Hp)
      : execution_(execution),
        dims_(dims),
        steps_(steps),
        Hp_(Hp),
        gradients_ld_(dims.cell().gradients * dims.H) {}

  // Adds or writes the gradients of direction d's weights and biases. dparams: the whole vector.
  void WeightGradients(const Direction& dir, int64_t l, int64_t d, const Real* input,
                       const ParamLayout& layout, const Output<Real>& dparams, Real* h_prev) const {
    if (dparams.data == nullptr) return;
    const int64_t H = dims_.H, S = dims_.S, rows = steps_.rows();
    const int64_t input_size = dims_.InputSize(l);
    const auto product = [&](int64_t M, int64_t N, const Real* a, int64_t a_ld, const Real* b,
                             int64_t b_ld, int64_t to) {
      Gemm<Real>(execution_, {M, N, rows, a, a_ld, true, b, b_ld, false, dparams.data + to, N,
                              dparams.add, VaryingRows(Varying::kK)});
    };
    const auto put_sums = [&](int64_t to, int first, int count) {
      dparams.Part(to).PutAll(dir.sums + first * H, count * H);
    };
    GatherPrevious(dir, d, h_prev);
    product(dims_.G * H, input_size, InputSide(dir), gradients_ld_, input, input_size,
            layout.W(l, d));
    put_sums(layout.bW(l, d), cell_.input_gradient, cell_.gates);
    for (int i = 0; i < cell_.parts; ++i) {
      const RecurrentPart& part = cell_.part[i];
      const Rows<const Real> read =
          part.stage == 0 ? Rows<const Real>{h_prev, S} : Rows<const Real>{dir.value, Hp_};
      product(part.count * H, S, dir.gradients + part.gradient * H, gradients_ld_, read.data,
              read.ld, layout.R(l, d) + part.gate * H * S);
      put_sums(layout.bR(l, d) + part.gate * H, part.gradient, part.count);
    }
    put_sums(layout.UnitWeights(l, d), cell_.gradients, cell_.unit_weights);
    if (dims_.projected())
      product(dims_.P, H, dir.dh, dims_.P, dir.unprojected, H, layout.Wp(l, d));
  }

  // dx [rows, input_size] = (or +=) this direction's part.
  void InputGradient(const Direction& dir, int64_t l, Real* dx, bool add) const {
    const int64_t input_size = dims_.InputSize(l);
    Gemm<Real>(execution_,
               {steps_.rows(), input_size, dims_.G * dims_.H, InputSide(dir), gradients_ld_, false,
                dir.W, input_size, false, dx, input_size, add, VaryingRows(Varying::kM)});
  }

 private:
  // The columns of the gradients that belong to W x + bW.
  const Real* InputSide(const Direction& dir) const {
    return dir.gradients + cell_.input_gradient * dims_.H;
  }

  // h_prev [rows, S] = h_{t-1} of every row.
  void GatherPrevious(const Direction& dir, int64_t d, Real* h_prev) const {
    const int64_t S = dims_.S;
    const double work = static_cast<double>(steps_.rows()) * S;
    ParallelFor(execution_, work, steps_.T(), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        ForEachPrevious(steps_, t, d, {0, steps_.n(t)}, [&](Range part, int64_t prev_row) {
          for (int64_t i = part.begin; i < part.end; ++i) {
            const Real* from = prev_row < 0 ? dir.h0 + i * S : dir.y + (prev_row + i) * dir.y_ld;
            std::copy(from, from + S, h_prev + (steps_.row(t) + i) * S);
          }
        });
      }
    });
  }

  // With lengths, the number of rows is their sum, and another one at each call.
  Varying VaryingRows(Varying dimension) const {
    return steps_.packed() ? dimension : Varying::kNone;
  }

  const Execution& execution_;
  const Dims& dims_;
  const Cell& cell_ = dims_.cell();
  const Steps& steps_;
  const int64_t Hp_, gradients_ld_;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_LARGE_PRODUCTS_H_
