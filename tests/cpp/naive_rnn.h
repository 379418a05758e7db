// The judge: recurrent layers cell by cell and number by number, from the equations in
// fused_rnn/rnn.h, sharing nothing with src/. With Number = double it gives outputs; with Dual, the
// exact derivative of them along one direction of all inputs.
#ifndef FUSED_RNN_TESTS_CPP_NAIVE_RNN_H_
#define FUSED_RNN_TESTS_CPP_NAIVE_RNN_H_

#include <cmath>
#include <vector>

#include "rnn_case.h"

namespace fused_rnn {

// A value and its derivative along a direction (forward-mode differentiation).
struct Dual {
  double value = 0, slope = 0;
  Dual() = default;
  Dual(double value, double slope = 0) : value(value), slope(slope) {}
};
inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}

inline double ValueOf(double x) { return x; }
inline double ValueOf(Dual x) { return x.value; }

inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline Dual Sigmoid(Dual x) {
  const double s = Sigmoid(x.value);
  return {s, x.slope * s * (1 - s)};
}
inline double Tanh(double x) { return std::tanh(x); }
inline Dual Tanh(Dual x) {
  const double t = std::tanh(x.value);
  return {t, x.slope * (1 - t * t)};
}

template <typename Number>
struct NaiveInputs {
  std::vector<Number> x, params, h0, c0;
};

template <typename Number>
struct NaiveOutputs {
  std::vector<Number> y, hN, cN;
};

template <typename T>
NaiveInputs<double> NaiveInputsOf(const Inputs<T>& in) {
  const auto convert = [](const GuardedArray<T>& values) {
    std::vector<double> result;
    for (T value : values) result.push_back(ToDouble(value));
    return result;
  };
  return {convert(in.x), convert(in.params), convert(in.h0), convert(in.c0)};
}

// What dropout does between two layers: factors [L-1, T, N, D*S], 0 or 1/(1-p); empty for none.
using DropoutFactors = std::vector<double>;

namespace naive {

template <typename Number>
struct Weights {
  const Number *W, *R, *Wp, *bW, *bR, *peepholes;
  int64_t input;
};

// In the order that rnn.h documents at ParamCount.
template <typename Number>
std::vector<Weights<Number>> Unpack(const Case& c, const Number* params) {
  const Problem& p = c.problem;
  const int64_t GH = GatesOf(p.mode) * p.H, S = c.StateSize();
  std::vector<Weights<Number>> all(p.L * p.D);
  const auto take = [&params](int64_t count) { return (params += count) - count; };
  for (size_t k = 0; k < all.size(); ++k) {
    all[k].input = k < static_cast<size_t>(p.D) ? p.I : p.D * S;
    all[k].W = take(GH * all[k].input);
    all[k].R = take(GH * S);
    all[k].Wp = take(p.P * p.H);
  }
  for (Weights<Number>& w : all) {
    w.bW = take(GH);
    w.bR = take(GH);
  }
  const bool peepholes = p.mode == Mode::kLstmPeephole;
  for (Weights<Number>& w : all) w.peepholes = take(peepholes ? 3 * p.H : 0);
  return all;
}

template <typename Number>
std::vector<Number> Affine(const Number* matrix, const Number* bias, int64_t rows, const Number* x,
                           int64_t size) {
  std::vector<Number> result(rows);
  for (int64_t i = 0; i < rows; ++i) {
    Number sum = bias != nullptr ? bias[i] : Number(0);
    for (int64_t j = 0; j < size; ++j) sum = sum + matrix[i * size + j] * x[j];
    result[i] = sum;
  }
  return result;
}

template <typename Number>
Number Clip(const Problem& p, Number c) {
  if (!p.clip) return c;
  if (std::isnan(ValueOf(c))) return p.clip_nan ? Number(p.clip_min) : c;
  if (ValueOf(c) < p.clip_min) return Number(p.clip_min);
  if (ValueOf(c) > p.clip_max) return Number(p.clip_max);
  return c;
}

// One step of one sequence: h and c become those after the input x.
template <typename Number>
void Cell(const Case& problem_case, const Weights<Number>& w, const Number* x,
          std::vector<Number>* h, std::vector<Number>* c) {
  const Problem& p = problem_case.problem;
  const int64_t H = p.H, GH = GatesOf(p.mode) * H;
  const std::vector<Number> a = Affine(w.W, w.bW, GH, x, w.input);
  const std::vector<Number> b = Affine(w.R, w.bR, GH, h->data(), problem_case.StateSize());
  std::vector<Number> next(H);
  for (int64_t j = 0; j < H; ++j) {
    const auto sum = [&](int64_t gate) { return a[gate * H + j] + b[gate * H + j]; };
    switch (p.mode) {
      case Mode::kRnnRelu:
        next[j] = ValueOf(sum(0)) <= 0 ? Number(0) : sum(0);
        break;
      case Mode::kRnnTanh:
        next[j] = Tanh(sum(0));
        break;
      case Mode::kLstm:
        (*c)[j] = Clip(p, Sigmoid(sum(1)) * (*c)[j] + Sigmoid(sum(0)) * Tanh(sum(2)));
        next[j] = Sigmoid(sum(3)) * Tanh((*c)[j]);
        break;
      case Mode::kGru: {
        const Number r = Sigmoid(sum(0)), z = Sigmoid(sum(1));
        const Number n = Tanh(a[2 * H + j] + r * b[2 * H + j]);
        next[j] = (Number(1) - z) * n + z * (*h)[j];
        break;
      }
      case Mode::kLstmPeephole: {
        const Number* p_j = w.peepholes + j;
        const Number i = Sigmoid(sum(0) + p_j[0] * (*c)[j]);
        const Number f = Sigmoid(sum(1) + p_j[H] * (*c)[j]);
        (*c)[j] = Clip(p, f * (*c)[j] + i * Tanh(sum(2)));
        next[j] = Sigmoid(sum(3) + p_j[2 * H] * (*c)[j]) * Tanh((*c)[j]);
        break;
      }
      case Mode::kGruResetBefore: {
        const auto gate = [&](int64_t g, int64_t unit) {
          return Sigmoid(a[g * H + unit] + b[g * H + unit]);
        };
        std::vector<Number> reset(H);
        for (int64_t k = 0; k < H; ++k) reset[k] = gate(0, k) * (*h)[k];
        const Number z = gate(1, j);
        const Number n = Tanh(a[2 * H + j] + Affine(w.R + (2 * H + j) * H, w.bR + 2 * H + j,
                                                    int64_t{1}, reset.data(), H)[0]);
        next[j] = (Number(1) - z) * n + z * (*h)[j];
        break;
      }
    }
  }
  *h = p.P > 0 ? Affine<Number>(w.Wp, nullptr, p.P, next.data(), H) : next;
}

}  // namespace naive

