"""The Deep Speech 2 example: sound, data, network, decoding, training in one process and in two."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from helpers import TESTS, environment, run

ROOT = TESTS.parent
sys.path.insert(0, str(ROOT))
pytest.importorskip("jiwer", reason="jiwer is not installed: pip install '.[deepspeech2]'")
pytest.importorskip("espeakng_loader", reason="no espeak-ng: pip install '.[deepspeech2]'")

from examples.deepspeech2 import audio, checkpoint, corpus, data, decode  # noqa: E402
from examples.deepspeech2.audio import SpeechError  # noqa: E402
from examples.deepspeech2.model import CELLS, PRESETS, DeepSpeech2  # noqa: E402

SIZE = corpus.Size(24, 6, 6)
TINY = PRESETS["tiny"]
# One thread: the problems are tiny, and other processes may want the cores.
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "OMP_NUM_THREADS": "1",
}
SKIP, STOP = data.OnError(stop=False), data.OnError(stop=True)


def program(name: str, *options: object) -> list[str]:
    return ["-m", f"examples.deepspeech2.{name}", *map(str, options)]


def execute(arguments: list[str]) -> subprocess.CompletedProcess:
    return run(arguments, **ENVIRONMENT)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache folder with a small corpus."""
    folder = tmp_path_factory.mktemp("cache")
    size = [f"--{name}={value}" for name, value in SIZE._asdict().items()]
    done = execute(program("corpus", f"--cache={folder}", *size))
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="session")
def spoken(cache):
    return corpus.folder_of(cache, SIZE, 0)


# Sound


def tone(frequency: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate)


def write(path: Path, samples: np.ndarray, rate: int = audio.RATE, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_files_of_any_rate(rate, channels, tmp_path):
    sound = np.repeat(tone(440, rate), channels)
    path = write(tmp_path / "tone.wav", sound, rate, channels)
    found, expected = audio.read_wav(path), tone(440, audio.RATE)
    assert audio.wav_seconds(path) == pytest.approx(0.5)
    assert found.shape == expected.shape
    inner = slice(800, -800)  # the ends ring
    np.testing.assert_allclose(found[inner], expected[inner], atol=0.01)


def test_spectrogram_finds_a_tone():
    noise = 1e-3 * np.random.default_rng(0).standard_normal(audio.RATE // 2)
    sound = noise + np.concatenate([tone(1000, audio.RATE, 0.25), tone(3000, audio.RATE, 0.25)])
    features = audio.spectrogram(sound.astype("float32"), hop=160)
    assert features.shape == (audio.frame_count(0.5, 160), audio.BANDS)
    hertz = features.argmax(axis=1) * audio.RATE / audio.WINDOW
    assert hertz[3] == 1000 and hertz[-3] == 3000
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-5)


def bad_wav(kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.wav"
    if kind == "text":
        path.write_text("not a sound")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "bytes":
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 1, audio.RATE, 0, "NONE", ""))
            file.writeframes(bytes(1000))
    elif kind == "truncated":
        write(path, tone(440, audio.RATE))
        path.write_bytes(path.read_bytes()[:5000])
    return path


