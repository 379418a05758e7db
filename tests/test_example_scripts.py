"""The programs in examples/ learn, and give the native operator's numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import TESTS, run, run_code

EXAMPLES = TESTS.parent / "examples"
SMALL = ("--hidden", "16", "--vocabulary", "300", "--epochs", "2")
RUNS = {
    "word_language_model": (*SMALL, "--sentences", "300", "--rate", "0.01", "--dropout", "0"),
    "bucketing": (*SMALL, "--sentences", "400", "--rate", "0.01"),
}


def losses(name: str, *options: str) -> list[float]:
    program = f"""
import json, sys
sys.path.insert(0, {str(EXAMPLES)!r})
import {name} as example
losses = example.train(example.arguments({list(options)}))
print()
print(json.dumps([float(loss) for loss in losses]))
"""
    output = run_code(program)
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("name", RUNS)
def test_example(name, tmp_path):
    options = list(RUNS[name])
    if name == "word_language_model":
        options += ["--output", str(tmp_path)]
    ours, native = losses(name, *options), losses(name, *options, "--native")
    assert ours[-1] < 0.9 * ours[0]
    np.testing.assert_allclose(ours, native, rtol=1e-3)
    if name == "word_language_model":
        assert (tmp_path / "word_language_model.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", RUNS)
def test_command(name, tmp_path):
    """As its description says, with dropout, on another text."""
    path = tmp_path / "text.txt"
    path.write_text("The cat sat on the mat. The dog did not, as the mat was taken!\n\n" * 40)
    options = [*SMALL, "--text", str(path)]
    if name == "word_language_model":
        options += ["--output", str(tmp_path)]
    done = run([str(EXAMPLES / f"{name}.py"), *options])
    assert done.returncode == 0, done.stdout
    assert "epoch 2" in done.stdout and "perplexity" in done.stdout
