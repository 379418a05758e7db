"""The package without its benchmarks, or without what only they need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from helpers import run, run_code

import fused_rnn

PACKAGE = Path(fused_rnn.__file__).parent
HIDDEN = "import sys; sys.modules.update(dict.fromkeys(('matplotlib', 'rich', 'tqdm')))"
COMMAND = "sys.argv = ['fused-rnn', {}]; from fused_rnn import cli; cli.main()"

USE = f"""
{HIDDEN}
import mxnet as mx
import numpy as np
import fused_rnn

assert fused_rnn.__file__.startswith({{folder!r}}), fused_rnn.__file__
x = np.ones((5, 2, 3), "float32")
params = np.full(144, 0.1, "float32")
y = fused_rnn.functional.lstm(x, params, hidden_size=4).y
stream = fused_rnn.Stream("lstm", params, hidden_size=4, batch_size=2)
np.testing.assert_allclose([stream(step) for step in x], y, atol=1e-6)
zeros = mx.nd.zeros((1, 2, 4))
arrays = (mx.nd.array(x), mx.nd.array(params), zeros, zeros)
outputs = fused_rnn.nd.RNN(*arrays, mode="lstm", state_size=4, num_layers=1)
np.testing.assert_allclose(outputs.asnumpy(), y, atol=1e-6)
layer = fused_rnn.gluon.LSTM(4)
layer.initialize()
assert layer(mx.nd.array(x)).shape == (5, 2, 4)
{COMMAND.format("'info'")}
"""


@pytest.fixture(scope="module")
def without_bench(tmp_path_factory) -> str:
    """A folder with the package, but without its folder bench."""
    folder = tmp_path_factory.mktemp("without")
    ignored = shutil.ignore_patterns("bench", "__pycache__", "libonednn_rnn.so")
    shutil.copytree(PACKAGE, folder / "fused_rnn", ignore=ignored)
    return str(folder)


def path_with(folder: str) -> str:
    return os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


def test_everything_else_works(without_bench):
    said = run_code(USE.format(folder=without_bench), PYTHONPATH=path_with(without_bench))
    assert f"fused_rnn  {fused_rnn.__version__}" in said


def test_a_script_runs(without_bench, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import fused_rnn; print('installed', fused_rnn.installed())")
    command = COMMAND.format(f"'run', {str(script)!r}")
    assert "installed True" in run_code(f"{HIDDEN}; {command}", PYTHONPATH=path_with(without_bench))


@pytest.mark.parametrize("arguments", ["'bench'", "'bench', 'ds2', '--T', '3'"])
def test_benchmarks_name_their_extra(without_bench, arguments):
    done = run(
        ["-c", f"import sys; {COMMAND.format(arguments)}"], PYTHONPATH=path_with(without_bench)
    )
    assert done.returncode == 1
    assert done.stdout.startswith("bench: expected ") and "fused_rnn.bench not" in done.stdout
    assert "pip install 'fused-rnn[bench]'" in done.stdout


@pytest.mark.parametrize("name", ["matplotlib", "rich", "tqdm"])
def test_libraries_that_benchmarks_need(name):
    code = f"import sys; sys.modules[{name!r}] = None; {COMMAND.format(repr('bench'))}"
    done = run(["-c", code])
    assert done.returncode == 1
    assert f"{name} not installed" in done.stdout
    assert "pip install 'fused-rnn[bench]'" in done.stdout


def test_the_command_line_loads_no_benchmarks():
    code = f"import sys; {COMMAND.format(repr('info'))}; print(sorted(sys.modules))"
    loaded = run_code(code)
    for name in ("fused_rnn.bench", "tqdm", "matplotlib", "rich"):
        assert f"'{name}'" not in loaded, name
