/* The core in C (C99 or later): everything of rnn.h and session.h. Letters, shapes, layouts and
 * formulas are documented in rnn.h; a tensor is dense, row-major, in the problem's dtype and
 * aligned to its element size.
 *
 * Every function that can fail returns a `fused_rnn_status` and writes its results through its last
 * arguments, on success only. None lets an exception out, and none ends the process.
 *
 * Every struct begins with its own size, which says what members its user knows:
 *   fused_rnn_problem problem = {.size = sizeof problem, .mode = FUSED_RNN_LSTM, ...};
 * All others must be zero. Later versions append members whose zero means what was before. A
 * library takes structs of older versions, and of newer ones as long as what it does not know is
 * zero.
 */
#ifndef FUSED_RNN_FUSED_RNN_C_H_
#define FUSED_RNN_FUSED_RNN_C_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fused_rnn/modes.h"

#define FUSED_RNN_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fused_rnn_status {
  FUSED_RNN_OK = 0,
  FUSED_RNN_INVALID = 1,       /* an argument was refused; nothing was written */
  FUSED_RNN_OUT_OF_MEMORY = 2, /* outputs hold anything */
  FUSED_RNN_INTERRUPTED = 3,   /* at the caller's wish; outputs hold anything */
  FUSED_RNN_FAILED = 4         /* anything else that the system denied */
} fused_rnn_status;

/* The cells: FUSED_RNN_LSTM and so on (modes.h). */
enum {
#define FUSED_RNN_MODE(name, c_name, value) c_name = value,
  FUSED_RNN_MODES(FUSED_RNN_MODE)
#undef FUSED_RNN_MODE
};
enum {
  FUSED_RNN_FLOAT32 = 0,
  FUSED_RNN_FLOAT64 = 1,
  FUSED_RNN_FLOAT16 = 2,
  FUSED_RNN_BFLOAT16 = 3
};
/* What to do with a gradient: leave it and skip its work, overwrite it, or add to it. */
enum { FUSED_RNN_NULL = 0, FUSED_RNN_WRITE = 1, FUSED_RNN_ADD = 2 };
/* Cell states: as they come, into [clip_min, clip_max], or NaN into that range too. */
enum { FUSED_RNN_NO_CLIP = 0, FUSED_RNN_CLIP = 1, FUSED_RNN_CLIP_NAN = 2 };
/* What a session's forward leaves: nothing (prediction); what its backward needs to compute it
 * again; or a reserve for its backward. */
enum { FUSED_RNN_KEEP_NOTHING = 0, FUSED_RNN_KEEP_STAMP = 1, FUSED_RNN_KEEP_RESERVE = 2 };

typedef struct fused_rnn_problem {
  size_t size;             /* sizeof(fused_rnn_problem) */
  int32_t mode;            /* FUSED_RNN_RNN_RELU ... */
  int32_t dtype;           /* FUSED_RNN_FLOAT32 ... */
  int32_t variable_length; /* 1: `lengths` of the arguments is read; else 0 */
  int32_t clip;            /* FUSED_RNN_NO_CLIP ...; LSTM only */
  int64_t T;               /* time steps, >= 0 */
  int64_t N;               /* sequences, >= 0 */
  int64_t I;               /* input size, >= 0 */
  int64_t H;               /* hidden size, >= 1 */
  int64_t L;               /* layers, >= 1 */
  int64_t D;               /* directions, 1 or 2 */
  int64_t P;               /* projected size, LSTM only, <= H; 0: no projection */
  double dropout;          /* probability in [0, 1]; 0 to train without */
  double clip_min;
  double clip_max;
} fused_rnn_problem;

/* Weights in the kernels' own layout, packed once for many forwards; may be shared by threads. */
typedef struct fused_rnn_packed fused_rnn_packed;

/* A forward and its backward with their workspaces, the reserve, and the decision whether that
 * still serves; see session.h. Calls on one session must come one after another. */
typedef struct fused_rnn_session fused_rnn_session;

/* How a caller ends a long call: asked now and then, on the thread of the call; true ends it within
 * milliseconds. Null: the call cannot be ended. */
typedef bool (*fused_rnn_interrupt)(void* context);

/* All pointers are the caller's. No output may overlap an input or another output. */
typedef struct fused_rnn_forward_args {
  size_t size; /* sizeof(fused_rnn_forward_args) */
  /* Inputs. */
  const void* x;                  /* [T, N, I] */
  const void* params;             /* [fused_rnn_param_count] */
  const void* h0;                 /* [L*D, N, S] */
  const void* c0;                 /* [L*D, N, H]; LSTM only, else ignored */
  const int64_t* lengths;         /* [N], in steps, 0 to T; with variable_length only */
  const fused_rnn_packed* packed; /* made from these params; null: packed by the call */
  /* Outputs. */
  void* y;  /* [T, N, D*S] */
  void* hN; /* [L*D, N, S]; null: not wanted */
  void* cN; /* [L*D, N, H]; LSTM only, else ignored; null: not wanted */
  /* Memory; ignored in a session, which has its own. 64-byte alignment expected. */
  void* workspace;       /* fused_rnn_forward_workspace_bytes, undefined before and after */
  void* reserve;         /* fused_rnn_reserve_bytes, written; null: inference */
  uint64_t dropout_seed; /* the same one gives the same masks */
  fused_rnn_interrupt interrupt;
  void* interrupt_context;
} fused_rnn_forward_args;

