/* A recurrent layer in C: trains one step, checks the gradient against differences of the loss, and
 * predicts step by step with packed weights.
 *
 *   cc -std=c11 -Iinclude examples/c/gradient.c -Lpython/fused_rnn -lfused_rnn -lm \
 *     -Wl,-rpath,$PWD/python/fused_rnn -o gradient && ./gradient
 *
 * Exits with 0 if the numbers agree.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fused_rnn/fused_rnn_c.h"

enum { T = 12, N = 3, I = 5, H = 8 };

static double x[T][N][I], target[T][N][H], zeros[N][H], y[T][N][H];

static void check(fused_rnn_status status) {
  if (status == FUSED_RNN_OK) return;
  fprintf(stderr, "error %d: %s\n", (int)status, fused_rnn_error_message());
  exit(1);
}

static double uniform(void) { return 2.0 * rand() / RAND_MAX - 1.0; }

static void fill(double* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = uniform();
}

/* Half of the squared distance between y and the target. */
static double loss(fused_rnn_session* session, const fused_rnn_problem* problem,
                   const double* params, int keep) {
  const fused_rnn_forward_args args = {
      .size = sizeof args, .x = x, .params = params, .h0 = zeros, .c0 = zeros, .y = y};
  check(fused_rnn_session_forward(session, problem, &args, keep));
  double sum = 0;
  for (int t = 0; t < T; ++t)
    for (int n = 0; n < N; ++n)
      for (int i = 0; i < H; ++i) sum += 0.5 * pow(y[t][n][i] - target[t][n][i], 2);
  return sum;
}

/* The largest difference between y and the outputs of single steps. */
static double streaming_difference(fused_rnn_problem problem, const double* params) {
  double h[2][N][H] = {{{0}}}, c[2][N][H] = {{{0}}}, step[N][H], difference = 0;
  problem.T = 1;
  fused_rnn_packed* packed = NULL;
  check(fused_rnn_packed_create(&problem, params, &packed));
  size_t bytes = 0;
  check(fused_rnn_forward_workspace_bytes(&problem, false, &bytes));
  void* workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
  for (int t = 0; t < T; ++t) {
    const fused_rnn_forward_args args = {.size = sizeof args,
                                         .x = x[t],
                                         .params = params,
                                         .packed = packed,
                                         .h0 = h[t % 2],
                                         .c0 = c[t % 2],
                                         .y = step,
                                         .hN = h[(t + 1) % 2],
                                         .cN = c[(t + 1) % 2],
                                         .workspace = workspace};
    check(fused_rnn_forward(&problem, &args));
    for (int n = 0; n < N; ++n)
      for (int i = 0; i < H; ++i) difference = fmax(difference, fabs(step[n][i] - y[t][n][i]));
  }
  free(workspace);
  fused_rnn_packed_destroy(packed);
  return difference;
}

int main(void) {
  const fused_rnn_problem problem = {.size = sizeof problem,
                                     .mode = FUSED_RNN_LSTM,
                                     .dtype = FUSED_RNN_FLOAT64,
                                     .T = T,
                                     .N = N,
                                     .I = I,
                                     .H = H,
                                     .L = 1,
                                     .D = 1};
  int64_t count = 0;
  check(fused_rnn_param_count(&problem, &count));
  double* params = malloc(4 * (size_t)count * sizeof *params);
  if (params == NULL) return 1;
  double *dparams = params + count, *direction = params + 2 * count, *moved = params + 3 * count;
  fill(&x[0][0][0], T * N * I);
  fill(&target[0][0][0], T * N * H);
  fill(params, count);
  fill(direction, count);

  const char* isa = NULL;
  check(fused_rnn_isa(&isa));
  printf("fused_rnn %s, %s, %d threads, %lld parameters\n", fused_rnn_version(), isa,
         fused_rnn_num_threads(), (long long)count);

  fused_rnn_session* session = NULL;
  check(fused_rnn_session_create(&session));
  const double before = loss(session, &problem, params, FUSED_RNN_KEEP_RESERVE);
  const double streaming = streaming_difference(problem, params);
  double dy[T][N][H];
  for (int t = 0; t < T; ++t)
    for (int n = 0; n < N; ++n)
      for (int i = 0; i < H; ++i) dy[t][n][i] = y[t][n][i] - target[t][n][i];
  const fused_rnn_backward_args args = {.size = sizeof args,
                                        .x = x,
                                        .params = params,
                                        .h0 = zeros,
                                        .c0 = zeros,
                                        .y = y,
                                        .dy = dy,
                                        .dparams = dparams,
                                        .dparams_req = FUSED_RNN_WRITE};
  check(fused_rnn_session_backward(session, &problem, &args));

  /* The slope of the loss along a direction, by the gradient and by differences. */
  const double step = 1e-5;
  double slope = 0, difference = 0;
  for (int64_t i = 0; i < count; ++i) slope += dparams[i] * direction[i];
  for (int sign = -1; sign <= 1; sign += 2) {
    for (int64_t i = 0; i < count; ++i) moved[i] = params[i] + sign * step * direction[i];
    difference += sign * loss(session, &problem, moved, FUSED_RNN_KEEP_NOTHING) / (2 * step);
  }
  for (int64_t i = 0; i < count; ++i) params[i] -= 0.02 * dparams[i];
  const double after = loss(session, &problem, params, FUSED_RNN_KEEP_NOTHING);
  fused_rnn_session_destroy(session);
  free(params);

  printf("loss %.6f, after a step of gradient descent %.6f\n", before, after);
  printf("slope %.9f by the gradient, %.9f by differences\n", slope, difference);
  printf("largest difference of single steps: %.1e\n", streaming);
  const int agree =
      after < before && fabs(slope - difference) < 1e-6 * fabs(slope) && streaming < 1e-12;
  puts(agree ? "the numbers agree" : "the numbers do not agree");
  return agree ? 0 : 1;
}
