"""Utterances from folders in LibriSpeech's layout, and batches of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterable, Iterator, NamedTuple

import numpy as np
from tqdm import tqdm

from examples.deepspeech2 import audio
from examples.deepspeech2.audio import SpeechError
from examples.deepspeech2.model import Config

ALPHABET = " 'abcdefghijklmnopqrstuvwxyz"
BLANK = len(ALPHABET)  # where gluon.loss.CTCLoss has it
BUCKET = 32  # frames; the lengths of batches are multiples of it


class Utterance(NamedTuple):
    """A wav file and what is said in it."""

    path: Path
    text: str
    frames: int


class Batch(NamedTuple):
    """Utterances padded to one length, and their transcripts as numbers."""

    features: np.ndarray  # [N, T, bands]
    frames: np.ndarray  # [N]
    labels: np.ndarray  # [N, characters]
    characters: np.ndarray  # [N]
    texts: list[str]


class OnError:
    """What to do about a file that cannot be used: go on without it, or stop."""

    def __init__(self, stop: bool) -> None:
        self._stop = stop
        self.skipped = 0

    def __call__(self, error: SpeechError) -> None:
        if self._stop:
            raise error
        self.skipped += 1
        tqdm.write(f"left out: {error}")


def encode(text: str) -> np.ndarray:
    """The numbers of a text's characters."""
    return np.array([ALPHABET.index(character) for character in text], "float32")


def utterance(path: Path, text: str, config: Config) -> Utterance:
    """An utterance, after a check that it can be used."""
    text = " ".join(text.lower().split())
    if not text:
        raise SpeechError(f"{path}: the transcript is empty")
    unknown = sorted(set(text) - set(ALPHABET))
    if unknown:
        raise SpeechError(f"{path}: the transcript has {unknown}, expected letters, ' and spaces")
    if not path.exists() and path.with_suffix(".flac").exists():
        raise SpeechError(f"{path}: no such file; convert {path.with_suffix('.flac').name} to wav")
    frames = audio.frame_count(audio.wav_seconds(path), config.hop)
    # CTC needs a step for each character and one between equal ones.
    needed = len(text) + sum(a == b for a, b in zip(text, text[1:]))
    if config.steps(frames) < needed:
        raise SpeechError(
            f"{path}: too short for its transcript: expected at least {needed} steps, "
            f"found {config.steps(frames)}"
        )
    return Utterance(path, text, frames)


def scan(folder: Path, config: Config, on_error: OnError) -> list[Utterance]:
    """What the manifests *.trans.txt below the folder list: lines of a wav's name and its text."""
    manifests = sorted(folder.rglob("*.trans.txt"))
    if not manifests:
        raise SpeechError(f"{folder}: no *.trans.txt in this folder or below")
    found = []
    for manifest in manifests:
        for line in manifest.read_text(encoding="utf-8").splitlines():
            name, _, text = line.strip().partition(" ")
            if name:
                try:
                    found.append(utterance(manifest.parent / f"{name}.wav", text, config))
                except SpeechError as error:
                    on_error(error)
    if not found:
        raise SpeechError(f"{folder}: none of the utterances can be used")
    return found


def epoch_batches(
    utterances: list[Utterance], size: int, epoch: int, seed: int, workers: int = 1
) -> list[list[Utterance]]:
    """The batches of an epoch, each of utterances of about the same length.

    The first epoch goes from short to long (SortaGrad); later ones are shuffled. A batch with fewer
    utterances than workers is left out.
    """
    rng = np.random.default_rng([seed, epoch])
    if epoch:
        utterances = [utterances[k] for k in rng.permutation(len(utterances))]
    by_length = sorted(utterances, key=lambda u: u.frames // BUCKET if epoch else u.frames)
    batches = [by_length[k : k + size] for k in range(0, len(by_length), size)]
    batches = [batch for batch in batches if len(batch) >= workers]
    return [batches[k] for k in rng.permutation(len(batches))] if epoch else batches


def load(utterances: Iterable[Utterance], config: Config, on_error: OnError) -> Batch:
    """Reads the files and pads the spectrograms to a common length, a multiple of BUCKET."""
    features, texts = [], []
    for item in utterances:
        try:
            features.append(audio.spectrogram(audio.read_wav(item.path), config.hop))
            texts.append(item.text)
        except SpeechError as error:
            on_error(error)
    if not texts:
        raise SpeechError("none of the files of a batch can be read")
    frames = np.array([len(feature) for feature in features])
    padded = np.zeros((len(texts), -(-frames.max() // BUCKET) * BUCKET, audio.BANDS), "float32")
    for row, feature in zip(padded, features):
        row[: len(feature)] = feature
    characters = np.array([len(text) for text in texts])
    labels = np.full((len(texts), characters.max()), -1, "float32")
    for row, text in zip(labels, texts):
        row[: len(text)] = encode(text)
    return Batch(padded, frames.astype("float32"), labels, characters.astype("float32"), texts)


def prefetched(
    batches: Iterable[list[Utterance]], loader: Callable[[list[Utterance]], Batch]
) -> Iterator[Batch]:
    """Loads each batch while the one before it is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = None
        for batch in batches:
            ready, coming = coming, pool.submit(loader, batch)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()
