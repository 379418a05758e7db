"""From the scores of the network to text."""

from __future__ import annotations

import numpy as np

from examples.deepspeech2.data import ALPHABET, BLANK


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """The logarithm of the softmax over the last axis, in double precision."""
    shifted = scores.astype("float64") - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def greedy(scores: np.ndarray) -> str:
    """The text of the most probable path through [T, characters + 1]."""
    best = scores.argmax(axis=1)
    changes = np.append(True, best[1:] != best[:-1])
    return "".join(ALPHABET[k] for k in best[changes & (best != BLANK)])


def beam_search(scores: np.ndarray, width: int = 16) -> str:
    """The most probable text: the sum over all paths that spell it (Hannun et al. 2014), searched
    among the `width` best beginnings at each step.
    """
    # The logarithms of the probabilities that the paths so far spell a text and end in a blank,
    # or in its last character.
    beams = {"": (0.0, -np.inf)}
    for step in log_probabilities(scores):
        grown: dict[str, tuple[float, float]] = {}

        def add(text: str, blank: float, character: float, grown: dict = grown) -> None:
            old = grown.get(text, (-np.inf, -np.inf))
            grown[text] = (np.logaddexp(old[0], blank), np.logaddexp(old[1], character))

        likely = [k for k in np.argsort(step)[-width:] if k != BLANK]
        for text, (blank, character) in beams.items():
            either = np.logaddexp(blank, character)
            repeated = character + step[ALPHABET.index(text[-1])] if text else -np.inf
            add(text, either + step[BLANK], repeated)
            for k in likely:
                # The same character again is a new one only after a blank.
                before = blank if text.endswith(ALPHABET[k]) else either
                add(text + ALPHABET[k], -np.inf, before + step[k])
        best = sorted(grown, key=lambda text: -np.logaddexp(*grown[text]))[:width]
        beams = {text: grown[text] for text in best}
    return max(beams, key=lambda text: np.logaddexp(*beams[text]))
