"""Trains in several processes, on this machine or on several, over MXNet's key-value store.

    python -m examples.deepspeech2.launch --workers 2 -- --output runs/two

starts a scheduler, the servers and the workers here; what follows -- goes to the training. If one
of them dies, all are ended, and the same command resumes from the last checkpoint.

    python -m examples.deepspeech2.launch --root 10.0.0.1:9100 --print -- --output runs/two

prints one command for each process, to be started on machines of your choice; the scheduler's must
have the address of --root.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from typing import NamedTuple

from examples.deepspeech2 import train
from examples.inputs import whole
from fused_rnn.environment import core_count

_SERVE = [sys.executable, "-c", "import mxnet"]  # in these roles the import serves until the end
_SIGNAL_OF_DEATH = 1  # prctl: the signal to get when the parent has died


class Role(NamedTuple):
    """One process of a job."""

    name: str
    variables: dict[str, str]
    command: list[str]

    def shell(self) -> str:
        """Its command line."""
        words = [f"{name}={value}" for name, value in self.variables.items()]
        return " ".join([*words, shlex.join(self.command)])


def roles(args: argparse.Namespace, host: str, port: int) -> list[Role]:
    """All processes, the workers last."""
    common = {
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": str(args.servers),
        "DMLC_NUM_WORKER": str(args.workers),
    }
    if host == "127.0.0.1":
        common["DMLC_NODE_HOST"] = host  # else a machine without a network finds no address
        common["OMP_NUM_THREADS"] = str(args.threads or max(1, core_count() // args.workers))
    elif args.threads:
        common["OMP_NUM_THREADS"] = str(args.threads)
    train = [sys.executable, "-m", "examples.deepspeech2.train", *args.training]
    names = ["scheduler"]
    names += [f"server {k}" for k in range(args.servers)]
    names += [f"worker {k}" for k in range(args.workers)]
    return [
        Role(
            name,
            {**common, "DMLC_ROLE": name.split()[0]},
            train if name.startswith("worker") else _SERVE,
        )
        for name in names
    ]


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SIGNAL_OF_DEATH, signal.SIGKILL)


def run(job: list[Role]) -> str | None:
    """Runs the processes until the workers have ended; what went wrong, if anything."""
    processes: dict[str, subprocess.Popen] = {}
    try:
        for role in job:
            environment = {**os.environ, **role.variables}
            processes[role.name] = subprocess.Popen(
                role.command, env=environment, preexec_fn=_die_with_parent
            )
        while True:
            codes = {name: process.poll() for name, process in processes.items()}
            for name, code in codes.items():
                if code:
                    how = f"by signal {-code}" if code < 0 else f"with status {code}"
                    return f"{name} (process {processes[name].pid}) has ended {how}"
            if all(code == 0 for name, code in codes.items() if name.startswith("worker")):
                return None
            time.sleep(0.2)
    finally:
        for process in processes.values():
            process.kill()
        for process in processes.values():
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=whole(1, 1000), default=2, help="(2)")
    parser.add_argument("--servers", type=whole(1, 1000), default=1, help="(1)")
    parser.add_argument(
        "--threads", type=whole(1, 1024), help="of each worker (its share of the cores)"
    )
    parser.add_argument("--root", metavar="HOST:PORT", help="the scheduler's, with --print")
    parser.add_argument("--print", action="store_true", help="print the commands, start nothing")
    parser.add_argument("training", nargs="*", help="options of examples.deepspeech2.train")
    args = parser.parse_args()
    if bool(args.root) != args.print:
        parser.error("--root and --print: expected both or neither")
    train.arguments(args.training)  # a mistake there is told once, and here
    if args.print:
        host, _, port = args.root.rpartition(":")
        if not host or not re.fullmatch(r"\d{1,5}", port) or not 0 < int(port) < 1 << 16:
            parser.error(f"--root: expected HOST:PORT, found {args.root!r}")
        for role in roles(args, host, int(port)):
            print(f"# {role.name}\n{role.shell()}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    problem = run(roles(args, "127.0.0.1", free_port()))
    if problem:
        sys.exit(f"{problem}; the job is stopped. The same command resumes its last checkpoint.")


if __name__ == "__main__":
    main()
