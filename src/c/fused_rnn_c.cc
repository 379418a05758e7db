// The C interface: structs become those of rnn.h, exceptions become codes and messages.
#include "fused_rnn/fused_rnn_c.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "base/check.h"
#include "fused_rnn/memory.h"
#include "fused_rnn/rnn.h"
#include "fused_rnn/session.h"

struct fused_rnn_packed {
  fused_rnn::PackedWeights weights;
};

struct fused_rnn_session {
  fused_rnn::Session session;
};

namespace fused_rnn {
namespace {

// Sizes of the structs' first versions, which stay as they are when the structs grow.
constexpr size_t kProblemBytes = 104, kForwardBytes = 120, kBackwardBytes = 160;
static_assert(sizeof(fused_rnn_problem) == kProblemBytes);
static_assert(sizeof(fused_rnn_forward_args) == kForwardBytes);
static_assert(sizeof(fused_rnn_backward_args) == kBackwardBytes);

thread_local char message[512];

fused_rnn_status Failure(fused_rnn_status status, const char* what) noexcept {
  std::snprintf(message, sizeof(message), "%s", what);
  return status;
}

template <typename Body>
fused_rnn_status Guarded(const Body& body) noexcept {
  try {
    body();
    return FUSED_RNN_OK;
  } catch (const Interrupted& error) {
    return Failure(FUSED_RNN_INTERRUPTED, error.what());
  } catch (const Error& error) {
    return Failure(FUSED_RNN_INVALID, error.what());
  } catch (const OutOfMemory& error) {
    return Failure(FUSED_RNN_OUT_OF_MEMORY, error.what());
  } catch (const std::bad_alloc&) {  // whose text is the name of a class
    return Failure(FUSED_RNN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return Failure(FUSED_RNN_FAILED, error.what());
  } catch (...) {
    return Failure(FUSED_RNN_FAILED, "unknown failure");
  }
}

template <typename T>
T& NotNull(const char* name, T* pointer) {
  FUSED_RNN_CHECK(pointer != nullptr, "%s: expected a pointer, got null", name);
  return *pointer;
}

// A copy of a caller's struct, of whichever version, in this library's: members that the caller
// does not know are zero, and so must be those that the library does not know.
template <typename Struct>
Struct Read(const char* name, const Struct* given, size_t first_version) {
  const size_t size = NotNull(name, given).size;
  FUSED_RNN_CHECK(size >= first_version, "%s.size: expected at least %zu bytes, got %zu", name,
                  first_version, size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    FUSED_RNN_CHECK(bytes[i] == 0,
                    "%s.size: expected at most %zu bytes, or zeros beyond, which version %s does "
                    "not know, got %zu",
                    name, sizeof(Struct), FUSED_RNN_VERSION, size);
  }
  Struct own = {};
  std::memcpy(&own, given, size < sizeof(Struct) ? size : sizeof(Struct));
  return own;
}

int InRange(const char* name, int value, int most) {
  FUSED_RNN_CHECK(value >= 0 && value <= most, "%s: expected 0 to %d, got %d", name, most, value);
  return value;
}

Problem ProblemOf(const fused_rnn_problem* given) {
  const fused_rnn_problem own = Read("problem", given, kProblemBytes);
  Problem problem;  // whose fields the core checks
  problem.mode = static_cast<Mode>(own.mode);
  problem.dtype = static_cast<DType>(own.dtype);
  problem.variable_length = InRange("variable_length", own.variable_length, 1) != 0;
  const int clip = InRange("clip", own.clip, FUSED_RNN_CLIP_NAN);
  problem.clip = clip != FUSED_RNN_NO_CLIP;
  problem.clip_nan = clip == FUSED_RNN_CLIP_NAN;
  problem.clip_min = own.clip_min;
  problem.clip_max = own.clip_max;
  problem.T = own.T;
  problem.N = own.N;
  problem.I = own.I;
  problem.H = own.H;
  problem.L = own.L;
  problem.D = own.D;
  problem.P = own.P;
  problem.dropout = own.dropout;
  return problem;
}

// What the arguments of both passes have in common.
template <typename Args, typename Given>
Args CommonArgs(const Given& given) {
  Args args;
  args.x = given.x;
  args.params = given.params;
  args.h0 = given.h0;
  args.c0 = given.c0;
  args.lengths = given.lengths;
  args.y = given.y;
  args.workspace = given.workspace;
  args.reserve = given.reserve;
  args.interrupt = {given.interrupt, given.interrupt_context};
  return args;
}

ForwardArgs ArgsOf(const fused_rnn_forward_args* given) {
  const fused_rnn_forward_args own = Read("args", given, kForwardBytes);
  ForwardArgs args = CommonArgs<ForwardArgs>(own);
  if (own.packed != nullptr) args.packed = &own.packed->weights;
  args.hN = own.hN;
  args.cN = own.cN;
  args.dropout_seed = own.dropout_seed;
  return args;
}

BackwardArgs ArgsOf(const fused_rnn_backward_args* given) {
  const fused_rnn_backward_args own = Read("args", given, kBackwardBytes);
  const auto request = [](const char* name, int value) {
    return static_cast<Request>(InRange(name, value, FUSED_RNN_ADD));
  };
  BackwardArgs args = CommonArgs<BackwardArgs>(own);
  args.dy = own.dy;
  args.dhN = own.dhN;
  args.dcN = own.dcN;
  args.dx = own.dx;
  args.dparams = own.dparams;
  args.dh0 = own.dh0;
  args.dc0 = own.dc0;
  args.dx_req = request("dx_req", own.dx_req);
  args.dparams_req = request("dparams_req", own.dparams_req);
  args.dh0_req = request("dh0_req", own.dh0_req);
  args.dc0_req = request("dc0_req", own.dc0_req);
  return args;
}

}  // namespace
}  // namespace fused_rnn

using fused_rnn::ArgsOf;
using fused_rnn::Guarded;
using fused_rnn::NotNull;
using fused_rnn::ProblemOf;

extern "C" {

const char* fused_rnn_version(void) { return FUSED_RNN_VERSION; }

const char* fused_rnn_error_message(void) { return fused_rnn::message; }

fused_rnn_status fused_rnn_param_count(const fused_rnn_problem* problem, int64_t* count) {
  return Guarded([&] { NotNull("count", count) = fused_rnn::ParamCount(ProblemOf(problem)); });
}

fused_rnn_status fused_rnn_forward_workspace_bytes(const fused_rnn_problem* problem, bool training,
                                                   size_t* bytes) {
  return Guarded([&] {
    NotNull("bytes", bytes) = fused_rnn::ForwardWorkspaceBytes(ProblemOf(problem), training);
  });
}

fused_rnn_status fused_rnn_backward_workspace_bytes(const fused_rnn_problem* problem,
                                                    size_t* bytes) {
  return Guarded(
      [&] { NotNull("bytes", bytes) = fused_rnn::BackwardWorkspaceBytes(ProblemOf(problem)); });
}

fused_rnn_status fused_rnn_reserve_bytes(const fused_rnn_problem* problem, size_t* bytes) {
  return Guarded([&] { NotNull("bytes", bytes) = fused_rnn::ReserveBytes(ProblemOf(problem)); });
}

fused_rnn_status fused_rnn_packed_create(const fused_rnn_problem* problem, const void* params,
                                         fused_rnn_packed** packed) {
  return Guarded([&] {
    fused_rnn_packed*& result = NotNull("packed", packed);
    result = new fused_rnn_packed{{ProblemOf(problem), params}};
  });
}

void fused_rnn_packed_destroy(fused_rnn_packed* packed) { delete packed; }

fused_rnn_status fused_rnn_forward(const fused_rnn_problem* problem,
                                   const fused_rnn_forward_args* args) {
  return Guarded([&] { fused_rnn::Forward(ProblemOf(problem), ArgsOf(args)); });
}

fused_rnn_status fused_rnn_backward(const fused_rnn_problem* problem,
                                    const fused_rnn_backward_args* args) {
  return Guarded([&] { fused_rnn::Backward(ProblemOf(problem), ArgsOf(args)); });
}

fused_rnn_status fused_rnn_session_create(fused_rnn_session** session) {
  return Guarded([&] {
    fused_rnn_session*& result = NotNull("session", session);
    result = new fused_rnn_session;
  });
}

void fused_rnn_session_destroy(fused_rnn_session* session) { delete session; }

fused_rnn_status fused_rnn_session_forward(fused_rnn_session* session,
                                           const fused_rnn_problem* problem,
                                           const fused_rnn_forward_args* args, int keep) {
  return Guarded([&] {
    fused_rnn::InRange("keep", keep, FUSED_RNN_KEEP_RESERVE);
    NotNull("session", session)
        .session.Forward(ProblemOf(problem), ArgsOf(args), static_cast<fused_rnn::Keep>(keep));
  });
}

fused_rnn_status fused_rnn_session_backward(fused_rnn_session* session,
                                            const fused_rnn_problem* problem,
                                            const fused_rnn_backward_args* args) {
  return Guarded(
      [&] { NotNull("session", session).session.Backward(ProblemOf(problem), ArgsOf(args)); });
}

void fused_rnn_release_memory(void) { fused_rnn::ReleaseSpareMemory(); }

int fused_rnn_num_threads(void) { return fused_rnn::NumThreads(); }

fused_rnn_status fused_rnn_set_num_threads(int threads) {
  return Guarded([&] { fused_rnn::SetNumThreads(threads); });
}

fused_rnn_status fused_rnn_isa(const char** name) {
  return Guarded([&] { NotNull("name", name) = fused_rnn::IsaName(); });
}

}  // extern "C"
