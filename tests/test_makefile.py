"""The Makefile in folders of any name: what it runs there, and what `make clean` leaves alone."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import TESTS

ROOT = TESTS.parent
MARK = ".made-by-fused-rnn"
USABLE_NAMES = (
    "plain",
    "a blank",
    "it's",
    "$HOME $(HOME) $$x",
    "größe 大",
    "a&b (c)",
    "`false`",
    "#x%~",
)
REFUSED_NAMES = ('quo"te', "a,b", "a;b", "back\\slash", "a:b", "a[b]", "a*", "a?", "a|b")

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """As from a user's shell, without what a make that runs these tests leaves to its children."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture
def tree(tmp_path, request):
    """A checkout in a folder of the given name, with little in it."""
    folder = tmp_path / getattr(request, "param", "a blank")
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "mkdocs.yml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("include", "src", "tests"):
        (folder / name).mkdir()
    source = folder / "src" / "one file.cc"
    source.write_text("int x;\n")
    return folder


def environment_of(tree: Path) -> None:
    """A .venv as make would have made it, whose python tells what modules and files it runs."""
    program = tree / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -c ]; then exec {shlex.quote(sys.executable)} "$@"; fi\n'
        'echo "ran python" "$@"\n'
    )
    program.chmod(0o755)
    (tree / ".venv" / MARK).touch()
    (tree / ".venv" / "ready").touch()


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("tree", USABLE_NAMES, indirect=True)
def test_targets_run_the_environment_of_the_folder(tree):
    environment_of(tree)
    for target in ("build", "test", "fuzz", "docs", "wheel", "ds2", "soak", "sanitize"):
        done = make(tree, target)
        assert done.returncode == 0, done.stdout
        assert "ran python" in done.stdout, done.stdout
        assert "command not found" not in done.stdout, done.stdout


@pytest.mark.parametrize("tree", USABLE_NAMES, indirect=True)
def test_lint_gets_whole_names_of_files(tree):
    environment_of(tree)
    # The formatter that runs is a stand-in, which prints its arguments.
    package = tree / "clang_format.py"
    package.write_text("import sys\ndef clang_format(): print('formats', sys.argv[1:])\n")
    done = make(tree, "lint")
    assert done.returncode == 0, done.stdout
    assert "'src/one file.cc'" in done.stdout


@pytest.mark.parametrize("tree", USABLE_NAMES, indirect=True)
def test_clean_removes_what_make_has_made_and_nothing_else(tree):
    environment_of(tree)
    made = tree / "build" / "dev"
    made.mkdir(parents=True)
    (made / MARK).touch()
    wheel = tree / "dist" / "fused_rnn-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    # Where an unquoted path would end or begin again at a blank or a variable.
    decoys = [
        tree.parent / tree.name.split(" ")[0] / "decoy",
        *(tree / part / ".venv" / "decoy" for part in tree.name.split(" ") if part != tree.name),
        tree.parent / "decoy",
        tree / "build" / "notes" / "decoy",
        tree / "build" / "decoy",
        tree / "dist" / "other.whl",
    ]
    for decoy in decoys:
        decoy.parent.mkdir(parents=True, exist_ok=True)
        decoy.touch()
    done = make(tree, "clean")
    assert done.returncode == 0, done.stdout
    assert not (tree / ".venv").exists()
    assert not made.exists()
    assert not wheel.exists()
    assert all(decoy.exists() for decoy in decoys)
    assert "build: kept" in done.stdout
    assert make(tree, "clean").returncode == 0


def test_clean_of_a_tree_with_nothing_else(tree):
    before = files_below(tree)
    environment_of(tree)
    for folder in ("build/dev", "build/lib.linux-x86_64-cpython-311", "dist"):
        (tree / folder).mkdir(parents=True)
    (tree / "build" / "dev" / MARK).touch()
    done = make(tree, "clean")
    assert done.returncode == 0, done.stdout
    assert files_below(tree) == before


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_an_environment_of_the_user_is_neither_used_nor_removed(tree, tmp_path, kind):
    theirs = tmp_path / "theirs"
    environment = tree / ".venv"
    if kind == "folder":
        theirs = environment
    if kind == "file":
        environment.touch()
    else:
        (theirs / "bin").mkdir(parents=True)
        (theirs / "bin" / "keep").touch()
        if kind == "link":
            environment.symlink_to(theirs)
    before = files_below(tmp_path)
    done = make(tree, "lint", f"PYTHON={sys.executable}")
    assert done.returncode != 0
    assert ".venv: expected" in done.stdout
    assert make(tree, "clean").returncode == 0
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("tree", REFUSED_NAMES, indirect=True)
def test_a_name_that_the_build_tools_cannot_have_is_refused_at_once(tree):
    before = files_below(tree)
    for target in ("build", "test", "lint", "docs", "wheel", "sanitize", "ds2"):
        done = make(tree, target)
        assert done.returncode != 0
        assert "expected a path without" in done.stdout, done.stdout
        assert str(tree) in done.stdout
    assert files_below(tree) == before
    environment_of(tree)
    assert make(tree, "clean").returncode == 0
    assert files_below(tree) == before
    assert make(tree).returncode == 0  # the list of targets


def test_make_alone_lists_the_targets(tree):
    done = make(tree)
    assert done.returncode == 0, done.stdout
    rules = (ROOT / "Makefile").read_text().split(".PHONY: ds2")[1].replace("\\\n", " ")
    targets = ["ds2", *rules.splitlines()[0].split()]
    assert {"test", "clean", "sanitize", "test-mkl"} <= set(targets)
    for target in targets:
        assert f"make {target}" in done.stdout, target
    assert not (tree / ".venv").exists()


def other_python(folder: Path) -> Path:
    """Another interpreter, as far as the Makefile can see: it can make environments, but fails."""
    folder.mkdir()
    program = folder / "other python"
    program.write_text(
        "#!/bin/sh\n"
        'case "$2" in *ensurepip*) exit 0;; *base_prefix*) echo other; exit 0;; esac\n'
        'echo "other runs $*" >&2\n'
        "exit 1\n"
    )
    program.chmod(0o755)
    return program


def test_another_python_makes_the_environment_anew(tree, tmp_path):
    environment_of(tree)
    done = make(tree, "lint", f"PYTHON={other_python(tmp_path / 'x')}")
    assert done.returncode != 0
    assert "other runs -m venv .venv" in done.stdout
    assert not (tree / ".venv" / "ready").exists()


def test_the_same_python_keeps_the_environment(tree, tmp_path):
    environment_of(tree)
    link = tmp_path / "its own name"
    link.symlink_to(sys.executable)
    done = make(tree, "build", f"PYTHON={sys.executable}")
    assert done.returncode == 0, done.stdout
    assert "venv" not in done.stdout.replace("ran python", "")


def test_a_python_that_will_not_do_is_refused(tree):
    done = make(tree, "build", "PYTHON=/does not/exist")
    assert done.returncode != 0
    assert "PYTHON: expected" in done.stdout
    assert "/does not/exist" in done.stdout
    assert not (tree / ".venv").exists()
