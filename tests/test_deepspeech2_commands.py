"""The command lines of the examples and a user's mistakes."""

from __future__ import annotations

import importlib
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from helpers import TESTS
from speech import SIZE, cache, execute, spoken

from examples.deepspeech2 import bench, corpus, decode, train

EXAMPLES = TESTS.parent / "examples"
SCRIPTS = ("bucketing", "word_language_model")


def ended(monkeypatch, capsys, name: str, *options: object) -> tuple[int, str]:
    """Code and messages of a program that ends by itself, without a traceback."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
    with pytest.raises(SystemExit) as end:
        if name in SCRIPTS:
            monkeypatch.syspath_prepend(str(EXAMPLES))
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        else:
            importlib.import_module(f"examples.deepspeech2.{name}").main()
    captured = capsys.readouterr()
    code = end.value.code
    message = captured.out + captured.err
    if isinstance(code, str):  # Python prints it and ends with 1
        code, message = 1, message + code
    assert "Traceback" not in message
    return code, message


HUGE = "9" * 25
MISTAKES = {
    "transcribe": ("beam -3", f"beam {HUGE}", "beam two"),
    "evaluate": ("beam -3", f"beam {HUGE}", "batch 0", "batch -1", f"batch {HUGE}"),
    "train": (
        *(f"{name} 0" for name in ("epochs", "batch", "save-every", "layers", "hidden")),
        *(f"{name} {HUGE}" for name in ("epochs", "batch", "seed", "layers", "hidden")),
        *(f"{name} nan" for name in ("rate", "decay", "clip", "momentum", "compress")),
        *(f"{name} -1" for name in ("rate", "decay", "clip", "momentum", "compress", "patience")),
        "seed -1",
        "dropout 1",
        "dropout -0.1",
        "rate inf",
        "momentum 1",
        "patience inf",
        "utterances 0 1 1",
        f"utterances 1 {HUGE} 1",
    ),
    "launch": ("workers 0", "workers -2", f"workers {HUGE}", "servers 0", "threads 0"),
    "bench": ("T 0", "T -4", f"T {HUGE}", "N 0", "rounds 0", "budget -1", "threads 0", "modes gnu"),
    "corpus": ("train 0", "valid -1", f"test {HUGE}", "seed -1"),
    "bucketing": (
        *(f"{name} 0" for name in ("hidden", "layers", "batch", "epochs", "buckets")),
        *("vocabulary 2", "sentences 0", "rate -1", "seed -1", f"hidden {HUGE}"),
    ),
    "word_language_model": (
        *(f"{name} 0" for name in ("hidden", "layers", "batch", "epochs", "steps", "clip")),
        *("vocabulary 2", "sentences 0", "rate -1", "seed -1", "dropout 1", f"hidden {HUGE}"),
    ),
}


@pytest.mark.parametrize(
    "name, mistake", [(name, text) for name, texts in MISTAKES.items() for text in texts]
)
def test_numbers_that_make_no_sense(name, mistake, tmp_path, monkeypatch, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("x")
    option, *values = mistake.split()
    others = {
        "transcribe": (tmp_path / "a.wav",),
        "evaluate": (tmp_path,),
        "train": ("--train", tmp_path, "--valid", tmp_path, "--output", tmp_path / "run"),
        "bench": ("--preset", "tiny", "--output", tmp_path),
        "corpus": ("--cache", blocked),
    }.get(name, () if name == "launch" else ("--text", blocked))
    code, message = ended(monkeypatch, capsys, name, *others, f"--{option}", *values)
    assert code == 2
    assert f"argument --{option}: " in message
    assert "expected" in message or "invalid choice" in message


@pytest.mark.parametrize(
    "options, message",
    [
        (("--root", "host:99999", "--print"), "--root: expected HOST:PORT, found 'host:99999'"),
        (("--root", "host:0", "--print"), "--root: expected HOST:PORT"),
        (("--root", "host:1234"), "--root and --print: expected both or neither"),
        (("--", "--batch", "0"), "argument --batch: expected a whole number from 1"),
        (("--print", "--root", "host:1234", "--", "--nonsense"), "--nonsense"),
    ],
)
def test_mistakes_of_a_launch(options, message, monkeypatch, capsys):
    """No process is started for them."""
    monkeypatch.setattr("subprocess.Popen", None)
    code, output = ended(monkeypatch, capsys, "launch", *options)
    assert code == 2 and message in output


def test_the_width_of_a_beam():
    for width in (0, -3):
        with pytest.raises(ValueError, match=f"width: expected at least 1, found {width}"):
            decode.beam_search([[0.0] * 29], width)


# Folders and files


@pytest.mark.parametrize("name", ["train", "bench", "corpus", "word_language_model"])
def test_an_output_folder_that_cannot_be_written(name, tmp_path, monkeypatch, capsys):
    """It is found before anything is computed."""
    blocked = tmp_path / "file"
    blocked.write_text("x")
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat.\n\n" * 400)
    monkeypatch.setattr(bench, "compare", None)
    monkeypatch.setattr(corpus, "synthesise", None)
    monkeypatch.setattr(train.data, "scan", None)
    monkeypatch.setattr("mxnet.gluon.Trainer", None)
    options = {
        "train": ("--output", blocked / "run", "--cache", tmp_path / "cache"),
        "bench": ("--output", blocked),
        "corpus": ("--cache", blocked),
        "word_language_model": ("--text", text, "--hidden", 4, "--output", blocked / "plots"),
    }
    code, message = ended(monkeypatch, capsys, name, *options[name])
    assert code == 1
    assert f"{options[name][-1] if name != 'train' else blocked / 'run'}: expected a folder" in (
        message
    )
    assert not (tmp_path / "cache").exists()


def test_a_corpus_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("x")
    options = ("--cache", blocked, "--output", tmp_path / "run")
    code, message = ended(monkeypatch, capsys, "train", *options)
    assert code == 1 and f"{blocked}: expected a folder that can be written" in message


BAD_TEXTS = {
    "missing": (None, "expected a text file: No such file"),
    "latin-1": ("The cat.\n\nThe Übel.\n".encode("latin-1"), "line 3: expected text in UTF-8"),
    "half of utf-16": ("The cat.".encode("utf-16")[:-1], "expected UTF-16"),
    "utf-16 without mark": ("The cat.".encode("utf-16-le"), "line 1: expected text in UTF-8"),
    "empty": (b"", "too short"),
    "short": (b"The cat sat on the mat. It sat.", "too short"),
}


@pytest.mark.parametrize("kind", BAD_TEXTS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_texts_that_cannot_be_used(name, kind, tmp_path, monkeypatch, capsys):
    content, reason = BAD_TEXTS[kind]
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    options = ["--text", path, "--hidden", 4]
    if name == "word_language_model":
        options += ["--output", tmp_path]
    code, message = ended(monkeypatch, capsys, name, *options)
    assert code == 1 and str(path) in message and reason in message


def test_a_text_of_long_sentences_only(tmp_path, monkeypatch, capsys):
    path = tmp_path / "text.txt"
    path.write_text("a cat " * 100)
    code, message = ended(monkeypatch, capsys, "bucketing", "--text", path, "--hidden", 4)
    assert code == 1 and f"{path}: too short" in message


def test_folders_without_utterances(tmp_path, monkeypatch, capsys):
    for folder in (tmp_path, tmp_path / "missing"):
        options = ("--train", folder, "--valid", folder, "--output", tmp_path / "run")
        code, message = ended(monkeypatch, capsys, "train", *options)
        assert code == 1 and f"{folder}: no " in message


def test_files_that_go_away_during_a_run(tmp_path, monkeypatch, capsys):
    """A batch without a file left adds nothing; an epoch without one ends the run."""
    for part in ("train", "valid"):
        shutil.copytree(spoken() / part, tmp_path / part)
    data = ("--train", tmp_path / "train", "--valid", tmp_path / "valid")
    arguments = [*small(tmp_path / "run"), *data]
    scan = train.data.scan

    def losing(folder: Path, *others):
        found = scan(folder, *others)
        if folder.name == "train":
            for item in sorted(found, key=lambda u: u.frames)[: losing.count]:
                item.path.unlink()
        return found

    monkeypatch.setattr(train.data, "scan", losing)
    losing.count = 5
    train.main([*map(str, arguments), "--batch", "4"])
    assert "5 files were left out" in capsys.readouterr().out
    losing.count = None
    with pytest.raises(SystemExit):
        train.main([*map(str, arguments), "--output", str(tmp_path / "again")])
    captured = capsys.readouterr()
    assert "epoch 1: no utterance could be used" in captured.err
    assert "Traceback" not in captured.err


# What is written


def test_an_evaluation_says_what_it_left_out(tmp_path, monkeypatch, capsys):
    output = tmp_path / "run"
    train.main([*map(str, small(output))])
    folder = spoken() / "valid"
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "a.trans.txt").write_text("missing YES\n")
    (mixed / "valid").symlink_to(folder)
    copy = mixed / "b"
    copy.mkdir()
    for k, path in enumerate(sorted(folder.rglob("*.wav"))[:2]):
        (copy / f"{k}.wav").write_bytes(path.read_bytes())
    (copy / "b.trans.txt").write_text("0 A\n1 B\n")
    capsys.readouterr()
    monkeypatch.setattr(
        sys, "argv", ["evaluate", str(mixed), "--checkpoint", str(output / "best.zip")]
    )
    importlib.import_module("examples.deepspeech2.evaluate").main()
    captured = capsys.readouterr().out
    assert f"{mixed}: 2 utterances, 1 left out, loss" in captured
    assert "missing.wav: no such file" in captured


def small(output: Path) -> tuple[object, ...]:
    size = ("--utterances", *SIZE)
    return ("--preset", "tiny", "--cache", cache(), *size, "--epochs", 1, "--output", output)


def test_nothing_is_written_outside_the_named_folders(tmp_path):
    """Every file that Python opens to write, and every folder it makes."""
    good = next((spoken() / "test").rglob("*.wav"))
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat. The dog did not, as the mat was taken!\n\n" * 40)
    output = tmp_path / "output"
    commands = [
        ("examples.deepspeech2.train", *small(output)),
        ("examples.deepspeech2.train", *small(output), "--override", "--epochs", 2),
        ("examples.deepspeech2.transcribe", good, "--checkpoint", output / "best.zip"),
        ("examples.deepspeech2.evaluate", spoken() / "valid", "--checkpoint", output / "best.zip"),
        (EXAMPLES / "bucketing.py", "--text", text, "--hidden", 4, "--epochs", 1),
        (
            EXAMPLES / "word_language_model.py",
            *("--text", text, "--hidden", 4, "--epochs", 1, "--output", output),
        ),
    ]
    code = f"""
import os, runpy, sys
import matplotlib.font_manager  # has a cache of its own
written = set()
def hook(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        written.add(str(arguments[0]))
    elif event in ("os.mkdir", "os.rename"):
        written.add(str(arguments[0]))
sys.addaudithook(hook)
sys.dont_write_bytecode = True
for name, *options in {[[str(word) for word in command] for command in commands]!r}:
    sys.argv = [name, *options]
    try:
        if name.endswith(".py"):
            sys.path[0] = os.path.dirname(name)
            runpy.run_path(name, run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__")
    except SystemExit as end:
        assert not end.code, end.code
named = ({str(output)!r}, "/dev/")
print("outside:", sorted(path for path in written if not path.startswith(named)))
print("inside:", len(written))
"""
    lines = execute(["-c", code]).splitlines()
    assert "outside: []" in lines
    assert int(lines[-1].split()[-1]) > 5
