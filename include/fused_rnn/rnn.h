// Fused recurrent layers on a CPU: the problem, sizes of buffers, the two passes, settings.
//
// A `Problem` describes a stack of L recurrent layers in D directions over T time steps and N
// sequences. Size queries say how large every buffer is; `Forward` and `Backward` compute in
// buffers that the caller owns. Nothing is kept between calls except the process-wide choice of
// instruction set and number of threads. Every function may be called by any number of threads at a
// time.
//
// Letters used for sizes everywhere in this project (all in elements):
//   T time steps           H hidden size                   G gates of a cell, in their order:
//   N batch (sequences)    P projected size (0 = none)         LSTM 4: i, f, g, o
//   I input size           S = P if projected, else H          GRU 3: r, z, n
//   L layers               D directions (1 or 2)               RNN 1
// S is the size of h, and of y per direction.
//
// Every tensor is dense and row-major (the last index has stride 1), in the problem's dtype,
// aligned to its element size:
//   x [T, N, I]             input
//   params [ParamCount]     all weights, then all biases (layout: see `ParamCount`)
//   h0, hN [L*D, N, S]      initial and final hidden state; index l*D + d
//   c0, cN [L*D, N, H]      initial and final cell state (LSTM only)
//   y [T, N, D*S]           output of the last layer; y[..., S:] is that of the reverse direction
// The gradient of a tensor is named d + its name and has its shape.
//
// Cells and their formulas: modes.h.
#ifndef FUSED_RNN_RNN_H_
#define FUSED_RNN_RNN_H_

#include <cstddef>
#include <cstdint>

#include "fused_rnn/error.h"
#include "fused_rnn/memory.h"
#include "fused_rnn/modes.h"

// The project's one version: the build, the Python package and the documentation read it from here.
#define FUSED_RNN_VERSION "0.1.0"

namespace fused_rnn {

// kRnnRelu, kLstm and so on.
enum class Mode : int {
#define FUSED_RNN_MODE(name, c_name, value) k##name = value,
  FUSED_RNN_MODES(FUSED_RNN_MODE)
#undef FUSED_RNN_MODE
};
#define FUSED_RNN_MODE(name, c_name, value) +1
constexpr int kModeCount = FUSED_RNN_MODES(FUSED_RNN_MODE);
#undef FUSED_RNN_MODE

// The mode's name: "rnn_relu", "lstm_peephole" and so on; and whether its cell has a state c beside
// h, which may be clipped and projected.
FUSED_RNN_API const char* ModeName(Mode mode);
FUSED_RNN_API bool HasCellState(Mode mode);

// Element type of all tensors of a problem. The half types are storage only: arithmetic is float32.
enum class DType : int { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBFloat16 = 3 };

// What to do with a gradient: leave it (and skip the work that only it needs), overwrite it, or add
// to what is there.
enum class Request : int { kNull = 0, kWrite = 1, kAdd = 2 };

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
//   above; then for each (l, d): bW [G*H], bR [G*H]; then, for lstm_peephole, for each (l, d):
//   p [3*H], of i, f, o.
// Size queries throw Error if the problem is not valid or a size does not fit 63 bits.
FUSED_RNN_API int64_t ParamCount(const Problem& problem);

// Bytes of an element of a tensor.
constexpr size_t ElementBytes(DType dtype) {
  return dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2;
}

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
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  size_t bytes() const { return bytes_; }
  void* data() const { return memory_.data(); }
  // Throws Error if they are not those of a problem with the same sizes and types, or not packed
  // for the instruction set `isa` (its name).
  void CheckFits(const Problem& problem, const char* isa) const;

 private:
  Problem problem_;
  const char* isa_;
  size_t bytes_ = 0;
  Buffer memory_{MemoryKind::kWeights};
};