BAD = {
    "missing": "no such file",
    "text": "not a wav file",
    "empty": "not a wav file",
    "bytes": "expected 16-bit samples, found 8-bit",
    "truncated": "expected 16000 bytes of sound, the file has 5000",
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_wav_files_are_named(kind, tmp_path):
    path = bad_wav(kind, tmp_path)
    with pytest.raises(SpeechError, match=f"{path}.*{BAD[kind]}"):
        audio.wav_seconds(path)


# Data


def test_the_corpus_is_reproducible_and_split_by_speaker(cache, spoken, tmp_path):
    size = [f"--{name}={value}" for name, value in SIZE._asdict().items()]
    done = execute(program("corpus", f"--cache={tmp_path}", *size))
    assert done.returncode == 0, done.stdout
    again = corpus.folder_of(tmp_path, SIZE, 0)
    files = sorted(path.relative_to(spoken) for path in spoken.rglob("*.*"))
    assert sum(path.suffix == ".wav" for path in files) == sum(SIZE)
    for path in files:
        assert (again / path).read_bytes() == (spoken / path).read_bytes()
    speakers = [{path.name for path in (spoken / part).iterdir()} for part in SIZE._fields]
    assert all(speakers) and len(set.union(*speakers)) == sum(map(len, speakers))


def test_sentences_have_letters_only():
    rng = np.random.default_rng(0)
    texts = [corpus.sentence(rng) for _ in range(500)]
    assert all(set(text) <= set(data.ALPHABET) for text in texts)
    assert len(set(texts)) > 300
    assert corpus.number(342) == "three hundred and forty two"
    assert corpus.spoken("b a t") == "B A T"


@pytest.fixture
def mixed(tmp_path):
    """Two good utterances among bad ones, in LibriSpeech's layout."""
    chapter = tmp_path / "speaker" / "chapter"
    chapter.mkdir(parents=True)
    for name in ("good", "better", "silent", "foreign", "hasty"):
        write(chapter / f"{name}.wav", tone(300, audio.RATE))
    (chapter / "packed.flac").write_bytes(b"")
    lines = ["good YES", "better  IT'S OK ", "silent", "foreign ÜBER", "hasty " + "AB" * 50]
    for kind in BAD:
        bad_wav(kind, chapter)
        lines.append(f"{kind} TEXT")
    (chapter / "one.trans.txt").write_text("\n".join([*lines, "packed TEXT", ""]), "utf-8")
    return tmp_path


def test_bad_utterances_are_left_out_and_named(mixed, capsys):
    on_error = data.OnError(stop=False)
    found = data.scan(mixed, TINY, on_error)
    assert {u.path.stem: u.text for u in found} == {"good": "yes", "better": "it's ok"}
    assert on_error.skipped == len(BAD) + 4
    output = capsys.readouterr().out
    for name, reason in (
        ("silent", "the transcript is empty"),
        ("foreign", "the transcript has ['ü']"),
        ("hasty", "too short for its transcript: expected at least 100 steps"),
        ("packed", "convert packed.flac to wav"),
        *BAD.items(),
    ):
        assert any(f"{name}.wav" in line and reason in line for line in output.splitlines()), name


def test_bad_utterances_stop_the_run_if_wanted(mixed, tmp_path):
    with pytest.raises(SpeechError, match="silent.wav: the transcript is empty"):
        data.scan(mixed, TINY, STOP)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SpeechError, match=r"empty: no \*.trans.txt"):
        data.scan(empty, TINY, SKIP)


