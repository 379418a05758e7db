"""The speech synthesiser espeak-ng, through the library and voices in `espeakng-loader`."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, NamedTuple

import espeakng_loader
import numpy as np

from examples.deepspeech2.audio import resample

_SYNCHRONOUS = 2  # audio goes to the callback, and synthesis returns after it
_UTF8 = 1
_SPEED, _VOLUME, _PITCH, _RANGE = 1, 2, 3, 4  # numbers of parameters
_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


class Voice(NamedTuple):
    """An accent (a language of espeak-ng) and a speaker (one of its variants)."""

    accent: str
    speaker: str

    def __str__(self) -> str:
        return f"{self.accent}+{self.speaker}"


class Synthesizer:
    """Only one can be used in a process: the library has one state.

    Its random numbers (some voices breathe) depend on the seed and on all that the process has said
    before.
    """

    def __init__(self, seed: int) -> None:
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        self._data = Path(espeakng_loader.get_data_path())
        self._rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, str(self._data).encode(), 0)
        if self._rate <= 0:
            raise RuntimeError(f"espeak-ng did not start with the data in {self._data}")
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(seed))  # else it is the time
        self._chunks: list[np.ndarray] = []
        self._callback = _Callback(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)
        self._voice: Voice | None = None

    def _receive(self, samples: Any, count: int, _: Any) -> int:
        if count > 0:
            self._chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def say(
        self, text: str, voice: Voice, *, speed: int = 175, pitch: int = 50, expression: int = 50
    ) -> np.ndarray:
        """The sound as float32 in [-1, 1]; speed in words a minute, the others 0 to 99."""
        if voice != self._voice:
            known = (self._data / "voices" / "!v" / voice.speaker).exists()  # not checked by espeak
            if not known or self._library.espeak_SetVoiceByName(str(voice).encode()):
                raise ValueError(f"voice: espeak-ng has no '{voice}'")
            self._voice = voice
        for number, value in ((_SPEED, speed), (_PITCH, pitch), (_RANGE, expression)):
            self._library.espeak_SetParameter(number, value, 0)
        self._chunks.clear()
        encoded = text.encode() + b"\0"
        status = self._library.espeak_Synth(
            encoded, ctypes.c_size_t(len(encoded)), 0, 0, 0, _UTF8, None, None
        )
        if status or not self._chunks:
            raise RuntimeError(f"espeak-ng did not say {text!r} (status {status})")
        return resample(np.concatenate(self._chunks).astype("float32") / 32768, self._rate)
