// A recurrent problem with tensors around it, and how to run it. Every tensor is a GuardedArray, so
// that a read or write beyond any of them is a fault; outputs start as NaN.
#ifndef FUSED_RNN_TESTS_CPP_RNN_CASE_H_
#define FUSED_RNN_TESTS_CPP_RNN_CASE_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "check.h"
#include "element.h"
#include "fused_rnn/rnn.h"
#include "guarded_array.h"
#include "random.h"

namespace fused_rnn {

inline int64_t GatesOf(Mode mode) {
  switch (mode) {
    case Mode::kLstm:
    case Mode::kLstmPeephole:
      return 4;
    case Mode::kGru:
    case Mode::kGruResetBefore:
      return 3;
    default:
      return 1;
  }
}
inline bool IsLstm(Mode mode) { return mode == Mode::kLstm || mode == Mode::kLstmPeephole; }

constexpr Mode kModes[] = {Mode::kRnnRelu, Mode::kRnnTanh,      Mode::kLstm,
                           Mode::kGru,     Mode::kLstmPeephole, Mode::kGruResetBefore};

struct Case {
  Problem problem;               // dtype: that of the tensors it is run with
  std::vector<int64_t> lengths;  // [N], or empty without variable_length
  uint64_t dropout_seed = 7;

  bool lstm() const { return IsLstm(problem.mode); }
  int64_t StateSize() const { return problem.P > 0 ? problem.P : problem.H; }
  int64_t States() const { return problem.L * problem.D * problem.N; }
  int64_t Length(int64_t n) const { return lengths.empty() ? problem.T : lengths[n]; }
  Problem WithType(DType dtype) const {
    Problem typed = problem;
    typed.dtype = dtype;
    return typed;
  }
  std::string Describe() const {
    const Problem& p = problem;
    char text[200];
    std::snprintf(text, sizeof(text), "%s T %d N %d I %d H %d L %d D %d P %d dropout %g clip %d",
                  ModeName(p.mode), static_cast<int>(p.T), static_cast<int>(p.N),
                  static_cast<int>(p.I), static_cast<int>(p.H), static_cast<int>(p.L),
                  static_cast<int>(p.D), static_cast<int>(p.P), p.dropout, p.clip);
    std::string result = text;
    if (p.variable_length) result += " lengths";
    for (int64_t length : lengths) result += " " + std::to_string(length);
    return result;
  }
};

// Lengths that have T, 0, and both ends of falling and rising runs among them, where N allows.
inline void SetLengths(Case* c, uint64_t seed) {
  c->problem.variable_length = true;
  c->lengths.resize(c->problem.N);
  Random random(seed);
  random.FillInts(&c->lengths, 0, c->problem.T);
  if (c->problem.N > 1) c->lengths[random.Int(0, c->problem.N - 1)] = c->problem.T;
}

inline void SetClip(Case* c, double min, double max) {
  c->problem.clip = true;
  c->problem.clip_min = min;
  c->problem.clip_max = max;
}

// Two layers, both directions, sizes of no special kind.
inline Case SmallCase(Mode mode) {
  Case c;
  c.problem.mode = mode;
  c.problem.T = 5;
  c.problem.N = 6;
  c.problem.I = 3;
  c.problem.H = 9;
  c.problem.L = 2;
  c.problem.D = 2;
  return c;
}

struct Size {
  int64_t T, N, I, H, P;  // P: where there is a projection
};

// Every combination of mode, number of layers, directions and features.
template <typename Body>
void ForEachCase(const Size& size, const Body& body) {
  for (Mode mode : kModes) {
    for (int64_t L : {1, 2, 3}) {
      for (int64_t D : {1, 2}) {
        for (int features = 0; features < 16; ++features) {
          const bool lengths = features & 1, dropout = features & 2, projection = features & 4,
                     clip = features & 8;
          if ((projection || clip) && !IsLstm(mode)) continue;
          if (dropout && L == 1) continue;
          Case c;
          c.problem.mode = mode;
          c.problem.T = size.T;
          c.problem.N = size.N;
          c.problem.I = size.I;
          c.problem.H = size.H;
          c.problem.L = L;
          c.problem.D = D;
          if (projection) c.problem.P = size.P;
          if (dropout) c.problem.dropout = 0.4;
          if (clip) SetClip(&c, -0.3, 0.2);
          if (lengths) SetLengths(&c, L * 2 + D);
          body(c);
        }
      }
    }
  }
}

// The same numbers in float and double.
template <typename T>
struct Inputs {
  Inputs(const Case& c, uint64_t seed)
      : x(c.problem.T * c.problem.N * c.problem.I),
        params(ParamCount(c.problem)),
        h0(c.States() * c.StateSize()),
        c0(c.lstm() ? c.States() * c.problem.H : 0),
        dy(c.problem.T * c.problem.N * c.problem.D * c.StateSize()),
        dhN(h0.size()),
        dcN(c0.size()) {
    Random random(seed);
    // Weights of a size at which gates neither saturate nor forget at once.
    const double weight = std::min(0.5, 1.5 / std::sqrt(static_cast<double>(c.problem.H)));
    const auto fill = [&random](GuardedArray<T>* values, double range) {
      for (T& value : *values)
        value = FromDouble<T>(static_cast<float>(random.Uniform(-range, range)));
    };
    fill(&params, weight);
    for (GuardedArray<T>* values : {&x, &h0, &c0, &dy, &dhN, &dcN}) fill(values, 1);
  }

