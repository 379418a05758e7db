"""Makes `python -m fused_rnn` the command line."""

from fused_rnn.cli import main

main()
