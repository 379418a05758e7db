"""Benchmarks against MXNet's native operator and others. `python -m fused_rnn bench` runs them."""
