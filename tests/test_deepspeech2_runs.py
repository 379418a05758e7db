"""The programs of the Deep Speech 2 example: training in one process and in two, transcription."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from helpers import environment
from speech import (
    ENVIRONMENT,
    ROOT,
    execute,
    parameters,
    program,
    spoken,
    tone,
    training,
    write,
)

from examples.deepspeech2 import audio, checkpoint


def assert_equal_runs(first: Path, second: Path, tolerance: float) -> None:
    ours, others = parameters(first), parameters(second)
    assert ours.keys() == others.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, others[name], atol=tolerance, err_msg=name)


def wait_for(found, process: subprocess.Popen) -> None:
    while not found():
        assert process.poll() is None, "the process ended by itself"
        time.sleep(0.01)


def start(arguments: list[str]) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(**ENVIRONMENT),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path):
    options = ("--epochs", 4, "--save-every", 1, "--dropout", 0.2)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    execute(training(whole, *options))
    process = start(training(broken, *options))
    wait_for((broken / "last.zip").exists, process)
    process.kill()
    process.communicate()
    step = checkpoint.read_state(broken / "last.zip")[1]["step"]
    assert 0 < step < 24
    assert f"step {step}" in execute(training(broken, *options))
    assert_equal_runs(whole / "last.zip", broken / "last.zip", 1e-6)
    logs = [checkpoint.read_state(run / "last.zip")[1]["log"] for run in (whole, broken)]
    assert [row["step"] for row in logs[1]] == [6, 12, 18, 24]
    np.testing.assert_allclose(*[[row["train_loss"] for row in log] for log in logs], rtol=1e-5)
    assert logs[0][-1]["train_loss"] < logs[0][0]["train_loss"]
    lines = (broken / "log.csv").read_text().splitlines()
    assert lines[0].startswith("epoch,step,seconds") and len(lines) == 5
    assert (broken / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_transcribing(tmp_path):
    execute(training(tmp_path, "--epochs", 1))
    good = next((spoken() / "test").rglob("*.wav"))
    short = write(tmp_path / "short.wav", tone(440, audio.RATE, 0.01))
    files = (tmp_path / "missing.wav", short, good)
    command = ("transcribe", "--checkpoint", tmp_path / "best.zip", *files)
    output = execute(program(*command), code=1)
    assert "missing.wav: no such file" in output
    assert "short.wav: expected at least 320 samples, found 160" in output
    assert f"{good}: " in output
    assert str(good) not in execute(program(*command, "--on-error", "stop", "--beam", 0), code=1)
    output = execute(program("transcribe", "--checkpoint", short, good), code=1)
    assert "short.wav: not a checkpoint" in output


def test_evaluating(tmp_path):
    execute(training(tmp_path, "--epochs", 1))
    best = ("--checkpoint", tmp_path / "best.zip")
    greedy, beam = (
        execute(program("evaluate", spoken() / "valid", *best, "--beam", width)) for width in (0, 2)
    )
    row = checkpoint.read_state(tmp_path / "best.zip")[1]["log"]
    expected = f"6 utterances, loss {row['valid_loss']:.3f}, CER"
    assert f"{expected} {row['cer']:.2%}, WER {row['wer']:.2%}" in greedy
    assert expected in beam


def test_another_configuration_does_not_resume(tmp_path):
    execute(training(tmp_path, "--epochs", 1))
    output = execute(training(tmp_path, "--epochs", 2, "--hidden", 16), code=1)
    assert "last.zip: hidden is 32 there, the command line says 16" in output


# Several processes


def launched(command: list[str], *options: object) -> list[str]:
    """The same training by launch.py."""
    return program("launch", *options, "--", *command[2:])


def test_two_workers_learn_as_one_with_the_joint_batch(tmp_path):
    """Without batch normalisation, whose statistics are each worker's own."""
    options = ("--epochs", 2, "--no-norm", "--optimizer", "nag", "--rate", 0.1)
    one, two = (training(tmp_path / name, *options) for name in ("one", "two"))
    execute(one)
    execute(launched(two))
    assert_equal_runs(tmp_path / "one" / "last.zip", tmp_path / "two" / "last.zip", 1e-5)
    state = checkpoint.read_state(tmp_path / "two" / "last.zip")[1]
    losses = [row["train_loss"] for row in state["log"]]
    assert state["step"] == 12 and losses[1] < 0.9 * losses[0]


def workers_of(process: subprocess.Popen) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"DMLC_ROLE=worker" in Path(f"/proc/{child}/environ").read_bytes()
    ]


def test_a_killed_worker_ends_the_job_which_resumes(tmp_path):
    options = ("--epochs", 50, "--save-every", 1, "--compress", 0.5)
    process = start(launched(training(tmp_path, *options)))
    wait_for((tmp_path / "last.zip").exists, process)
    killed = workers_of(process)[1]
    os.kill(killed, signal.SIGKILL)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert f"worker 1 (process {killed}) has ended by signal 9; the job is stopped" in output
    step = checkpoint.read_state(tmp_path / "last.zip")[1]["step"]
    epochs = step // 6 + 1
    assert f"step {step}" in execute(launched(training(tmp_path, "--epochs", epochs, "--override")))
    assert checkpoint.read_state(tmp_path / "last.zip")[1]["step"] == 6 * epochs


def test_a_worker_that_fails_ends_the_job(tmp_path):
    """Its message is there, and nobody waits."""
    output = execute(launched(training(tmp_path, "--train", tmp_path)), code=1)
    assert "--train and --valid: expected both or neither" in output
    assert "has ended with status 1; the job is stopped" in output


def test_a_worker_that_waits_in_vain_says_so():
    code = """
import time
from pathlib import Path
from examples.deepspeech2.train import Watchdog
Watchdog(0.5, Path("run/last.zip"))
time.sleep(60)
"""
    output = execute(["-c", code], code=1)
    assert "No step has ended" in output and "resumes from run/last.zip" in output


def test_commands_for_several_machines():
    options = ("--workers", 2, "--root", "10.0.0.1:9100", "--print", "--", "--output", "a b")
    output = execute(program("launch", *options))
    lines = [line for line in output.splitlines() if not line.startswith("#")]
    assert [line.split("DMLC_ROLE=")[1].split()[0] for line in lines] == [
        "scheduler",
        "server",
        "worker",
        "worker",
    ]
    assert all("DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9100" in line for line in lines)
    assert lines[-1].endswith("-m examples.deepspeech2.train --output 'a b'")


# Benchmark


def test_the_benchmark_of_the_model(tmp_path):
    sizes = ("--preset", "tiny", "--T", 9, "--N", 2, "--rounds", 1, "--threads", 1)
    output = execute(program("bench", *sizes, "--output", tmp_path))
    assert "| gru, ours |" in output and "| gru, mx.gluon.rnn |" in output
    assert (tmp_path / "tiny_model_T9_N2.json").exists()
