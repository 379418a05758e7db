"""Who takes part: what each can do, where it is found, and its process."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fused_rnn import environment
from fused_rnn.bench.problem import Problem

WORKERS = Path(__file__).with_name("workers")
OURS, STREAM, NATIVE = "fused_rnn", "stream", "mxnet"
OF_THIS_PACKAGE = (OURS, STREAM)


@dataclasses.dataclass(frozen=True)
class Peer:
    """One program and its limits."""

    name: str
    label: str
    program: str  # in WORKERS
    form: str  # of its weights, in conversions.FORMS
    distributions: tuple[str, ...]  # that its interpreter must have; the first gives the version
    arguments: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    modes: tuple[str, ...] = ("lstm", "gru", "rnn_tanh", "rnn_relu")
    directions: tuple[int, ...] = (1, 2)
    training: bool = True
    lengths: bool = False

    def refuses(self, problem: Problem, training: bool) -> str | None:
        """Why it does not run this; None if it does."""
        if problem.mode not in self.modes:
            return f"no {problem.mode}"
        if problem.dtype not in self.dtypes:
            return f"no {problem.dtype}"
        if problem.D not in self.directions:
            return "one direction only"
        if problem.variable_length and not self.lengths:
            return "no lengths"
        return "inference only" if training and not self.training else None


ONEDNN_LIBRARY = environment.PACKAGE / "libonednn_rnn.so"
PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            OURS,
            "ours",
            "mxnet_worker.py",
            "flat",
            ("mxnet",),
            ("fused",),
            dtypes=("float32", "float64", "float16", "bfloat16"),
            lengths=True,
        ),
        Peer(
            STREAM,
            "ours, Stream",
            "stream_worker.py",
            "flat",
            ("mxnet",),
            dtypes=("float32", "float64", "float16"),
            directions=(1,),
            training=False,
        ),
        Peer(
            NATIVE,
            "MXNet native",
            "mxnet_worker.py",
            "flat",
            ("mxnet",),
            ("native",),
            dtypes=("float32", "float64"),
        ),
        Peer(
            "unfused",
            "MXNet unfused",
            "mxnet_worker.py",
            "parts",
            ("mxnet",),
            ("unfused",),
            modes=("lstm",),
            directions=(1,),
        ),
        Peer(
            "torch",
            "PyTorch",
            "torch_worker.py",
            "torch",
            ("torch", "numpy"),
            dtypes=("float32", "float64"),
            lengths=True,
        ),
        Peer(
            "onnxruntime",
            "ONNX Runtime",
            "onnxruntime_worker.py",
            "onnx",
            ("onnxruntime", "onnx"),
            training=False,
            lengths=True,
        ),
        Peer(
            "openvino",
            "OpenVINO",
            "openvino_worker.py",
            "onnx",
            ("openvino", "onnx"),
            training=False,
        ),
        Peer(
            "onednn",
            "oneDNN",
            "onednn_worker.py",
            "onednn",
            ("numpy",),
            (str(ONEDNN_LIBRARY),),
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Installed:
    """A peer and the interpreter that has it."""

    peer: Peer
    python: str
    version: str


_VERSIONS = (
    "import json, sys; from importlib.metadata import version;"
    "print(json.dumps([version(name) for name in sys.argv[1:]]))"
)


def find(name: str, python: str | None = None) -> Installed | str:
    """The peer in that interpreter, by default this one; or why it cannot run there."""
    peer, interpreter = PEERS[name], python or sys.executable
    if name == "onednn" and not ONEDNN_LIBRARY.exists():
        return f"this build has no {ONEDNN_LIBRARY.name}"
    try:
        done = subprocess.run(
            [interpreter, "-c", _VERSIONS, *peer.distributions], capture_output=True, text=True
        )
    except OSError as error:
        return f"{interpreter}: {error.strerror}"
    if done.returncode != 0:
        return f"{interpreter} lacks one of {', '.join(peer.distributions)}"
    version = environment.onednn_version() if name == "onednn" else json.loads(done.stdout)[0]
    return Installed(peer, interpreter, version)


class PeerError(Exception):
    """A peer's process could not do what it was asked."""


class Worker:
    """The process of one peer."""

    def __init__(self, installed: Installed, threads: int) -> None:
        self.installed = installed
        program = str(WORKERS / installed.peer.program)
        variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        for name in ("FUSED_RNN_INSTALL", "FUSED_RNN_RECOMPUTE", "PYTHONPATH"):
            variables.pop(name, None)
        if installed.peer.name in OF_THIS_PACKAGE:
            variables["PYTHONPATH"] = str(environment.PACKAGE.parent)
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by close()
        self.process = subprocess.Popen(
            [installed.python, program, *installed.peer.arguments],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def send(self, do: str, **arguments: Any) -> None:
        """Starts a command."""
        try:
            print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        except OSError:
            self._died()

    def receive(self) -> dict[str, Any]:
        """Its answer."""
        line = self.process.stdout.readline()
        if not line:
            self._died()
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.installed.peer.label}: {answer['error']}")
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Both."""
        self.send(do, **arguments)
        return self.receive()

    def _died(self) -> None:
        code = self.process.wait()
        self.errors.seek(0)
        errors = " / ".join(self.errors.read().strip().splitlines()[-3:])
        raise PeerError(f"{self.installed.peer.label}: its process ended with {code}: {errors}")

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            file.close()
