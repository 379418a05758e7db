// Fused recurrent layers on a CPU: the library's only public C++ header.
//
// A `Problem` describes a stack of L recurrent layers in D directions over T time steps and N
// sequences. Size queries say how large every buffer is; `Forward` and `Backward` compute in
// buffers that the caller owns. Nothing is kept between calls except the process-wide choice of
// instruction set and number of threads.
//
// Letters used for sizes everywhere in this project (all in elements):
//   T time steps, N batch, I input size, H hidden size, P projected size (0 = none), L layers, D
//   directions (1 or 2), G gates of a cell (LSTM 4: i, f, g, o; GRU 3: r, z, n; RNN 1), S = P if
//   projected, else H (the size of h and of y per direction).
//
// Every tensor is dense and row-major (the last index has stride 1), in the problem's dtype,
// aligned to its element size:
//   x [T, N, I]                 input
//   params [ParamCount]         all weights, then all biases (layout: see `ParamCount`)
//   h0, hN [L*D, N, S]          initial and final hidden state; index l*D + d
//   c0, cN [L*D, N, H]          initial and final cell state (LSTM only)
//   y [T, N, D*S]               output of the last layer; the reverse direction is the second half,
//   y[..., S:]
// The gradient of a tensor is named d + its name and has its shape.
//
// Cells, with a = W x_t + bW and b = R h_{t-1} + bR (rows of W, R, bW, bR are the gates in the
// order given above):
//   rnn   h = act(a + b), act = tanh or relu                                        (Elman 1990,
//   eq. of the simple network) lstm  i, f, o = sigmoid(a + b); g = tanh(a + b); c = f c_{t-1} + i
//   g; h = o tanh(c)   (Gers et al. 2000, no peepholes)
//         clipped: c = min(max(c, clip_min), clip_max) before tanh and before the next step (cuDNN,
//         cudnnSetRNNClip) projected: h = Wp (o tanh(c)) (Sak et al. 2014, section 2)
//   gru   r, z = sigmoid(a + b); n = tanh(a_n + r b_n); h = (1 - z) n + z h_{t-1}      (Cho et al.
//   2014; cuDNN's variant,
//         which applies the reset gate after the recurrent product)
#ifndef FUSED_RNN_RNN_H_
#define FUSED_RNN_RNN_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

// The project's one version: the build, the Python package and the documentation read it from here.
#define FUSED_RNN_VERSION "0.1.0"

#define FUSED_RNN_API __attribute__((visibility("default")))

namespace fused_rnn {

// Values are those of MXNet's `mode` enumeration.
enum class Mode : int {
  kRnnRelu = 0,
  kRnnTanh = 1,
  kLstm = 2,
  kGru = 3,
  // Not MXNet's.
  kLstmPeephole = 4,
  kGruResetBefore = 5,
};
constexpr int kModeCount = 6;

// The mode's name: "rnn_relu", "lstm_peephole" and so on; and whether its cell has a state c beside
// h, which may be clipped and projected.
FUSED_RNN_API const char* ModeName(Mode mode);
FUSED_RNN_API bool HasCellState(Mode mode);

// Element type of all tensors of a problem. The half types are storage only: arithmetic is float32.
enum class DType : int { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBFloat16 = 3 };

// What to do with a gradient: leave it (and skip the work that only it needs), overwrite it, or add
// to what is there.
enum class Request : int { kNull = 0, kWrite = 1, kAdd = 2 };

// Thrown for every rejected argument; what() names the argument, what was expected and what came.
// std::runtime_error, so that the message crosses libraries built with either of libstdc++'s string
// layouts.
class FUSED_RNN_API Error : public std::runtime_error {
 public:
  explicit Error(const char* message);
  ~Error() override;
};

// Thrown where memory lacks; what() says how much was wanted.
class FUSED_RNN_API OutOfMemory : public std::bad_alloc {
 public:
  // `purpose`: what it was for. bytes: 0 where that is not known.
  OutOfMemory(const char* purpose, size_t bytes);
  ~OutOfMemory() override;
  const char* what() const noexcept override { return message_; }

