"""Wav files and spectrograms, in NumPy."""

from __future__ import annotations

import math
import os
import wave
from pathlib import Path

import numpy as np

RATE = 16000
WINDOW = 320  # 20 ms, hence 161 bands
BANDS = WINDOW // 2 + 1


class SpeechError(Exception):
    """Something is wrong with a file or a transcript; the message names it."""


def wav_seconds(path: Path) -> float:
    """The duration, from header and file size, after a check that `read_wav` can read the file."""
    with _open(path) as file:
        size = file.getnframes() * file.getnchannels() * file.getsampwidth()
        found = os.path.getsize(path)
        if found < size:
            raise SpeechError(f"{path}: expected {size} bytes of sound, the file has {found}")
        return file.getnframes() / file.getframerate()


def read_wav(path: Path) -> np.ndarray:
    """The sound as float32 in [-1, 1] at RATE; channels are averaged."""
    with _open(path) as file:
        frames = file.readframes(file.getnframes())
        samples = np.frombuffer(frames, "<i2").reshape(-1, file.getnchannels())
        return resample(samples.mean(axis=1, dtype="float32") / 32768, file.getframerate())


def write_wav(path: Path, samples: np.ndarray) -> None:
    """16-bit samples at RATE; what exceeds [-1, 1] is clipped."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def resample(samples: np.ndarray, rate: int) -> np.ndarray:
    """The same sound at RATE; frequencies that RATE cannot represent are removed."""
    if rate == RATE:
        return samples
    # Silence into which the filter may ring, up to a length that is a whole number at both rates
    # and, with few prime factors, quick to transform.
    unit = rate // math.gcd(rate, RATE)
    padded = unit << math.ceil(math.log2((len(samples) + rate // 10) / unit))
    size = padded * RATE // rate
    spectrum = np.fft.rfft(samples, padded)[: size // 2 + 1]
    sound = np.fft.irfft(spectrum, size)[: round(len(samples) * RATE / rate)]
    return (sound * (size / padded)).astype("float32")


def frame_count(seconds: float, hop: int) -> int:
    """The frames of a spectrogram of so many seconds."""
    return max(0, (round(seconds * RATE) - WINDOW) // hop + 1)


def spectrogram(samples: np.ndarray, hop: int) -> np.ndarray:
    """Logarithms of the power of BANDS frequencies every `hop` samples: [frames, BANDS].

    Each band has mean 0, so that neither loudness nor a microphone's response matters, and all
    together variance 1.
    """
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW).astype("float32"))) ** 2
    features = np.log(power + 1e-6)
    features -= features.mean(axis=0)
    return (features / (features.std() + 1e-6)).astype("float32")


def _open(path: Path) -> wave.Wave_read:
    try:
        file = wave.open(str(path), "rb")  # noqa: SIM115  the caller closes it
    except FileNotFoundError:
        raise SpeechError(f"{path}: no such file") from None
    except (OSError, EOFError, wave.Error) as error:
        raise SpeechError(f"{path}: not a wav file that can be read: {error}") from None
    if file.getsampwidth() != 2 or file.getframerate() == 0:
        bits = 8 * file.getsampwidth()
        file.close()
        raise SpeechError(f"{path}: expected 16-bit samples, found {bits}-bit ones")
    return file
