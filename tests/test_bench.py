"""The benchmark's own arithmetic and its output; no times are judged."""

from __future__ import annotations

import json

import pytest
from helpers import run

from fused_rnn.bench import ds2
from fused_rnn.bench.problem import Problem

SMALL = ["--T", "4", "--N", "2", "--I", "3", "--H", "5", "--layers", "2", "--bidirectional"]


@pytest.mark.parametrize("form", [[], ["--imperative"]])
def test_small_run(tmp_path, form):
    command = ["-m", "fused_rnn", "bench", "ds2", *SMALL, "--rounds", "3", "--threads", "2"]
    done = run([*command, *form, "--output", str(tmp_path)])
    assert done.returncode == 0, done.stdout
    for label in ("LSTM forward", "GRU forward+backward", "vRNN tanh forward", "speed-up"):
        assert label in done.stdout
    (path,) = tmp_path.glob("*.json")
    result = json.loads(path.read_text())
    text = json.dumps(result)
    for key in ("commit", "cpu", "isa", "threads", "mxnet", "oneDNN", "numpy", "python"):
        assert f'"{key}"' in text
    rows = result["rows"]
    assert len(rows) == 6
    for row in rows:
        for samples in ("native_seconds", "ours_seconds", "peak_gflops"):
            assert len(row[samples]) == 3
            assert min(row[samples]) > 0
    (plot,) = tmp_path.glob("*.png")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_info():
    done = run(["-m", "fused_rnn", "info"])
    assert done.returncode == 0, done.stdout
    for name in ("fused_rnn", "mxnet", "isa", "threads"):
        assert name in done.stdout


def test_bad_options():
    assert run(["-m", "fused_rnn", "bench", "ds2", "--rounds", "1"]).returncode != 0
    assert run(["-m", "fused_rnn", "bench", "ds3"]).returncode != 0


@pytest.mark.parametrize("imperative", [False, True])
def test_a_wrong_result_ends_the_run(imperative, monkeypatch):
    case = ds2.Case(Problem("gru", T=4, N=2, I=3, H=5), imperative)
    case.compare()
    ours = case.operators["ours"]
    right = ours.run

    def wrong(heads):
        outputs = right(heads)
        return [outputs[0] * 1.001, *outputs[1:]]

    monkeypatch.setattr(ours, "run", wrong)
    with pytest.raises(SystemExit, match="output 0 differs"):
        case.compare()
