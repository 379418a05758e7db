"""A run's checkpoint: one file, replaced as a whole, and checked as a whole when it is read."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import mxnet as mx

from examples.deepspeech2.data import BLANK
from examples.deepspeech2.model import Config, DeepSpeech2
from examples.inputs import InputError

_STATE, _PARAMETERS, _TRAINER = "state.json", "parameters", "trainer"
# The archive's comment, its last bytes: the SHA-256 of all before it.
_DIGEST = hashlib.sha256().digest_size * 2


class _Content(NamedTuple):
    """What a checkpoint holds."""

    config: Config
    settings: dict[str, Any]
    state: dict[str, Any]
    parameters: bytes
    trainer: bytes | None


def write_atomically(path: Path, content: bytes) -> None:
    """At any moment the file is the old one or the new one, whatever ends the process."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def save(
    path: Path,
    net: DeepSpeech2,
    state: dict[str, Any],
    trainer: mx.gluon.Trainer | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """Writes configuration, parameters, `state`, what the optimizer remembers, and the settings
    under which it does.
    """
    described = {"config": dataclasses.asdict(net.config), "settings": settings, "state": state}
    content = io.BytesIO()
    with _folder_beside(path) as folder, zipfile.ZipFile(content, "w") as archive:
        archive.writestr(_STATE, json.dumps(described))
        net.save_parameters(str(folder / _PARAMETERS))
        archive.write(folder / _PARAMETERS, _PARAMETERS)
        if trainer is not None:
            trainer.save_states(str(folder / _TRAINER))
            archive.write(folder / _TRAINER, _TRAINER)
        archive.comment = b" " * _DIGEST
    checked = content.getvalue()[:-_DIGEST]
    write_atomically(path, checked + hashlib.sha256(checked).hexdigest().encode())


def load_network(path: Path) -> DeepSpeech2:
    """The network of a checkpoint."""
    content = _read(path)
    net = DeepSpeech2(content.config, BLANK + 1)
    net.prepare()
    _fill(path, net, content)
    return net


def read_state(path: Path) -> tuple[Config, dict[str, Any]]:
    """The configuration and the `state` that was saved."""
    content = _read(path)
    return content.config, content.state


def restore(
    path: Path,
    net: DeepSpeech2,
    trainer: mx.gluon.Trainer,
    settings: dict[str, Any],
    override: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fills the network and the trainer; returns the `state`, and the saved ones of the settings
    that are others now, which must be none without `override`.

    Another optimizer gets nothing of what the saved one remembered. The trainer's part is a pickle,
    as MXNet writes it: load only files that you trust.
    """
    content = _read(path)
    if content.trainer is None:
        raise InputError(f"{path}: expected the last.zip of a run, found parameters alone")
    for field in dataclasses.fields(Config):
        saved, wanted = getattr(content.config, field.name), getattr(net.config, field.name)
        if saved != wanted and field.name not in settings:
            raise InputError(
                f"{path}: {field.name} is {saved} there, the command line says {wanted}; "
                "another --output starts a new run"
            )
    changed = {
        name: content.settings[name]
        for name, wanted in settings.items()
        if content.settings.get(name, wanted) != wanted
    }
    if changed and not override:
        differences = [
            f"{name} is {saved} there, the command line says {settings[name]}"
            for name, saved in changed.items()
        ]
        raise InputError(
            f"{path}: "
            + "; ".join(differences)
            + "; --override goes on with what the command line says, another --output starts a "
            "new run"
        )
    _fill(path, net, content)
    if "optimizer" not in changed:
        with _folder_beside(path) as folder:
            (folder / _TRAINER).write_bytes(content.trainer)
            trainer.load_states(str(folder / _TRAINER))
    return content.state, changed


@contextlib.contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """A folder for what MXNet reads and writes: where the user wants files, and gone after use."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        yield Path(folder)


def _read(path: Path) -> _Content:
    """All of a checkpoint, after a check that it is as it was written."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint") from None
    except OSError as error:
        raise InputError(f"{path}: not a checkpoint of this program: {error.strerror}") from None
    if not content.startswith(b"PK"):
        raise InputError(
            f"{path}: not a checkpoint of this program: expected a zip archive, "
            f"found {len(content)} bytes that begin with {content[:4]!r}"
        )
    expected = hashlib.sha256(content[:-_DIGEST]).hexdigest().encode()
    if content[-_DIGEST:] != expected:
        raise InputError(
            f"{path}: damaged, or not a checkpoint of this program: expected the SHA-256 of its "
            f"beginning in its last {_DIGEST} bytes, found another end"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            described = json.loads(archive.read(_STATE))
            return _Content(
                Config(**described["config"]),
                described["settings"] or {},
                described["state"],
                archive.read(_PARAMETERS),
                archive.read(_TRAINER) if _TRAINER in archive.namelist() else None,
            )
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a checkpoint of this program: {error}") from None


def _fill(path: Path, net: DeepSpeech2, content: _Content) -> None:
    saved = mx.nd.load_frombuffer(content.parameters)
    parameters = net._collect_params_with_prefix()
    if saved.keys() != parameters.keys():
        others = sorted(saved.keys() ^ parameters.keys())
        raise InputError(f"{path}: expected the parameters of this network, found others: {others}")
    for name, parameter in parameters.items():
        parameter.set_data(saved[name])
