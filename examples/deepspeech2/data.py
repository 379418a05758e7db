"""Utterances from folders in LibriSpeech's layout, and batches of them."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterable, Iterator, NamedTuple

import numpy as np
from tqdm import tqdm

from examples.deepspeech2 import audio
from examples.deepspeech2.model import Config
from examples.inputs import InputError, read_lines

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
        self._reasons: set[str] = set()

    def __call__(self, error: InputError) -> None:
        if self._stop:
            raise error
        if f"{error}" not in self._reasons:  # each epoch meets the same files
            self._reasons.add(f"{error}")
            tqdm.write(f"left out: {error}")

    @property
    def skipped(self) -> int:
        """How many files or lines have been left out."""
        return len(self._reasons)


def encode(text: str) -> np.ndarray:
    """The numbers of a text's characters."""
    return np.array([ALPHABET.index(character) for character in text], "float32")


def utterance(path: Path, text: str, config: Config) -> Utterance:
    """An utterance, after a check that it can be used."""
    text = " ".join(text.lower().split())
    if not text:
        raise InputError(f"{path}: the transcript is empty")
    unknown = sorted(set(text) - set(ALPHABET))
    if unknown:
        raise InputError(f"{path}: the transcript has {unknown}, expected letters, ' and spaces")
    flac = path.with_suffix(".flac")
    if os.path.isfile(flac) and not os.path.exists(path):
        raise InputError(f"{path}: no such file; convert {flac.name} to wav")
    frames = audio.frame_count(audio.wav_seconds(path), config.hop)
    # CTC needs a step for each character and one between equal ones.
    needed = len(text) + sum(a == b for a, b in zip(text, text[1:]))
    if config.steps(frames) < needed:
        raise InputError(
            f"{path}: too short for its transcript: expected at least {needed} steps, "
            f"found {config.steps(frames)}"
        )
    return Utterance(path, text, frames)


def scan(folder: Path, config: Config, on_error: OnError) -> list[Utterance]:
    """What the manifests *.trans.txt below the folder list: lines of a wav's name and its text."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    manifests = sorted(folder.rglob("*.trans.txt"))
    if not manifests:
        raise InputError(f"{folder}: no *.trans.txt in this folder or below")
    found = []
    for manifest in manifests:
        try:
            lines = read_lines(manifest, on_error)
        except InputError as error:
            on_error(error)
            continue
        for line in lines:
            name, *text = line.split(maxsplit=1) or [""]
            if name:
                try:
                    found.append(utterance(manifest.parent / f"{name}.wav", " ".join(text), config))
                except InputError as error:
                    on_error(error)
    if not found:
        raise InputError(f"{folder}: none of the utterances can be used")
    return found


def fingerprint(utterances: list[Utterance]) -> str:
    """Tells collections of utterances apart, wherever their folders are."""
    listed = "\n".join(f"{u.path.name} {u.frames} {u.text}" for u in utterances)
    return f"{len(utterances)} utterances, {hashlib.sha256(listed.encode()).hexdigest()[:8]}"


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


def load(utterances: Iterable[Utterance], config: Config, on_error: OnError) -> Batch | None:
    """Reads the files and pads the spectrograms to a common length, a multiple of BUCKET.

    None if no file can be read.
    """
    features, texts = [], []
    for item in utterances:
        try:
            features.append(audio.spectrogram(audio.read_wav(item.path), config.hop))
            texts.append(item.text)
        except InputError as error:
            on_error(error)
    if not texts:
        return None
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
    batches: Iterable[list[Utterance]], loader: Callable[[list[Utterance]], Batch | None]
) -> Iterator[Batch | None]:
    """Loads each batch while the one before it is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = None
        for batch in batches:
            ready, coming = coming, pool.submit(loader, batch)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()