// The arguments of a forward, in the problem's dtype unless their type says more. All pointers are
// the caller's, before, during and after the call. No output may overlap an input or another
// output. A tensor without elements may be null.
struct ForwardArgs {
  // Inputs.
  const void* x = nullptr;           // [T, N, I]
  const void* params = nullptr;      // [ParamCount(problem)]
  const void* h0 = nullptr;          // [L*D, N, S]
  const void* c0 = nullptr;          // [L*D, N, H]; LSTM only, else ignored
  const int64_t* lengths = nullptr;  // [N], in steps, 0 <= lengths[n] <= T; variable_length only
  const PackedWeights* packed = nullptr;  // made from these params; null: packed by the call
  // Outputs.
  void* y = nullptr;   // [T, N, D*S]
  void* hN = nullptr;  // [L*D, N, S]; null: not wanted
  void* cN = nullptr;  // [L*D, N, H]; LSTM only, else ignored; null: not wanted
  // Memory.
  void* workspace = nullptr;  // ForwardWorkspaceBytes(problem, reserve != nullptr) bytes
  // ReserveBytes(problem) bytes, written here, and dropout acts; null: inference.
  void* reserve = nullptr;
  // Key of the counter-based generator of dropout masks: the same key gives the same masks on any
  // number of threads.
  uint64_t dropout_seed = 0;
  Interrupt interrupt;
};

// Forward and Backward throw Error for what they reject, before they write anything; OutOfMemory
// and Interrupted at any time, with their outputs undefined.
//
// y[t, n] is 0 for t >= lengths[n]; hN, cN are the states after each sequence's own last step.
FUSED_RNN_API void Forward(const Problem& problem, const ForwardArgs& args);

// The arguments of a backward; ownership, dtypes and overlap as for a forward. Inputs are those of
// the forward, its y and its reserve; none of them is changed, so a backward can run again.
struct BackwardArgs {
  // Inputs.
  const void* x = nullptr;           // [T, N, I]
  const void* params = nullptr;      // [ParamCount(problem)]
  const void* h0 = nullptr;          // [L*D, N, S]
  const void* c0 = nullptr;          // [L*D, N, H]; LSTM only, else ignored
  const int64_t* lengths = nullptr;  // [N], in steps; variable_length only
  const void* y = nullptr;           // [T, N, D*S]
  // Gradients of a loss by the outputs; null: zero.
  const void* dy = nullptr;   // [T, N, D*S]
  const void* dhN = nullptr;  // [L*D, N, S]
  const void* dcN = nullptr;  // [L*D, N, H]; LSTM only, else ignored
  // Gradients of the loss by the inputs; each may be null only where its request is kNull.
  void* dx = nullptr;       // [T, N, I]
  void* dparams = nullptr;  // [ParamCount(problem)]
  void* dh0 = nullptr;      // [L*D, N, S]
  void* dc0 = nullptr;      // [L*D, N, H]; LSTM only, else ignored
  Request dx_req = Request::kNull;
  Request dparams_req = Request::kNull;
  Request dh0_req = Request::kNull;
  Request dc0_req = Request::kNull;
  // Memory.
  void* workspace = nullptr;      // BackwardWorkspaceBytes(problem) bytes
  const void* reserve = nullptr;  // ReserveBytes(problem) bytes, as the forward left them
  Interrupt interrupt;
};

// dy at t >= lengths[n] is not read, and dx there is 0.
FUSED_RNN_API void Backward(const Problem& problem, const BackwardArgs& args);

// Instruction set of the kernels in use, e.g. "avx512": the best that this CPU and operating system
// have, capped by the environment variable FUSED_RNN_MAX_ISA (a name of an instruction set; any
// other value makes every call throw Error, which lists the names).
FUSED_RNN_API const char* IsaName();

// All that this CPU and operating system have, the best last, separated by blanks.
FUSED_RNN_API const char* SupportedIsaNames();

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

}  // namespace fused_rnn

#endif  // FUSED_RNN_RNN_H_
