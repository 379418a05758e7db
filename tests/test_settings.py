"""Threads, instruction set, and the switches in the environment."""

from __future__ import annotations

import pytest
from helpers import run, run_code

import fused_rnn
from fused_rnn import _core

SWITCHES = {
    "FUSED_RNN_INSTALL": "fused_rnn.installed()",
    "FUSED_RNN_RECOMPUTE": "fused_rnn.set_recompute(False)",  # the former setting
}
ON, OFF = ("1", "true", "YES", "On"), ("0", "False", "no", "OFF", "")


@pytest.mark.parametrize("name", SWITCHES)
def test_switches(name):
    """Each value, in a fork of one process that has MXNet."""
    program = f"""
import os
import mxnet
for value in {(*ON, *OFF)!r}:
    os.environ[{name!r}] = value
    if os.fork() == 0:
        import fused_rnn
        print("found", value, {SWITCHES[name]}, flush=True)
        os._exit(0)
    os.wait()
"""
    found = [line.split() for line in run_code(program).splitlines() if line.startswith("found")]
    assert [line[-1] for line in found] == ["True"] * len(ON) + ["False"] * len(OFF)


@pytest.mark.parametrize("name", SWITCHES)
def test_unknown_value_of_a_switch(name):
    done = run(["-c", "import fused_rnn"], **{name: "ja"})
    message = f"{name}: expected one of 1, true, yes, on or 0, false, no, off, got 'ja'"
    assert done.returncode == 1 and message in done.stdout


def test_threads():
    usual = fused_rnn.num_threads()
    try:
        fused_rnn.set_num_threads(3)
        assert fused_rnn.num_threads() == _core.num_threads() == 3
        with pytest.raises(ValueError, match="threads: expected 0"):
            fused_rnn.set_num_threads(-1)
    finally:
        fused_rnn.set_num_threads(0)
    assert fused_rnn.num_threads() == usual


def test_calls_made_before_keep_their_threads(monkeypatch):
    """They are asynchronous: the number is set only when they have run."""
    import mxnet as mx

    events = []
    monkeypatch.setattr(mx.nd, "waitall", lambda: events.append("waited"))
    monkeypatch.setattr(_core, "set_num_threads", events.append)
    fused_rnn.set_num_threads(2)
    assert events == ["waited", 2]


def test_isa():
    assert fused_rnn.isa() == _core.isa() in _core.isas()


def test_gemm_backend():
    assert fused_rnn.gemm_backend() == _core.gemm_backend()
    assert fused_rnn.gemm_backend().split()[0] in ("oneDNN", "MKL")


def test_a_build_without_onednn(monkeypatch, tmp_path, capsys):
    """As with MKL: its version is left out."""
    from fused_rnn import cli, environment

    built_with = fused_rnn.gemm_backend().split()[0]
    assert (environment.describe()["oneDNN"] is not None) == (built_with == "oneDNN")
    monkeypatch.setattr(environment, "PACKAGE", tmp_path)
    monkeypatch.setattr(_core, "gemm_backend", lambda: "MKL 2026.2.0")
    assert environment.describe()["oneDNN"] is None
    monkeypatch.setattr("sys.argv", ["fused-rnn", "info"])
    cli.main()
    assert "oneDNN " not in capsys.readouterr().out
