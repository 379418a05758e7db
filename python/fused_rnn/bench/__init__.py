"""Benchmarks against MXNet's native operator. `python -m fused_rnn bench` runs them."""