 private:
  char message_[128];
};

// Thrown by a call whose caller wanted it to end (`Interrupt`).
class FUSED_RNN_API Interrupted : public Error {
 public:
  Interrupted();
  ~Interrupted() override;
};

// How a caller ends a long call: `requested(context)` is called now and then (not more than about
// ten times a second) on the thread that made the call; once it returns true, the call throws
// Interrupted within milliseconds. Its outputs, gradients to be added to included, then hold
// anything. `requested` must not throw. Null: the call cannot be ended.
struct Interrupt {
  bool (*requested)(void* context) = nullptr;
  void* context = nullptr;
};

struct Problem {
  Mode mode = Mode::kLstm;
  DType dtype = DType::kFloat32;
  int64_t T = 0;  // >= 0
  int64_t N = 0;  // >= 0
  int64_t I = 0;  // >= 0; 0 = biases and recurrence only
  int64_t H = 0;  // >= 1
  int64_t L = 1;  // >= 1
  int64_t D = 1;  // 1, or 2 = bidirectional
  int64_t P = 0;  // LSTM only: projected size, 1 <= P <= H; 0 = no projection
  // Probability, in [0, 1], that an element of the output of a layer other than the last is
  // dropped. Acts only in a forward that is given a reserve; leave it 0 to train without dropout.
  double dropout = 0;
  // The sequences have lengths of their own (`lengths` of the argument structs is read).
  bool variable_length = false;
  // LSTM only: clip the cell state into [clip_min, clip_max]; clip_nan also maps NaN into the
  // range.
  bool clip = false;
  double clip_min = 0;
  double clip_max = 0;
  bool clip_nan = false;
};

// Number of elements of `params`. Layout, in MXNet's order (l outer, d inner):
//   for each (l, d): W [G*H, I_l], R [G*H, S], and Wp [P, H] if projected; I_0 = I, I_l = D*S
//   above; then for each (l, d): bW [G*H], bR [G*H].
// Size queries throw Error if the problem is not valid or a size does not fit 63 bits.
FUSED_RNN_API int64_t ParamCount(const Problem& problem);

// Scratch memory of one call, in bytes; its contents are undefined before and after. 64-byte
// alignment expected. The values hold for the instruction set in use (see `IsaName`), for every
// number of threads.
FUSED_RNN_API size_t ForwardWorkspaceBytes(const Problem& problem, bool training);
FUSED_RNN_API size_t BackwardWorkspaceBytes(const Problem& problem);

// Memory that a training forward hands to its backward, in bytes; 64-byte alignment expected.
FUSED_RNN_API size_t ReserveBytes(const Problem& problem);

// Weights in the kernels' own layout, packed once for many forwards with the same parameters
// (streaming: one step a call, where a forward of its own would pack as long as it computes). Holds
// a copy: later changes of `params` do not reach it. Immutable, so threads may share it. May throw
// Error, OutOfMemory and Interrupted; T, N, dropout, clip and variable_length of the problem do not
// matter.
class FUSED_RNN_API PackedWeights {
 public:
  PackedWeights(const Problem& problem, const void* params, const Interrupt& interrupt = {});
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  size_t bytes() const { return bytes_; }
  void* data() const { return data_; }
  // Throws Error if they are not those of a problem with the same sizes and types, or not packed
  // for the instruction set `isa` (its name).
  void CheckFits(const Problem& problem, const char* isa) const;