/* Inputs are those of the forward, its y and its reserve. None is changed, so a backward can run
 * again. */
typedef struct fused_rnn_backward_args {
  size_t size; /* sizeof(fused_rnn_backward_args) */
  /* Inputs. */
  const void* x;          /* [T, N, I] */
  const void* params;     /* [fused_rnn_param_count] */
  const void* h0;         /* [L*D, N, S] */
  const void* c0;         /* [L*D, N, H]; LSTM only, else ignored */
  const int64_t* lengths; /* [N], in steps, 0 to T; with variable_length only */
  const void* y;          /* [T, N, D*S] */
  /* Gradients of a loss by the outputs; null: zero. */
  const void* dy;  /* [T, N, D*S] */
  const void* dhN; /* [L*D, N, S] */
  const void* dcN; /* [L*D, N, H]; LSTM only, else ignored */
  /* Gradients of the loss by the inputs; each may be null where its request is FUSED_RNN_NULL. */
  void* dx;      /* [T, N, I] */
  void* dparams; /* [fused_rnn_param_count] */
  void* dh0;     /* [L*D, N, S] */
  void* dc0;     /* [L*D, N, H]; LSTM only, else ignored */
  int32_t dx_req;
  int32_t dparams_req;
  int32_t dh0_req;
  int32_t dc0_req;
  /* Memory; ignored in a session. 64-byte alignment expected. */
  void* workspace;     /* fused_rnn_backward_workspace_bytes, undefined before and after */
  const void* reserve; /* fused_rnn_reserve_bytes, as the forward left them */
  fused_rnn_interrupt interrupt;
  void* interrupt_context;
} fused_rnn_backward_args;

/* The library's version, e.g. "0.1.0". */
FUSED_RNN_C_API const char* fused_rnn_version(void);

/* Why the calling thread's latest failed call failed: names the argument, what was expected and
 * what came. Valid until the thread's next call that fails; "" before the first. */
FUSED_RNN_C_API const char* fused_rnn_error_message(void);

/* Number of elements of `params`. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_param_count(const fused_rnn_problem* problem,
                                                       int64_t* count);
/* Bytes of each buffer. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_forward_workspace_bytes(const fused_rnn_problem* problem,
                                                                   bool training, size_t* bytes);
FUSED_RNN_C_API fused_rnn_status
fused_rnn_backward_workspace_bytes(const fused_rnn_problem* problem, size_t* bytes);
FUSED_RNN_C_API fused_rnn_status fused_rnn_reserve_bytes(const fused_rnn_problem* problem,
                                                         size_t* bytes);

/* Packs a copy of `params` [fused_rnn_param_count]. The caller destroys it, after all forwards with
 * it. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_packed_create(const fused_rnn_problem* problem,
                                                         const void* params,
                                                         fused_rnn_packed** packed);
/* Null: does nothing. */
FUSED_RNN_C_API void fused_rnn_packed_destroy(fused_rnn_packed* packed);

/* The two passes, in buffers that the caller owns. y[t, n] is 0 for t >= lengths[n]; dy there is
 * not read, and dx there is 0. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_forward(const fused_rnn_problem* problem,
                                                   const fused_rnn_forward_args* args);
FUSED_RNN_C_API fused_rnn_status fused_rnn_backward(const fused_rnn_problem* problem,
                                                    const fused_rnn_backward_args* args);

/* The caller destroys it. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_session_create(fused_rnn_session** session);
/* Null: does nothing. */
FUSED_RNN_C_API void fused_rnn_session_destroy(fused_rnn_session* session);

/* As fused_rnn_forward; elements drop if problem.dropout is not 0. `keep`: FUSED_RNN_KEEP_NOTHING
 * ... */
FUSED_RNN_C_API fused_rnn_status fused_rnn_session_forward(fused_rnn_session* session,
                                                           const fused_rnn_problem* problem,
                                                           const fused_rnn_forward_args* args,
                                                           int keep);
/* As fused_rnn_backward. Where the session's reserve is not that of these inputs and this y, it
 * computes the forward again; FUSED_RNN_INVALID if an input has changed since a forward that
 * dropped elements. problem.dropout: the rate with which forwards may have dropped. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_session_backward(fused_rnn_session* session,
                                                            const fused_rnn_problem* problem,
                                                            const fused_rnn_backward_args* args);

/* Gives the memory that ended calls of sessions left for the next ones back to the system. */
FUSED_RNN_C_API void fused_rnn_release_memory(void);

/* Threads that a call may use; 0 sets the default (rnn.h, NumThreads), at most 1024. */
FUSED_RNN_C_API int fused_rnn_num_threads(void);
FUSED_RNN_C_API fused_rnn_status fused_rnn_set_num_threads(int threads);

/* "scalar", "avx2" or "avx512". Fails for a bad FUSED_RNN_MAX_ISA in the environment. */
FUSED_RNN_C_API fused_rnn_status fused_rnn_isa(const char** name);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FUSED_RNN_FUSED_RNN_C_H_ */