template <typename Number>
NaiveOutputs<Number> NaiveForward(const Case& c, const NaiveInputs<Number>& in,
                                  const DropoutFactors& dropout = {}) {
  const Problem& p = c.problem;
  const int64_t N = p.N, S = c.StateSize(), width = p.D * S;
  const std::vector<naive::Weights<Number>> weights = naive::Unpack(c, in.params.data());
  NaiveOutputs<Number> out;
  std::vector<Number> input = in.x;
  for (int64_t l = 0; l < p.L; ++l) {
    std::vector<Number> y(p.T * N * width, Number(0));
    for (int64_t d = 0; d < p.D; ++d) {
      const int64_t k = l * p.D + d;
      for (int64_t n = 0; n < N; ++n) {
        const auto state_of = [&](const std::vector<Number>& states, int64_t size) {
          return std::vector<Number>(states.begin() + (k * N + n) * size,
                                     states.begin() + (k * N + n + 1) * size);
        };
        std::vector<Number> h = state_of(in.h0, S), cell;
        if (c.lstm()) cell = state_of(in.c0, p.H);
        for (int64_t s = 0; s < c.Length(n); ++s) {
          const int64_t t = d == 0 ? s : c.Length(n) - 1 - s;
          naive::Cell(c, weights[k], input.data() + (t * N + n) * weights[k].input, &h, &cell);
          std::copy(h.begin(), h.end(), y.begin() + (t * N + n) * width + d * S);
        }
        out.hN.insert(out.hN.end(), h.begin(), h.end());
        out.cN.insert(out.cN.end(), cell.begin(), cell.end());
      }
    }
    out.y = y;
    input = y;
    if (!dropout.empty() && l < p.L - 1) {
      for (size_t i = 0; i < input.size(); ++i)
        input[i] = input[i] * Number(dropout[l * input.size() + i]);
    }
  }
  return out;
}

// The derivative of sum(dy * y) + sum(dhN * hN) + sum(dcN * cN) along `direction`, a direction of
// the inputs.
template <typename T>
double NaiveSlope(const Case& c, const Inputs<T>& in, const NaiveInputs<double>& point,
                  const NaiveInputs<double>& direction, const DropoutFactors& dropout = {}) {
  const auto combine = [](const std::vector<double>& values, const std::vector<double>& slopes) {
    std::vector<Dual> result(values.size());
    for (size_t i = 0; i < values.size(); ++i) result[i] = {values[i], slopes[i]};
    return result;
  };
  const NaiveOutputs<Dual> out =
      NaiveForward<Dual>(c,
                         {combine(point.x, direction.x), combine(point.params, direction.params),
                          combine(point.h0, direction.h0), combine(point.c0, direction.c0)},
                         dropout);
  double slope = 0;
  const auto add = [&slope](const std::vector<Dual>& values, const GuardedArray<T>& gradient) {
    for (size_t i = 0; i < values.size(); ++i) slope += values[i].slope * ToDouble(gradient[i]);
  };
  add(out.y, in.dy);
  add(out.hN, in.dhN);
  add(out.cN, in.dcN);
  return slope;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_NAIVE_RNN_H_
