// Where each matrix and bias is in the flat parameter vector: MXNet's layout, the contract with the
// outside (rnn.h, ParamCount).
#ifndef FUSED_RNN_RNN_PARAM_LAYOUT_H_
#define FUSED_RNN_RNN_PARAM_LAYOUT_H_

#include "rnn/dims.h"

namespace fused_rnn {

// Offsets and sizes in elements, for layer l and direction d.
class ParamLayout {
 public:
  explicit ParamLayout(const Dims& dims)
      : dims_(dims),
        first_(WeightsOf(dims.I)),
        upper_(WeightsOf(dims.D * dims.S)),
        biases_(dims.D * (first_ + (dims.L - 1) * upper_)),
        unit_weights_(biases_ + dims.L * dims.D * 2 * dims.G * dims.H) {}

  int64_t W(int64_t l, int64_t d) const {  // [G*H, I_l]
    return l == 0 ? d * first_ : dims_.D * (first_ + (l - 1) * upper_) + d * upper_;
  }
  int64_t R(int64_t l, int64_t d) const {  // [G*H, S]
    return W(l, d) + dims_.G * dims_.H * dims_.InputSize(l);
  }
  int64_t Wp(int64_t l, int64_t d) const {  // [P, H]
    return R(l, d) + dims_.G * dims_.H * dims_.S;
  }
  int64_t bW(int64_t l, int64_t d) const {  // [G*H]
    return biases_ + (l * dims_.D + d) * 2 * dims_.G * dims_.H;
  }
  int64_t bR(int64_t l, int64_t d) const {  // [G*H]
    return bW(l, d) + dims_.G * dims_.H;
  }
  int64_t UnitWeights(int64_t l, int64_t d) const {  // [cell.unit_weights, H]
    return unit_weights_ + (l * dims_.D + d) * dims_.cell().unit_weights * dims_.H;
  }
  int64_t size() const { return UnitWeights(dims_.L, 0); }

 private:
  int64_t WeightsOf(int64_t input_size) const {
    return dims_.G * dims_.H * (input_size + dims_.S) + dims_.P * dims_.H;
  }

  Dims dims_;
  int64_t first_, upper_;          // weights of one direction of layer 0, of a layer above
  int64_t biases_, unit_weights_;  // where they begin
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_PARAM_LAYOUT_H_
