"""`fused-rnn run`: programs run as Python runs them, on our kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from helpers import TESTS, environment

TOLD = """
import json, sys
import mxnet
print(json.dumps([sys.argv, sys.path[0], __name__, sys.modules["__main__"].answer()]))
"""
PROGRAM = (
    """
import neighbour
def answer():
    import fused_rnn
    return [neighbour.NAME, fused_rnn.installed()]
"""
    + TOLD
)


def python(*words: object, cwd, **env) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment(**env),
        text=True,
        capture_output=True,
        timeout=300,
    )


def fused(*words: object, cwd, **env) -> subprocess.CompletedProcess:
    return python("-m", "fused_rnn", "run", *words, cwd=cwd, **env)


@pytest.fixture
def project(tmp_path):
    """A script with a neighbour, and a package of the same."""
    for folder, imported in (
        ("scripts", "import neighbour"),
        ("package", "from . import neighbour"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "neighbour.py").write_text(f"NAME = {folder!r}")
        (tmp_path / folder / "train.py").write_text(PROGRAM.replace("import neighbour", imported))
    (tmp_path / "package" / "__main__.py").write_text(
        "from package import train\nraise SystemExit(7)"
    )
    (tmp_path / "package" / "__init__.py").write_text("")
    return tmp_path


def test_script(project):
    """From another folder, with options that the command line has too."""
    words = ["--lr", "0.1", "-m", "--version", "-h", "--", "x"]
    done = fused("scripts/train.py", *words, cwd=project)
    assert done.returncode == 0, done.stderr
    argv, first, name, answer = json.loads(done.stdout.splitlines()[-1])
    assert argv == ["scripts/train.py", *words]
    assert (first, name) == (str(project / "scripts"), "__main__")
    assert answer == ["scripts", True]
    plain = python("scripts/train.py", *words, cwd=project)
    assert json.loads(plain.stdout)[:3] == [argv, first, name]


def test_module(project):
    done = fused("-m", "package.train", "--lr", "-m", "y", cwd=project)
    assert done.returncode == 0, done.stderr
    argv, first, name, answer = json.loads(done.stdout.splitlines()[-1])
    assert argv == [str(project / "package" / "train.py"), "--lr", "-m", "y"]
    assert (first, name, answer) == (str(project), "__main__", ["package", True])


def test_package(project):
    (project / "package" / "train.py").write_text("print('trained')")
    done = fused("-m", "package", cwd=project)
    assert (done.returncode, done.stdout) == (7, "trained\n")


@pytest.mark.parametrize(
    "code, status, said",
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no data')", 1, "no data\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        (
            "import atexit\ndef f(): return name\nname = 2\natexit.register(lambda: print(f()))",
            0,
            "",
        ),
    ],
)
def test_exit(tmp_path, code, status, said):
    """The last: what runs at exit finds the program's names."""
    (tmp_path / "program.py").write_text(code)
    done = fused("program.py", cwd=tmp_path)
    assert done.returncode == status and done.stderr.endswith(said), done.stderr
    assert "Traceback" not in done.stderr or "1 / 0" in done.stderr
    assert done.stdout == ("2\n" if "atexit" in code else "")


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "run: expected a script, or -m and a module"),
        (["-m"], "run: expected a script, or -m and a module"),
        (["nothing.py"], "run: cannot open nothing.py: No such file or directory"),
        (["."], "run: cannot open .: Is a directory"),
        (["-m", "nothing.at.all"], "run: no module named nothing.at.all"),
    ],
)
def test_mistakes(tmp_path, words, said):
    done = fused(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, said + "\n")


@pytest.mark.parametrize("name", ["bucketing", "word_language_model"])
def test_examples(tmp_path, name):
    """They import a module of their folder, and their --native means MXNet's RNN, now ours."""
    small = ["--hidden", "16", "--vocabulary", "300", "--epochs", "1", "--sentences", "200"]
    if name == "word_language_model":
        small += ["--output", tmp_path]
    done = fused(TESTS.parent / "examples" / f"{name}.py", *small, "--native", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "epoch 1" in done.stdout + done.stderr


def test_in_place_of_the_command(project):
    """The installed command has a folder of its own first on the path."""
    code = "import sys; sys.argv[1:] = ['run', 'scripts/train.py']; sys.path.insert(0, '/'); "
    done = python("-c", code + "from fused_rnn.cli import main; main()", cwd=project)
    assert json.loads(done.stdout.splitlines()[-1])[1] == os.path.join(project, "scripts")
