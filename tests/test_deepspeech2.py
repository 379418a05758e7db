"""The Deep Speech 2 example: sound, data, decoding, network."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from speech import SIZE, bad_wav, spoken, synthesise, tone, write

from examples.deepspeech2 import audio, corpus, data, decode
from examples.deepspeech2.model import CELLS, PRESETS, DeepSpeech2
from examples.inputs import InputError

TINY = PRESETS["tiny"]
SKIP, STOP = data.OnError(stop=False), data.OnError(stop=True)


# Sound


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


BAD = {
    "missing": "no such file",
    "text": "not a wav file",
    "empty": "not a wav file",
    "bits": "found 64-bit PCM",
    "truncated": "expected 16000 bytes of sound, the file has 4956",
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_wav_files_are_named(kind, tmp_path):
    path = bad_wav(kind, tmp_path)
    with pytest.raises(InputError, match=f"{path}.*{BAD[kind]}"):
        audio.wav_seconds(path)


# Data


def test_the_corpus_is_reproducible_and_split_by_speaker(tmp_path):
    once, again = spoken(), synthesise(tmp_path)
    files = sorted(path.relative_to(once) for path in once.rglob("*.*"))
    assert sum(path.suffix == ".wav" for path in files) == sum(SIZE)
    for path in files:
        assert (again / path).read_bytes() == (once / path).read_bytes()
    speakers = [{path.name for path in (once / part).iterdir()} for part in SIZE._fields]
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
    with pytest.raises(InputError, match="silent.wav: the transcript is empty"):
        data.scan(mixed, TINY, STOP)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"empty: no \*.trans.txt"):
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


def test_a_loaded_batch():
    utterances = data.scan(spoken() / "train", TINY, STOP)[:3]
    batch = data.load(utterances, TINY, STOP)
    assert batch.features.shape[1] % data.BUCKET == 0
    for n, item in enumerate(utterances):
        assert batch.frames[n] == item.frames and not batch.features[n, item.frames :].any()
        letters = batch.labels[n, : int(batch.characters[n])].astype(int)
        assert "".join(data.ALPHABET[k] for k in letters) == item.text
    missing = utterances[0]._replace(path=Path("missing.wav"))
    assert data.load([missing, utterances[1]], TINY, SKIP).texts == [utterances[1].text]
    with pytest.raises(InputError, match=r"missing.wav: no such file"):
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
