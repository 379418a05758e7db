"""A corpus of spoken commands, synthesised once into a cache folder.

    python -m examples.deepspeech2.corpus

The folders train, valid and test have LibriSpeech's layout; no speaker is in two of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from examples.deepspeech2.audio import RATE, write_wav
from examples.inputs import SEED, InputError, named_errors, whole, writable

ACCENTS = ("en-us", "en", "en-gb-x-rp", "en-gb-scotland")
# The variants of espeak-ng without robots, whispers and the like.
SPEAKERS = """Alex Alicia Andrea Andy Annie AnxiousAndy Denis Diogo Gene Gene2 Henrique Hugo Jacky
Lee Marco Mario Michael Mike Nguyen Reed Storm adam anika announcer antonio aunty belinda benjamin
boris caleb david ed edward edward2 f1 f2 f3 f4 f5 grandma grandpa gustave ian iven iven2 iven3
iven4 john kaukovalta linda m1 m2 m3 m4 m5 m6 m7 m8 marcelo max michel miguel mike2 norbert pablo
paul pedro quincy rob robert sandro shelby steph steph2 steph3 travis victor zac"""
ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS = """apple bread chair doctor engine forest garden house island jacket kitchen lemon mirror
needle orange paper queen river school table uncle valley window yellow zebra"""
PLACES = "kitchen bedroom garden hall office bathroom garage"
THINGS = "light heater radio fan camera alarm door"
NAMES = ("anna", "peter", "maria", "john", "sophie", "david", "my mother", "the doctor")
DAYS = "monday tuesday wednesday thursday friday saturday sunday"


COUNT = whole(1, 10**6)  # utterances, at the command line


class Size(NamedTuple):
    """Utterances of each part."""

    train: int = 6000
    valid: int = 300
    test: int = 400


def number(value: int) -> str:
    """0 to 999 in words."""
    if value < 20:
        return ONES.split()[value]
    if value < 100:
        return TENS.split()[value // 10 - 2] + (f" {number(value % 10)}" if value % 10 else "")
    rest = f" and {number(value % 100)}" if value % 100 else ""
    return f"{number(value // 100)} hundred{rest}"


def sentence(rng: np.random.Generator) -> str:
    """A command, a number or a spelled word, in lower case."""

    def one(items: str | tuple[str, ...]) -> str:
        return str(rng.choice(items.split() if isinstance(items, str) else items))

    def count(limit: int) -> str:
        return number(int(rng.integers(limit)))

    commands = (
        lambda: f"turn {one('on off')} the {one(PLACES)} {one(THINGS)}",
        lambda: f"set the {one(PLACES)} {one(THINGS)} to {count(100)}",
        lambda: f"{one(('call', 'write to', 'remind'))} {one(NAMES)} on {one(DAYS)}",
        lambda: f"set {one(('a timer', 'an alarm'))} for {count(60)} minutes",
        lambda: f"what's the weather like on {one(DAYS)}",
        lambda: f"play number {count(100)}",
        lambda: f"{one('open close lock')} the {one(PLACES)} door",
        lambda: f"buy {count(20)} {one(WORDS)}s",
        lambda: f"where is the {one(WORDS)}",
    )
    kind = rng.random()
    if kind < 0.2:
        return count(1000)
    if kind < 0.4:
        return " ".join(one(WORDS))
    return commands[rng.integers(len(commands))]()


def spoken(text: str) -> str:
    """The text as espeak-ng shall read it: single letters by their names."""
    return " ".join(word.upper() if len(word) == 1 else word for word in text.split())


def recorded(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sound as a microphone may give it: pauses around it, loudness, coloured noise."""
    pauses = rng.integers(RATE // 20, RATE // 4, 2)
    sound = np.pad(sound, pauses)
    size = 1 << len(sound).bit_length()
    shape = np.fft.rfftfreq(size, 1 / 8) + 0.01  # 0 to 4
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(size)) * shape ** -rng.uniform(0, 1))
    noise = noise[: len(sound)] / noise.std()
    decibels = rng.uniform(10, 35)
    sound = sound + noise * sound.std() * 10 ** (-decibels / 20)
    return sound / np.abs(sound).max() * rng.uniform(0.1, 0.9)


def split_speakers(seed: int) -> dict[str, list[str]]:
    """A tenth of them for each of valid and test."""
    order = [str(name) for name in np.random.default_rng(seed).permutation(SPEAKERS.split())]
    some = len(order) // 10
    return {"valid": order[:some], "test": order[some : 2 * some], "train": order[2 * some :]}


def synthesise(folder: Path, size: Size, seed: int) -> None:
    """Writes the corpus. Reproducible in a new process only: see `Synthesizer`."""
    from examples.deepspeech2.espeak import Synthesizer, Voice

    synthesizer = Synthesizer(seed)
    speakers = split_speakers(seed)
    with tqdm(total=sum(size), desc="synthesising", unit="utterance") as progress:
        for k, (part, count) in enumerate(size._asdict().items()):
            rng = np.random.default_rng([seed, k])
            transcripts: dict[str, list[str]] = {}
            for n in range(count):
                voice = Voice(str(rng.choice(ACCENTS)), str(rng.choice(speakers[part])))
                text = sentence(rng)
                sound = synthesizer.say(
                    spoken(text),
                    voice,
                    speed=int(rng.integers(130, 200)),
                    pitch=int(rng.integers(30, 71)),
                    expression=int(rng.integers(30, 71)),
                )
                chapter = folder / part / voice.speaker / voice.accent
                chapter.mkdir(parents=True, exist_ok=True)
                name = f"{voice.speaker}-{voice.accent}-{n:05}"
                write_wav(chapter / f"{name}.wav", recorded(sound, rng))
                manifest = chapter / f"{voice.speaker}-{voice.accent}.trans.txt"
                transcripts.setdefault(str(manifest), []).append(f"{name} {text.upper()}\n")
                progress.update()
            for manifest, lines in transcripts.items():
                Path(manifest).write_text("".join(lines))


def folder_of(cache: Path, size: Size, seed: int) -> Path:
    """Where the corpus is or will be."""
    return cache / ("commands-" + "-".join(map(str, (*size, seed))))


def cached(cache: Path, size: Size, seed: int) -> Path:
    """The folder of the corpus, made if it is not there."""
    folder = folder_of(cache, size, seed)
    if not folder.exists():
        options = [f"--{name}={value}" for name, value in size._asdict().items()]
        writable(cache)
        command = [sys.executable, "-m", "examples.deepspeech2.corpus", f"--cache={cache}"]
        if subprocess.run([*command, *options, f"--seed={seed}"]).returncode:
            raise InputError(f"{folder}: the corpus could not be made")
    return folder


def default_cache() -> Path:
    """Where the user's caches are."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fused_rnn"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which corpus."""
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the corpus")
    for name, value in Size()._asdict().items():
        parser.add_argument(f"--{name}", type=COUNT, default=value, help=f"utterances ({value})")
    parser.add_argument("--seed", type=whole(0, SEED), default=0, help="(0)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    args = parser.parse_args()
    size = Size(args.train, args.valid, args.test)
    folder = folder_of(args.cache, size, args.seed)
    unfinished = folder.with_name(f".{folder.name}-{os.getpid()}")
    with named_errors():
        writable(args.cache)
        try:
            synthesise(unfinished, size, args.seed)
            with contextlib.suppress(OSError):  # not empty: another process was faster
                unfinished.replace(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    print(folder)


if __name__ == "__main__":
    main()