def test_batches_of_an_epoch():
    rng = np.random.default_rng(1)
    utterances = [data.Utterance(Path(str(k)), "a", int(rng.integers(10, 400))) for k in range(101)]
    first, second = (data.epoch_batches(utterances, 8, epoch, 0) for epoch in (0, 1))
    for batches in (first, second):
        assert sorted(u.path for batch in batches for u in batch) == sorted(
            u.path for u in utterances
        )
    lengths = [u.frames for batch in first for u in batch]
    assert lengths == sorted(lengths)
    assert second != first and second == data.epoch_batches(utterances, 8, 1, 0)
    assert second != data.epoch_batches(utterances, 8, 2, 0)
    ranges = [[u.frames // data.BUCKET for u in batch] for batch in second]
    assert sum(max(r) - min(r) for r in ranges) <= 400 // data.BUCKET + 1  # each cut spans few
    full = data.epoch_batches(utterances, 8, 1, 0, workers=6)  # the last batch has 5
    assert len(full) == len(second) - 1 and all(len(batch) == 8 for batch in full)


def test_a_loaded_batch(spoken):
    utterances = data.scan(spoken / "train", TINY, STOP)[:3]
    batch = data.load(utterances, TINY, STOP)
    assert batch.features.shape[1] % data.BUCKET == 0
    for n, item in enumerate(utterances):
        assert batch.frames[n] == item.frames and not batch.features[n, item.frames :].any()
        letters = batch.labels[n, : int(batch.characters[n])].astype(int)
        assert "".join(data.ALPHABET[k] for k in letters) == item.text
    missing = utterances[0]._replace(path=Path("missing.wav"))
    assert data.load([missing, utterances[1]], TINY, SKIP).texts == [utterances[1].text]
    with pytest.raises(SpeechError, match=r"missing.wav: no such file"):
        data.load([missing, utterances[1]], TINY, STOP)
    chunks = [utterances[:1], utterances[1:]]
    loaded = data.prefetched(chunks, lambda chunk: data.load(chunk, TINY, STOP))
    assert [batch.texts for batch in loaded] == [[u.text for u in chunk] for chunk in chunks]


# Decoding


def scores_of(path: str) -> np.ndarray:
    """Scores whose best path is this; '-' is the blank."""
    numbers = [data.BLANK if c == "-" else data.ALPHABET.index(c) for c in path]
    return 9 * np.eye(data.BLANK + 1)[numbers]


@pytest.mark.parametrize("decoder", [decode.greedy, decode.beam_search])
@pytest.mark.parametrize("path, text", [("aab-b-", "abb"), ("---", ""), ("-a  a-", "a a")])
def test_decoding_of_clear_paths(decoder, path, text):
    assert decoder(scores_of(path)) == text


@pytest.mark.parametrize("seed", range(5))
def test_beam_search_finds_the_most_probable_text(seed, monkeypatch):
    """Against the sums over all paths, with an alphabet of two letters."""
    monkeypatch.setattr(decode, "ALPHABET", "ab")
    monkeypatch.setattr(decode, "BLANK", 2)
    scores = np.random.default_rng(seed).standard_normal((6, 3))
    probabilities = np.exp(decode.log_probabilities(scores))
    totals: dict[str, float] = {}
    for path in itertools.product(range(3), repeat=6):
        text = "".join("ab"[k] for k, _ in itertools.groupby(path) if k != 2)
        totals[text] = totals.get(text, 0) + np.prod(probabilities[range(6), path])
    assert sum(totals.values()) == pytest.approx(1)
    assert decode.beam_search(scores, width=100) == max(totals, key=totals.get)


# Network


def network(config, seed=0) -> DeepSpeech2:
    mx.random.seed(seed)
    net = DeepSpeech2(config, data.BLANK + 1)
    net.initialize(mx.init.Xavier())
    return net


def sounds() -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    rng = np.random.default_rng(2)
    return mx.nd.array(rng.standard_normal((3, 32, audio.BANDS))), mx.nd.array([32, 19, 8])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("preset", ["tiny", "small"])
def test_padding_does_not_matter(preset, training):
    net = network(dataclasses.replace(PRESETS[preset], hidden=24))
    features, frames = sounds()
    longer = np.full((3, 64, audio.BANDS), np.nan, "float32")
    for n, count in enumerate(frames.asnumpy().astype(int)):
        longer[n, :count] = features[n, :count].asnumpy()
    with mx.autograd.record(train_mode=training):
        (short, steps), (long, again) = (
            net(mx.nd.array(values), frames) for values in (np.nan_to_num(longer), longer)
        )
    assert steps.asnumpy().tolist() == [net.config.steps(count) for count in (32, 19, 8)]
    assert again.asnumpy().tolist() == steps.asnumpy().tolist()
    for n, count in enumerate(steps.asnumpy().astype(int)):
        expected = short[:count, n].asnumpy()
        np.testing.assert_allclose(long[:count, n].asnumpy(), expected, atol=1e-5)
    if not training:
        alone, _ = net(mx.nd.array(longer[1:2, :19]), frames[1:2])
        expected = short[: alone.shape[0], 1].asnumpy()
        np.testing.assert_allclose(alone[:, 0].asnumpy(), expected, atol=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_native_layers_compute_the_same(cell, hybrid):
    """From the same seed, parameters begin alike; so do outputs and gradients."""
    features, frames = sounds()
    results = []
    for native in (False, True):
        net = network(dataclasses.replace(TINY, cell=cell, native=native))
        if hybrid:
            net.hybridize()
        with mx.autograd.record():
            y, steps = net(features, frames)
            masked = mx.nd.SequenceMask(y, steps, use_sequence_length=True)
        masked.backward()
        first = net.convolutions[0].convolution.weight
        results.append((masked.asnumpy(), first.grad().asnumpy()))
    for ours, native in zip(*results):
        np.testing.assert_allclose(ours, native, rtol=1e-3, atol=1e-4)


def test_ds2_has_the_sizes_of_the_benchmark():
    config = PRESETS["ds2"]
    assert (config.cell, config.layers, config.hidden) == ("gru", 5, 800)
    assert config.bands() == [81, 41] and config.steps(600) == 300
    with pytest.raises(ValueError, match="cell: expected one of .* found 'gnu'"):
        dataclasses.replace(config, cell="gnu")


# Training


def training(cache: Path, output: Path, *options: object) -> list[str]:
    """Six steps an epoch."""
    size = ("--utterances", *SIZE)
    common = ("--preset", "tiny", "--cache", cache, *size, "--batch", 4, "--output", output)
    return program("train", *common, *options)


def parameters(path: Path) -> dict[str, np.ndarray]:
    net = checkpoint.load_network(path)
    return {name: p.data().asnumpy() for name, p in net._collect_params_with_prefix().items()}


def assert_equal_runs(first: Path, second: Path, tolerance: float) -> None:
    ours, others = parameters(first), parameters(second)
    assert ours.keys() == others.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, others[name], atol=tolerance, err_msg=name)


def wait_for(found, process: subprocess.Popen) -> None:
    while not found():
        assert process.poll() is None, "the process ended by itself"
        time.sleep(0.01)


def start(arguments: list[str]) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(**ENVIRONMENT),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_killed_run_goes_on_as_if_nothing_had_happened(cache, tmp_path):
    options = ("--epochs", 4, "--save-every", 1, "--dropout", 0.2)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = execute(training(cache, whole, *options))
    assert done.returncode == 0, done.stdout
    process = start(training(cache, broken, *options))
    wait_for((broken / "last.zip").exists, process)
    process.kill()
    process.communicate()
    step = checkpoint.read_state(broken / "last.zip")[1]["step"]
    assert 0 < step < 24
    done = execute(training(cache, broken, *options))
    assert done.returncode == 0 and f"step {step}" in done.stdout, done.stdout
    assert_equal_runs(whole / "last.zip", broken / "last.zip", 1e-6)
    logs = [checkpoint.read_state(run / "last.zip")[1]["log"] for run in (whole, broken)]
    assert [row["step"] for row in logs[1]] == [6, 12, 18, 24]
    np.testing.assert_allclose(*[[row["train_loss"] for row in log] for log in logs], rtol=1e-5)
    assert logs[0][-1]["train_loss"] < logs[0][0]["train_loss"]
    lines = (broken / "log.csv").read_text().splitlines()
    assert lines[0].startswith("epoch,step,seconds") and len(lines) == 5
    assert (broken / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_transcribing(cache, spoken, tmp_path):
    done = execute(training(cache, tmp_path, "--epochs", 1))
    assert done.returncode == 0, done.stdout
    good = next((spoken / "test").rglob("*.wav"))
    short = write(tmp_path / "short.wav", tone(440, audio.RATE, 0.01))
    files = (tmp_path / "missing.wav", short, good)
    command = ("transcribe", "--checkpoint", tmp_path / "best.zip", *files)
    done = execute(program(*command))
    assert done.returncode == 1
    assert "missing.wav: no such file" in done.stdout
    assert "short.wav: expected at least 320 samples, found 160" in done.stdout
    assert f"{good}: " in done.stdout
    done = execute(program(*command, "--on-error", "stop", "--beam", 0))
    assert done.returncode == 1 and str(good) not in done.stdout
    done = execute(program("transcribe", "--checkpoint", short, good))
    assert done.returncode == 1 and "short.wav: not a checkpoint" in done.stdout


def test_another_configuration_does_not_resume(cache, tmp_path):
    done = execute(training(cache, tmp_path, "--epochs", 1))
    assert done.returncode == 0, done.stdout
    done = execute(training(cache, tmp_path, "--epochs", 2, "--hidden", 16))
    assert done.returncode == 1
    assert "last.zip: hidden is 32 there, the command line says 16" in done.stdout


# Several processes


def launched(command: list[str], *options: object) -> list[str]:
    """The same training by launch.py."""
    return program("launch", *options, "--", *command[2:])


def test_two_workers_learn_as_one_with_the_joint_batch(cache, tmp_path):
    """Without batch normalisation, whose statistics are each worker's own."""
    options = ("--epochs", 2, "--no-norm", "--optimizer", "nag", "--rate", 0.1)
    one, two = (training(cache, tmp_path / name, *options) for name in ("one", "two"))
    for command in (one, launched(two)):
        done = execute(command)
        assert done.returncode == 0, done.stdout
    assert_equal_runs(tmp_path / "one" / "last.zip", tmp_path / "two" / "last.zip", 1e-5)
    state = checkpoint.read_state(tmp_path / "two" / "last.zip")[1]
    losses = [row["train_loss"] for row in state["log"]]
    assert state["step"] == 12 and losses[1] < 0.9 * losses[0]


def workers_of(process: subprocess.Popen) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"DMLC_ROLE=worker" in Path(f"/proc/{child}/environ").read_bytes()
    ]


def test_a_killed_worker_ends_the_job_which_resumes(cache, tmp_path):
    options = ("--epochs", 50, "--save-every", 1, "--compress", 0.5)
    process = start(launched(training(cache, tmp_path, *options)))
    wait_for((tmp_path / "last.zip").exists, process)
    killed = workers_of(process)[1]
    os.kill(killed, signal.SIGKILL)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert f"worker 1 (process {killed}) has ended by signal 9; the job is stopped" in output
    step = checkpoint.read_state(tmp_path / "last.zip")[1]["step"]
    epochs = step // 6 + 1
    done = execute(launched(training(cache, tmp_path, "--epochs", epochs)))
    assert done.returncode == 0 and f"step {step}" in done.stdout, done.stdout
    assert checkpoint.read_state(tmp_path / "last.zip")[1]["step"] == 6 * epochs


def test_a_worker_that_waits_in_vain_says_so():
    code = """
import time
from pathlib import Path
from examples.deepspeech2.train import Watchdog
Watchdog(0.5, Path("run/last.zip"))
time.sleep(60)
"""
    done = execute(["-c", code])
    assert done.returncode == 1
    assert "No step has ended" in done.stdout and "resumes from run/last.zip" in done.stdout


def test_commands_for_several_machines():
    options = ("--workers", 2, "--root", "10.0.0.1:9100", "--print", "--", "--output", "a b")
    done = execute(program("launch", *options))
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [line.split("DMLC_ROLE=")[1].split()[0] for line in lines] == [
        "scheduler",
        "server",
        "worker",
        "worker",
    ]
    assert all("DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9100" in line for line in lines)
    assert lines[-1].endswith("-m examples.deepspeech2.train --output 'a b'")


# Benchmark


def test_the_benchmark_of_the_model(tmp_path):
    options = (
        "--preset",
        "tiny",
        "--T",
        9,
        "--N",
        2,
        "--rounds",
        1,
        "--threads",
        1,
        "--output",
        tmp_path,
    )
    done = execute(program("bench", *options))
    assert done.returncode == 0, done.stdout
    assert "| gru, ours |" in done.stdout and "| gru, mx.gluon.rnn |" in done.stdout
    assert (tmp_path / "tiny_model_T9_N2.json").exists()
