"""Deep Speech 2: what a run that goes on with other settings does."""

from __future__ import annotations

import math
import pickle
import shutil
import zipfile
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from speech import parameters, spoken, training

from examples.deepspeech2 import checkpoint, train
from examples.inputs import InputError

BATCH, PER_EPOCH, DONE = 4, 6, 8
COMMON = ("--epochs", 3, "--save-every", 1, "--rate", 0.01)


def resumed(output: Path, *options: object) -> None:
    """The training, in this process."""
    data = ("--train", spoken() / "train", "--valid", spoken() / "valid")
    train.main(training(output, *data, *COMMON, *options)[2:])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """A run that ended in its second epoch."""
    output = tmp_path_factory.mktemp("stopped")
    step = train.Training.step

    def last_step(self, *arguments):
        if self.state["step"] == DONE:
            raise InputError("enough")
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.Training, "step", last_step)
        with pytest.raises(SystemExit):
            resumed(output)
    assert checkpoint.read_state(output / "last.zip")[1]["step"] == DONE
    return output


@pytest.fixture
def run(stopped, tmp_path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def optimizer(output: Path) -> tuple[dict, mx.optimizer.Optimizer]:
    """What the optimizer remembers, and the optimizer."""
    return pickle.loads(zipfile.ZipFile(output / "last.zip").read("trainer"))


def scheduled(step: int, place: int, total: int, rate: float) -> float:
    """The learning rate: what has been done of the run decides."""
    return rate * min((step + 1) / train.WARM_UP, 1) * (1 + math.cos(math.pi * place / total)) / 2


CHANGES = {
    "optimizer": ("nag", "is adam there, the command line says nag"),
    "batch": (8, "is 4 there, the command line says 8"),
    "seed": (1, "is 0 there, the command line says 1"),
    "rate": (0.02, "is 0.01 there, the command line says 0.02"),
    "decay": (0.1, "is 1e-05 there, the command line says 0.1"),
    "clip": (1.0, "is 5.0 there, the command line says 1.0"),
    "epochs": (9, "is 3 there, the command line says 9"),
    "dropout": (0.5, "is 0.0 there, the command line says 0.5"),
    "train": (None, "is 24 utterances, "),
    "valid": (None, "is 6 utterances, "),
}


def test_other_settings_are_named_and_refused(run, capsys):
    before = (run / "last.zip").read_bytes()
    other = {"train": spoken() / "valid", "valid": spoken() / "test"}
    all_options: list[object] = []
    for name, (value, _) in CHANGES.items():
        all_options += [f"--{name}", other.get(name, value)]
    for name in CHANGES:
        k = 2 * list(CHANGES).index(name)
        for options in (all_options[k : k + 2], all_options):
            with pytest.raises(SystemExit) as ended:
                resumed(run, *options)
            assert ended.value.code == 1
            error = capsys.readouterr().err
            assert f"{run / 'last.zip'}: " in error and "--override" in error
            named = [n for n in CHANGES if f"{n} {CHANGES[n][1]}" in error]
            assert named == (list(CHANGES) if options is all_options else [name])
    assert (run / "last.zip").read_bytes() == before


def test_momentum_is_a_setting_of_nag_only(run, capsys):
    resumed(run, "--momentum", 0.5)
    nag = run / "nag"
    resumed(nag, "--epochs", 1, "--optimizer", "nag")
    with pytest.raises(SystemExit):
        resumed(nag, "--epochs", 1, "--optimizer", "nag", "--momentum", 0.5)
    assert "momentum is 0.9 there, the command line says 0.5" in capsys.readouterr().err
    resumed(nag, "--epochs", 2, "--optimizer", "nag", "--momentum", 0.5, "--override")
    assert optimizer(nag)[1].momentum == 0.5


def test_another_optimizer_starts_without_memory(run, capsys):
    before = parameters(run / "last.zip")
    resumed(run, "--optimizer", "nag", "--rate", 0.5, "--override")
    output = capsys.readouterr().out
    assert "optimizer: adam before, nag now" in output and "rate: 0.01 before, 0.5 now" in output
    assert "what adam remembered is discarded" in output
    memory, nag = optimizer(run)
    assert isinstance(nag, mx.optimizer.NAG) and nag.momentum == 0.9
    assert nag.num_update == 3 * PER_EPOCH - DONE
    assert all(isinstance(item, mx.nd.NDArray) for item in memory.values())  # Adam's are pairs
    state = checkpoint.read_state(run / "last.zip")[1]
    assert [row["step"] for row in state["log"]] == [6, 12, 18]
    assert state["log"][-1]["rate"] == pytest.approx(scheduled(17, 17, 18, 0.5))
    assert nag.lr == state["log"][-1]["rate"]
    after = parameters(run / "last.zip")
    assert any(np.abs(after[name] - before[name]).max() > 1e-3 for name in before)


def test_the_same_optimizer_keeps_its_memory(run, capsys):
    resumed(run, "--rate", 0.02, "--decay", 0.1, "--override")
    assert "discarded" not in capsys.readouterr().out
    adam = optimizer(run)[1]
    assert isinstance(adam, mx.optimizer.Adam)
    assert adam.num_update == 3 * PER_EPOCH and adam.wd == 0.1
    log = checkpoint.read_state(run / "last.zip")[1]["log"]
    assert log[-1]["rate"] == pytest.approx(scheduled(17, 17, 18, 0.02))


def test_another_batch_size_and_length(run, capsys):
    """The epoch begins anew, and the rate falls to 0 at the new end."""
    resumed(run, "--batch", 8, "--epochs", 4, "--override")
    assert "epoch 2 begins anew" in capsys.readouterr().out
    state = checkpoint.read_state(run / "last.zip")[1]
    log = state["log"]
    assert [row["step"] for row in log] == [6, 8 + 3, 8 + 6, 8 + 9]
    for k in (1, 2, 3):
        place = 3 * (k + 1) - 1
        assert log[k]["rate"] == pytest.approx(scheduled(log[k]["step"] - 1, place, 12, 0.01))
    assert "all 4 epochs are done" in resumed_output(run, capsys, "--batch", 8, "--epochs", 4)


def resumed_output(run: Path, capsys, *options: object) -> str:
    resumed(run, *options)
    return capsys.readouterr().out


def test_other_utterances(run, capsys):
    output = resumed_output(run, capsys, "--valid", spoken() / "test", "--override")
    assert "valid: 6 utterances" in output and "begins anew" not in output
    output = resumed_output(
        run, capsys, "--train", spoken() / "valid", "--valid", spoken() / "test", "--override"
    )
    assert "all 3 epochs are done" in output


def test_a_finished_run_says_so(run, capsys):
    assert "are done" not in resumed_output(run, capsys)
    before = (run / "last.zip").read_bytes()
    assert "all 3 epochs are done" in resumed_output(run, capsys)
    assert (run / "last.zip").read_bytes() == before


def test_the_shape_of_the_network_is_not_overridden(run, capsys):
    with pytest.raises(SystemExit):
        resumed(run, "--hidden", 16, "--override")
    assert "last.zip: hidden is 32 there, the command line says 16" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["best", "flipped", "cut", "empty", "text"])
def test_checkpoints_that_cannot_be_resumed(kind, run, capsys):
    last = run / "last.zip"
    content = last.read_bytes()
    middle = len(content) // 2
    last.write_bytes(
        {
            "best": (run / "best.zip").read_bytes(),
            "flipped": content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :],
            "cut": content[:middle],
            "empty": b"",
            "text": b"A text, " * 100,
        }[kind]
    )
    with pytest.raises(SystemExit) as ended:
        resumed(run, "--override")
    assert ended.value.code == 1
    error = capsys.readouterr().err
    expected = "expected the last.zip of a run" if kind == "best" else ""
    assert f"{last}: " in error and expected in error and "Traceback" not in error