  std::vector<const GuardedArray<T>*> all() const {
    return {&x, &params, &h0, &c0, &dy, &dhN, &dcN};
  }

  GuardedArray<T> x, params, h0, c0;
  GuardedArray<T> dy, dhN, dcN;
};

template <typename T>
struct Results {
  explicit Results(const Inputs<T>& in)
      : y(in.dy.size()),
        hN(in.h0.size()),
        cN(in.c0.size()),
        dx(in.x.size()),
        dparams(in.params.size()),
        dh0(in.h0.size()),
        dc0(in.c0.size()) {}

  std::vector<const GuardedArray<T>*> outputs() const { return {&y, &hN, &cN}; }
  std::vector<const GuardedArray<T>*> gradients() const { return {&dx, &dparams, &dh0, &dc0}; }
  std::vector<GuardedArray<T>*> mutable_gradients() { return {&dx, &dparams, &dh0, &dc0}; }

  GuardedArray<T> y, hN, cN;
  GuardedArray<T> dx, dparams, dh0, dc0;
};

struct Requests {
  Request dx = Request::kWrite, dparams = Request::kWrite, dh0 = Request::kWrite,
          dc0 = Request::kWrite;
};

// Without workspace and reserve.
template <typename T>
ForwardArgs MakeForwardArgs(const Case& c, const Inputs<T>& in, Results<T>* out) {
  ForwardArgs args;
  args.x = in.x.data();
  args.params = in.params.data();
  args.h0 = in.h0.data();
  args.c0 = c.lstm() ? in.c0.data() : nullptr;
  args.lengths = c.lengths.data();
  args.y = out->y.data();
  args.hN = out->hN.data();
  args.cN = c.lstm() ? out->cN.data() : nullptr;
  args.dropout_seed = c.dropout_seed;
  return args;
}

template <typename T>
BackwardArgs MakeBackwardArgs(const Case& c, const Inputs<T>& in, Results<T>* out,
                              const Requests& requests) {
  BackwardArgs args;
  args.x = in.x.data();
  args.params = in.params.data();
  args.h0 = in.h0.data();
  args.c0 = c.lstm() ? in.c0.data() : nullptr;
  args.lengths = c.lengths.data();
  args.y = out->y.data();
  args.dy = in.dy.data();
  args.dhN = in.dhN.data();
  args.dcN = c.lstm() ? in.dcN.data() : nullptr;
  args.dx = out->dx.data();
  args.dparams = out->dparams.data();
  args.dh0 = out->dh0.data();
  args.dc0 = c.lstm() ? out->dc0.data() : nullptr;
  args.dx_req = requests.dx;
  args.dparams_req = requests.dparams;
  args.dh0_req = requests.dh0;
  args.dc0_req = c.lstm() ? requests.dc0 : Request::kNull;
  return args;
}

// Workspace or reserve: aligned, and full of NaN.
using Memory = GuardedArray<unsigned char>;
inline Memory MakeMemory(size_t bytes) { return Memory(static_cast<int64_t>(bytes), 64); }

template <typename T>
void RunInference(const Case& c, const Inputs<T>& in, Results<T>* out) {
  const Problem problem = c.WithType(DTypeOf<T>());
  Memory workspace = MakeMemory(ForwardWorkspaceBytes(problem, false));
  ForwardArgs args = MakeForwardArgs(c, in, out);
  args.workspace = workspace.data();
  Forward(problem, args);
}

// Returns the reserve.
template <typename T>
Memory RunTrainingForward(const Case& c, const Inputs<T>& in, Results<T>* out) {
  const Problem problem = c.WithType(DTypeOf<T>());
  Memory workspace = MakeMemory(ForwardWorkspaceBytes(problem, true));
  // Never null, which would mean inference.
  Memory reserve = MakeMemory(std::max<size_t>(64, ReserveBytes(problem)));
  ForwardArgs args = MakeForwardArgs(c, in, out);
  args.workspace = workspace.data();
  args.reserve = reserve.data();
  Forward(problem, args);
  return reserve;
}

template <typename T>
void RunBackwardOf(const Case& c, const Inputs<T>& in, const Memory& reserve,
                   const Requests& requests, Results<T>* out) {
  const Problem problem = c.WithType(DTypeOf<T>());
  Memory workspace = MakeMemory(BackwardWorkspaceBytes(problem));
  BackwardArgs args = MakeBackwardArgs(c, in, out, requests);
  args.workspace = workspace.data();
  args.reserve = reserve.data();
  Backward(problem, args);
}

// Both passes, all gradients written.
template <typename T>
Results<T> RunTraining(const Case& c, const Inputs<T>& in) {
  Results<T> out(in);
  const Memory reserve = RunTrainingForward(c, in, &out);
  RunBackwardOf(c, in, reserve, {}, &out);
  return out;
}

// The arguments of both passes of a training, with memory of their own, for tests that call them in
// ways of their own.
template <typename T>
struct TrainingArgs {
  TrainingArgs(const Case& c, const Inputs<T>& in)
      : problem(c.WithType(DTypeOf<T>())),
        out(in),
        reserve(MakeMemory(ReserveBytes(problem))),
        workspace(MakeMemory(
            std::max(ForwardWorkspaceBytes(problem, true), BackwardWorkspaceBytes(problem)))),
        forward(MakeForwardArgs(c, in, &out)),
        backward(MakeBackwardArgs(c, in, &out, {})) {
    forward.workspace = backward.workspace = workspace.data();
    forward.reserve = reserve.data();
    backward.reserve = reserve.data();
  }

  const Problem problem;
  Results<T> out;
  Memory reserve, workspace;
  ForwardArgs forward;
  BackwardArgs backward;
};

template <typename T>
void CheckSameOutputs(const Results<T>& a, const Results<T>& b) {
  CHECK(SameBits(a.y, b.y));
  CHECK(SameBits(a.hN, b.hN));
  CHECK(SameBits(a.cN, b.cN));
}

template <typename T>
void CheckSameGradients(const Results<T>& a, const Results<T>& b) {
  CHECK(SameBits(a.dx, b.dx));
  CHECK(SameBits(a.dparams, b.dparams));
  CHECK(SameBits(a.dh0, b.dh0));
  CHECK(SameBits(a.dc0, b.dc0));
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CPP_RNN_CASE_H_
