"""A run's checkpoint: one file, replaced as a whole."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import mxnet as mx

from examples.deepspeech2.audio import SpeechError
from examples.deepspeech2.data import BLANK
from examples.deepspeech2.model import Config, DeepSpeech2

_STATE, _PARAMETERS, _TRAINER = "state.json", "parameters", "trainer"


def write_atomically(path: Path, content: bytes) -> None:
    """At any moment the file is the old one or the new one, whatever ends the process."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with open(unfinished, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def save(
    path: Path, net: DeepSpeech2, state: dict[str, Any], trainer: mx.gluon.Trainer | None = None
) -> None:
    """Writes configuration, parameters, `state` and what the optimizer remembers."""
    with tempfile.TemporaryDirectory() as folder:
        content = Path(folder) / "content"
        parameters, memory = Path(folder) / _PARAMETERS, Path(folder) / _TRAINER
        with zipfile.ZipFile(content, "w") as archive:
            text = json.dumps({"config": dataclasses.asdict(net.config), "state": state})
            archive.writestr(_STATE, text)
            net.save_parameters(str(parameters))
            archive.write(parameters, _PARAMETERS)
            if trainer is not None:
                trainer.save_states(str(memory))
                archive.write(memory, _TRAINER)
        write_atomically(path, content.read_bytes())


def load_network(path: Path) -> DeepSpeech2:
    """The network of a checkpoint."""
    config, _ = read_state(path)
    net = DeepSpeech2(config, BLANK + 1)
    with _member(path, _PARAMETERS) as parameters:
        net.load_parameters(parameters)
    return net


def read_state(path: Path) -> tuple[Config, dict[str, Any]]:
    """The configuration and the `state` that was saved."""
    try:
        with zipfile.ZipFile(path) as archive:
            content = json.loads(archive.read(_STATE))
        return Config(**content["config"]), content["state"]
    except FileNotFoundError:
        raise SpeechError(f"{path}: no such checkpoint") from None
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise SpeechError(f"{path}: not a checkpoint of this program: {error}") from None


def restore(path: Path, net: DeepSpeech2, trainer: mx.gluon.Trainer) -> dict[str, Any]:
    """Fills the network and the trainer; returns the `state` that was saved.

    The trainer's part is a pickle, as MXNet writes it: load only files that you trust.
    """
    config, state = read_state(path)
    for field in dataclasses.fields(Config):
        saved, wanted = getattr(config, field.name), getattr(net.config, field.name)
        if saved != wanted:
            raise SpeechError(
                f"{path}: {field.name} is {saved} there, the command line says {wanted}; "
                "another --output starts a new run"
            )
    with _member(path, _PARAMETERS) as parameters:
        net.load_parameters(parameters)
    with _member(path, _TRAINER) as memory:
        trainer.load_states(memory)
    return state


class _member:
    """A member of the archive as a file, whose name MXNet wants."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory()
        with zipfile.ZipFile(self._path) as archive:
            return archive.extract(self._name, self._folder.name)

    def __exit__(self, *_: Any) -> None:
        self._folder.cleanup()
