"""Wav files and spectrograms, in NumPy."""

from __future__ import annotations

import math
import os
import struct
import wave
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from examples.inputs import InputError

RATE = 16000
RATES = (4000, 384000)  # of files: less is no speech, more no sound
WINDOW = 320  # 20 ms, hence 161 bands
BANDS = WINDOW // 2 + 1

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_KINDS = {_PCM: "PCM", 2: "ADPCM", _FLOAT: "float", 6: "A-law", 7: "mu-law", 17: "IMA ADPCM"}
_KINDS[85] = "MP3"


class _Samples(NamedTuple):
    """How a number in a file becomes one in [-1, 1]: (number - zero) / scale."""

    dtype: str
    zero: int
    scale: int


_SAMPLES = {
    (_PCM, 8): _Samples("u1", 128, 1 << 7),
    (_PCM, 16): _Samples("<i2", 0, 1 << 15),
    (_PCM, 24): _Samples("<i4", 0, 1 << 31),  # widened below
    (_PCM, 32): _Samples("<i4", 0, 1 << 31),
    (_FLOAT, 32): _Samples("<f4", 0, 1),
    (_FLOAT, 64): _Samples("<f8", 0, 1),
}


class _Header(NamedTuple):
    """What a wav file says of its sound, which follows."""

    kind: int
    bits: int
    channels: int
    rate: int
    bytes: int

    @property
    def frames(self) -> int:
        return self.bytes // (self.channels * self.bits // 8)


def wav_seconds(path: Path) -> float:
    """The duration, from the header, after a check that `read_wav` can read the file."""
    header, _ = _read(path, sound=False)
    return header.frames / header.rate


def read_wav(path: Path) -> np.ndarray:
    """The sound as float32 at RATE, in [-1, 1] but for floats beyond; channels are averaged."""
    header, content = _read(path)
    samples = _SAMPLES[header.kind, header.bits]
    if header.bits == 24:
        wide = np.zeros((len(content) // 3, 4), "u1")
        wide[:, 1:] = np.frombuffer(content, "u1").reshape(-1, 3)
        content = wide.tobytes()
    numbers = np.frombuffer(content, samples.dtype).reshape(-1, header.channels)
    with np.errstate(over="ignore", invalid="ignore"):
        sound = (numbers.mean(axis=1, dtype="float32") - samples.zero) / samples.scale
    if not np.isfinite(sound).all():
        raise InputError(f"{path}: expected finite samples, found NaN, infinite or huge ones")
    return resample(sound, header.rate)


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
    padded = unit << max(0, math.ceil(math.log2((len(samples) + rate // 10) / unit)))
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


def _read(path: Path, sound: bool = True) -> tuple[_Header, bytes]:
    """Header and, if wanted, sound of a file that can be used."""
    try:
        with open(path, "rb") as file:
            header = _header(file)
            return header, file.read(header.bytes) if sound else b""
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: expected a wav file: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _header(file: BinaryIO) -> _Header:
    """The header, after a check that all is there; the file then stands at the sound."""
    start = file.read(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise ValueError(f"not a wav file: expected RIFF and WAVE at its beginning, found {start}")
    form = b""
    while True:
        name, size = _chunk(file)
        if name == b"data":
            break
        end = file.tell() + size + size % 2
        if name == b"fmt ":
            form = file.read(min(size, 40))
        file.seek(end)
    if len(form) < 16:
        raise ValueError("not a wav file that can be read: nothing says what the samples are")
    kind, channels, rate, _, width, bits = struct.unpack("<HHIIHH", form[:16])
    if kind == _EXTENSIBLE and len(form) == 40:
        kind = int.from_bytes(form[24:26], "little")
    header = _Header(kind, bits, channels, rate, size)
    _check(header, width, os.fstat(file.fileno()).st_size - file.tell())
    return header


def _chunk(file: BinaryIO) -> tuple[bytes, int]:
    start = file.read(8)
    if len(start) < 8:
        raise ValueError("not a wav file that can be read: it ends before its sound")
    return start[:4], int.from_bytes(start[4:], "little")


def _check(header: _Header, width: int, found: int) -> None:
    """Refuses what `read_wav` cannot read. `width` is that of a frame, `found` the bytes there."""
    if (header.kind, header.bits) not in _SAMPLES:
        kind = _KINDS.get(header.kind, f"format {header.kind}")
        raise ValueError(
            "expected samples of PCM with 8, 16, 24 or 32 bits or floats of 32 or 64, "
            f"found {header.bits}-bit {kind}"
        )
    if not RATES[0] <= header.rate <= RATES[1]:
        raise ValueError(
            f"expected a rate from {RATES[0]} to {RATES[1]} Hz, found {header.rate} Hz"
        )
    if header.channels == 0 or width != header.channels * header.bits // 8:
        raise ValueError(
            f"expected frames of {header.channels} channels of {header.bits} bits, "
            f"found frames of {width} bytes"
        )
    if found < header.bytes:
        raise ValueError(f"expected {header.bytes} bytes of sound, the file has {found}")
    if header.bytes % width:
        raise ValueError(f"expected whole frames of {width} bytes, found {header.bytes} bytes")
    samples = round(header.frames * RATE / header.rate)
    if samples < WINDOW:
        raise ValueError(f"expected at least {WINDOW} samples, found {samples} at {RATE} Hz")
