"""A real English text that is at hand wherever Python is: the language reference in `pydoc`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
from inputs import read_lines


def read(path: Path | None = None) -> str:
    """The text of a file, or that of Python's help topics."""
    if path is not None:
        return "\n".join(read_lines(path))
    from pydoc_data.topics import topics

    return "\n\n".join(sorted(set(topics.values())))


def sentences(text: str) -> list[list[str]]:
    """Words and punctuation marks, in lower case, sentence by sentence."""
    parts = re.split(r"(?<=[.!?:])\s+|\n\s*\n", text.lower())
    found = (re.findall(r"[a-z_]+(?:'[a-z]+)?|\d+|[^\w\s]", part) for part in parts)
    return [words for words in found if len(words) > 1]


class Vocabulary:
    """The most frequent words and their numbers; all others are <unk>."""

    def __init__(self, words: list[str], size: int) -> None:
        common = [word for word, _ in Counter(words).most_common(size - 2)]
        self.words = ["<unk>", "<eos>", *common]
        self._numbers = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: list[str]) -> np.ndarray:
        return np.array([self._numbers.get(word, 0) for word in words], dtype="float32")
