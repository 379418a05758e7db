"""The processes of the benchmark: what they count as memory, and that none outlives the run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import environment, run_code

from fused_rnn.bench import peers

MEASURING = """
import tempfile
import numpy as np
from worker import Commands
class Model:
    def __init__(self, problem, arrays):
        pass
    def run(self, training):
        self.outputs = np.ones((2 if training else 5) * 10**6)
        if training:
            self.kept = self.outputs.copy()
    def results(self, training):
        return {"y": 2 * self.outputs}
commands = Commands(Model)
with tempfile.TemporaryDirectory() as folder:
    np.savez(folder + "/arrays.npz", x=np.ones(3))
    commands.open({}, folder + "/arrays.npz")
    for training in (False, True, False):
        print(commands.first(training, folder + "/results.npz")["memory"])
"""


def test_memory_of_a_pass():
    """Outputs of 40 MB; then of 16 MB and as much that stays; then 40 MB beside that. Neither the
    outputs before nor the copies that are saved count.
    """
    output = run_code(MEASURING, PYTHONPATH=str(peers.WORKERS))
    found = [int(word) / 1e6 for word in output.split()]
    assert found == pytest.approx([40, 32, 56], abs=4)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


SLEEPING = """
import time
from pathlib import Path
from worker import serve
class Model:
    def __init__(self, problem, arrays):
        self.started = Path(problem["started"])
    def run(self, training):
        self.started.touch()
        time.sleep(100)
serve(Model)
"""
PARENT = """
import subprocess, sys
process = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
process.stdin.write(sys.argv[2].encode())
process.stdin.flush()
process.wait()
"""


def test_a_worker_in_a_long_call_ends_with_its_parent(tmp_path):
    """When it does not read stdin, whose end would tell."""
    started, arrays = tmp_path / "started", tmp_path / "arrays.npz"
    np.savez(arrays)
    commands = [
        {"do": "open", "problem": {"started": str(started)}, "arrays": str(arrays)},
        {"do": "time", "training": False, "calls": 1, "seconds": 0},
    ]
    lines = "".join(json.dumps(command) + "\n" for command in commands)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, SLEEPING, lines],
        env=environment(PYTHONPATH=str(peers.WORKERS)),
        stdout=subprocess.DEVNULL,
    )
    try:
        until(started.exists)
        (worker,) = children(parent.pid)
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not is_running(worker))


LONG = {
    "shapes": {},
    "groups": [
        {
            "name": "contended",
            "shapes": ["T2 N1 I3 H5"],
            "modes": ["gru"],
            "passes": ["forward"],
            "contended": True,
        }
    ],
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_run(tmp_path, number):
    """Two workers, the process that competes with them and, but for a kill, their files."""
    grid, temporary = tmp_path / "grid.json", tmp_path / "temporary"
    grid.write_text(json.dumps(LONG))
    temporary.mkdir()
    options = ["--rounds", "100000", "--threads", "2", "--only", peers.NATIVE]
    options += ["--grid", str(grid), "--output", str(tmp_path / "output")]
    process = subprocess.Popen(
        [sys.executable, "-m", "fused_rnn", "bench", "grid", *options],
        env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # It may be ignored here, as in what a shell starts in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        until(lambda: process.poll() is not None or len(children(process.pid)) == 3)
        started = children(process.pid)
        process.send_signal(number)
        assert process.wait(60) != 0
        until(lambda: not any(map(is_running, started)))
        assert number == signal.SIGKILL or not list(temporary.iterdir())
    finally:
        process.kill()
        process.wait()
