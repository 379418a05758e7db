/* The cells, for C and C++: with a = W x_t + bW and b = R h_{t-1} + bR (rows of W, R, bW, bR are
 * the gates in the order given by rnn.h): rnn   h = act(a + b), act = tanh or relu (Elman 1990, the
 * simple network) lstm  i, f, o = sigmoid(a + b); g = tanh(a + b); c = f c_{t-1} + i g; h = o
 * tanh(c) (Gers et al. 2000, without peepholes) clipped: c = min(max(c, clip_min), clip_max) before
 * tanh and before the next step (cuDNN, cudnnSetRNNClip) projected: h = Wp (o tanh(c)) (Sak et al.
 * 2014, section 2) gru   r, z = sigmoid(a + b); n = tanh(a_n + r b_n); h = (1 - z) n + z h_{t-1}
 *         (Cho et al. 2014, in cuDNN's variant: the reset gate acts after the recurrent product)
 *   lstm_peephole  as lstm, with i, f = sigmoid(a + b + p c_{t-1}), o = sigmoid(a + b + p c), where
 *         p are vectors, one for each of the three, and c is clipped already
 *         (Gers, Schraudolph, Schmidhuber 2002)
 *   gru_reset_before  r, z = sigmoid(a + b); n = tanh(a_n + R_n (r h_{t-1}) + bR_n);
 *         h = (1 - z) n + z h_{t-1}
 *         (Cho et al. 2014, equations 5 to 8; gates in gru's order)
 * "LSTM only" means both lstm and lstm_peephole.
 */
#ifndef FUSED_RNN_MODES_H_
#define FUSED_RNN_MODES_H_

/* MODE(name in C++, name in C, value) for each. The first values are those of MXNet's `mode`
 * enumeration, which has no others. The name of a cell that MXNet lacks begins with that of its
 * kin, the mode beside which the operator is told of it: lstm_peephole with mode lstm. */
#define FUSED_RNN_MODES(MODE)                    \
  MODE(RnnRelu, FUSED_RNN_RNN_RELU, 0)           \
  MODE(RnnTanh, FUSED_RNN_RNN_TANH, 1)           \
  MODE(Lstm, FUSED_RNN_LSTM, 2)                  \
  MODE(Gru, FUSED_RNN_GRU, 3)                    \
  MODE(LstmPeephole, FUSED_RNN_LSTM_PEEPHOLE, 4) \
  MODE(GruResetBefore, FUSED_RNN_GRU_RESET_BEFORE, 5)

#endif /* FUSED_RNN_MODES_H_ */
