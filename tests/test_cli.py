"""The command line: what it says of a user's mistakes, and which files it leaves alone."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
from helpers import run

from fused_rnn import cli
from fused_rnn.bench import options

DS2 = ["bench", "ds2"]
SMALL = [*DS2, "--T", "4", "--N", "2", "--I", "3", "--H", "5", "--rounds", "3", "--threads", "2"]
HUGE = str(2**31 - 1)


def fails(capsys, monkeypatch, *arguments: object) -> str:
    """What a command says that must end with an error, before it starts anything."""
    monkeypatch.setattr(sys, "argv", ["fused-rnn", *map(str, arguments)])
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it starts"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code not in (0, None)
    text = capsys.readouterr().err
    return text if ended.value.code == 2 else f"{text}{ended.value.code}"


@pytest.mark.parametrize("option", ["--T", "--N", "--I", "--H", "--layers", "--threads"])
@pytest.mark.parametrize("value", ["0", "-3", "2147483648", "9" * 30, "1.5", "many"])
def test_sizes_and_threads(capsys, monkeypatch, option, value):
    said = fails(capsys, monkeypatch, *DS2, option, value)
    assert f"argument {option}: expected a whole number from 1 to " in said and value in said


@pytest.mark.parametrize("command", [DS2, ["bench", "grid"]])
def test_other_options(capsys, monkeypatch, command):
    said = fails(capsys, monkeypatch, *command, "--rounds", "2")
    assert "argument --rounds: expected a whole number from 3 to" in said
    for value in ("-1", "nan", "inf", "soon"):
        said = fails(capsys, monkeypatch, *command, f"--budget={value}")
        assert "argument --budget: expected seconds, 0 or more" in said
    assert "argument --threads: expected" in fails(
        capsys, monkeypatch, *command, "--threads", "1025"
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    said = fails(capsys, monkeypatch, *command)
    assert "OMP_NUM_THREADS: expected a whole number from 1 to 1024, got '2,1'" in said


def test_sizes_beyond_memory(capsys, monkeypatch):
    assert "sizes: they take" in fails(capsys, monkeypatch, *DS2, "--T", 10**8)
    said = fails(capsys, monkeypatch, *DS2, "--T", HUGE, "--N", HUGE, "--I", HUGE, "--H", HUGE)
    assert "expected sizes that fit 63 bits" in said


@pytest.mark.parametrize("command", [DS2, ["bench", "grid"]])
def test_output_that_cannot_be_written(capsys, monkeypatch, tmp_path, command):
    """Before anything is measured."""
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "folder", "/proc/folder"):
        said = fails(capsys, monkeypatch, *command, "--output", folder)
        assert f"--output: cannot write to {folder}" in said
    said = fails(
        capsys, monkeypatch, "bench", "grid", "--output", tmp_path, "--page", file / "a.md"
    )
    assert f"--page: cannot write to {file}" in said


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "No such file"),
        ("{}".encode("utf-16"), "expected UTF-8"),
        ('{"shapes": "é"}'.encode("latin-1"), "expected UTF-8"),
        (b"{", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b"[1]", "expected what"),
        (b"{}", "expected what fused_rnn/bench/grid.json has: KeyError: 'groups'"),
        (b'{"groups": [{"shapes": []}], "shapes": {}}', "KeyError: 'name'"),
        (b'{"groups": [{"name": "a"}], "shapes": {}}', "KeyError: 'shapes'"),
    ],
)
def test_grid_that_cannot_be_read(capsys, monkeypatch, tmp_path, content, message):
    path = tmp_path / "grid.json"
    if content is not None:
        path.write_bytes(content)
    said = fails(capsys, monkeypatch, "bench", "grid", "--grid", path, "--output", tmp_path)
    assert str(path) in said and message in said


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"modes": ["lsmt"]}, "modes of 'a': expected some of lstm, gru"),
        ({"passes": ["backward"]}, "passes of 'a': expected some of forward, training"),
        ({"dtypes": ["int8"]}, "dtypes of 'a': expected some of float32"),
        ({"peers": ["tf"]}, "peers of 'a': expected some of fused_rnn"),
        ({"shapes": ["T0 N1 I1 H1"]}, "shape: expected the form"),
        ({"shapes": ["T1 N1 I1 H1 D3"]}, "shape: expected the form"),
    ],
)
def test_words_of_a_grid(capsys, monkeypatch, tmp_path, changes, message):
    group = {"name": "a", "shapes": ["T1 N1 I1 H1"], "modes": ["lstm"], "passes": ["forward"]}
    path = tmp_path / "grid.json"
    path.write_text(json.dumps({"shapes": {}, "groups": [{**group, **changes}]}))
    said = fails(capsys, monkeypatch, "bench", "grid", "--grid", path, "--output", tmp_path)
    assert message in said


@pytest.mark.parametrize("command", [["info"], ["bench", "ds2"], ["bench", "grid"]])
def test_unknown_instruction_set(command):
    done = run(["-m", "fused_rnn", *command], FUSED_RNN_MAX_ISA="avx1024")
    assert done.returncode == 1
    listed = r"'scalar', ('\w+', )*'\w+' or '\w+'"
    assert re.fullmatch(rf"FUSED_RNN_MAX_ISA: expected {listed}, got 'avx1024'\n", done.stdout)


def test_version(capsys, monkeypatch):
    import fused_rnn

    monkeypatch.setattr(sys, "argv", ["fused-rnn", "--version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"fused-rnn {fused_rnn.__version__}\n"


@pytest.mark.parametrize("commit", [None, "0123456789ab"])
def test_info(capsys, monkeypatch, commit):
    """A wheel has no commit."""
    monkeypatch.setattr("fused_rnn.environment.commit", lambda: commit)
    monkeypatch.setattr(sys, "argv", ["fused-rnn", "info"])
    cli.main()
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert lines.get("commit") == commit
    assert lines["installed"] == "no"
    monkeypatch.setattr(sys, "argv", ["fused-rnn", "info", "--json"])
    cli.main()
    found = json.loads(capsys.readouterr().out)
    assert set(lines) <= set(found) and found["installed"] is False and found["commit"] == commit


def test_ds2_of_another_kind_overwrites_nothing(tmp_path):
    """Types, forms and modes; the same command again replaces its files. MXNet's own lines begin
    at the margin, not behind a progress bar.
    """

    def names() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    def measure(*more: str) -> str:
        command = ["-m", "fused_rnn", *SMALL, "--output", str(tmp_path), *more]
        done = run(command, COLUMNS="80")
        assert done.returncode == 0, done.stdout
        table = re.search(r"^float.*?(?=^Wrote)", done.stdout, re.M | re.S).group()
        assert max(map(len, table.splitlines())) <= 80 and "…" not in table
        logged = [line for line in done.stdout.split("\n") if "graph_executor" in line]
        assert logged and all(re.search(r"(^|\r)\[[\d:]+\] [^\r]*$", line) for line in logged)
        return done.stdout

    said = measure("--modes", "rnn_relu")
    assert "vRNN relu forward+backward" in said
    first = {"ds2_T4_N2_I3_H5_L1_D1.json", "ds2_T4_N2_I3_H5_L1_D1.png"}
    assert names() == first
    measure("--modes", "rnn_relu")
    assert names() == first
    measure("--modes", "gru")
    second = {"ds2_T4_N2_I3_H5_L1_D1-2.json", "ds2_T4_N2_I3_H5_L1_D1-2.png"}
    assert names() == first | second
    measure("--modes", "gru", "--dtype", "float64")
    content = json.loads((tmp_path / "ds2_T4_N2_I3_H5_L1_D1_float64.json").read_text())
    assert content["settings"] == {"dtype": "float64", "imperative": False}
    assert content["rows"][0]["flops"] == 2 * 4 * 2 * 3 * 5 * (3 + 5)


def test_files_of_another_kind(tmp_path):
    machine = {"command": "a", "threads": 2, "isa": "avx2"}

    def write(name: str, **changes) -> None:
        content = {"environment": {**machine, **changes}}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    assert options.free_stem(tmp_path / "grid", machine) == tmp_path / "grid"
    write("grid", threads=4)
    (tmp_path / "grid-2.json").write_text("[]")
    write("grid-3", command="b")
    assert options.free_stem(tmp_path / "grid", machine) == tmp_path / "grid-4"
    write("grid-3")
    assert options.free_stem(tmp_path / "grid", machine) == tmp_path / "grid-3"