 private:
  Problem problem_;
  const char* isa_;
  size_t bytes_ = 0;
  void* data_ = nullptr;
};

// All pointers are the caller's, before, during and after the call. No output may overlap an input
// or another output.
struct ForwardArgs {
  const void* x = nullptr;
  const void* params = nullptr;
  const void* h0 = nullptr;
  const void* c0 = nullptr;               // LSTM only
  const int64_t* lengths = nullptr;       // [N], 0 <= lengths[n] <= T; only with variable_length
  const PackedWeights* packed = nullptr;  // made from these params; may be null
  void* y = nullptr;
  void* hN = nullptr;         // may be null: not wanted
  void* cN = nullptr;         // LSTM only; may be null: not wanted
  void* workspace = nullptr;  // ForwardWorkspaceBytes(problem, reserve != nullptr)
  void* reserve =
      nullptr;  // null: inference. Else ReserveBytes(problem), written here, and dropout acts
  uint64_t dropout_seed = 0;  // key of the counter-based generator; the same key gives the same
                              // mask on any number of threads
  Interrupt interrupt;
};

// Forward and Backward throw Error for what they reject, before they write anything; OutOfMemory
// and Interrupted at any time, with their outputs undefined.
//
// y[t, n] is 0 for t >= lengths[n]; hN, cN are the states after each sequence's own last step.
FUSED_RNN_API void Forward(const Problem& problem, const ForwardArgs& args);

// Inputs are those of the forward, its y and its reserve; none of them is changed, so a backward
// can run again.
struct BackwardArgs {
  const void* x = nullptr;
  const void* params = nullptr;
  const void* h0 = nullptr;
  const void* c0 = nullptr;
  const int64_t* lengths = nullptr;
  const void* y = nullptr;
  const void* dy = nullptr;   // may be null: zero
  const void* dhN = nullptr;  // may be null: zero
  const void* dcN = nullptr;  // may be null: zero
  void* dx = nullptr;         // each gradient may be null only where its request is kNull
  void* dparams = nullptr;
  void* dh0 = nullptr;
  void* dc0 = nullptr;
  Request dx_req = Request::kNull;
  Request dparams_req = Request::kNull;
  Request dh0_req = Request::kNull;
  Request dc0_req = Request::kNull;
  void* workspace = nullptr;  // BackwardWorkspaceBytes(problem)
  const void* reserve = nullptr;
  Interrupt interrupt;
};

// dy at t >= lengths[n] is not read, and dx there is 0.
FUSED_RNN_API void Backward(const Problem& problem, const BackwardArgs& args);

// Instruction set of the kernels in use: "scalar", "avx2" or "avx512": the best that this CPU and
// operating system have, capped by the environment variable FUSED_RNN_MAX_ISA (one of these names;
// any other value makes every call throw Error).
FUSED_RNN_API const char* IsaName();

// The library that does the large float32 products of the backward pass, with its version, e.g.
// "oneDNN 3.2.0".
FUSED_RNN_API const char* GemmBackend();

// Threads that a call may use, decided when it begins. SetNumThreads(0), the default: OpenMP's
// setting for the calling thread (omp_get_max_threads) if OMP_NUM_THREADS is set, at most 1024;
// else one for each physical core that the process may run on (`taskset`, cpusets), and no more
// than its CPU quota (cgroups). SetNumThreads throws Error for a number that is negative or above
// 1024.
FUSED_RNN_API int NumThreads();
FUSED_RNN_API void SetNumThreads(int threads);

// Where the time went between StartProfile and StopProfile, over all calls of the process: seconds,
// summed over threads, but for `elapsed`. Not to be started twice at a time.
struct Profile {
  double elapsed;
  double packing;
  double input_products;      // W x in the forward
  double recurrent_products;  // with R and Wp, forward and backward
  double gates;
  double waiting;         // for other threads at the end of phases
  double large_products;  // gradients of weights and inputs
};
FUSED_RNN_API void StartProfile();
FUSED_RNN_API Profile StopProfile();

// A hash of memory, the same on any number of threads: tells whether a tensor has changed between a
// forward and its backward.
FUSED_RNN_API uint64_t HashBytes(const void* data, size_t bytes);

// Multiply-adds (as 2 operations each) that `threads` threads (0 = NumThreads()) do per second with
// operands in registers, in GFLOP/s: the roof that benchmarks divide by. Runs for about `seconds`.
// Float32 or float64.
FUSED_RNN_API double MeasureFmaPeak(DType dtype, int threads, double seconds,
                                    const Interrupt& interrupt = {});

// GB/s at which `threads` threads (0 = NumThreads()) together read a buffer of `bytes` again and
// again, each its own part of it, as the recurrent weights are read at every step. The size decides
// which cache, or main memory, it is the bandwidth of.
FUSED_RNN_API double MeasureReadBandwidth(size_t bytes, int threads, double seconds,
                                          const Interrupt& interrupt = {});

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_H_
