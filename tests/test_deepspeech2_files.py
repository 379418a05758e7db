"""The Deep Speech 2 example and files from outside: wav files, manifests, checkpoints."""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from speech import bad_wav, tone, write

from examples.deepspeech2 import audio, checkpoint, data, evaluate, transcribe
from examples.deepspeech2.model import PRESETS, DeepSpeech2
from examples.inputs import InputError

TINY = PRESETS["tiny"]


# Wav files


def riff(
    content: bytes,
    *,
    kind: int = 1,
    bits: int = 16,
    channels: int = 1,
    rate: int = audio.RATE,
    width: int | None = None,
    extensible: bool = False,
    before: bytes = b"",
) -> bytes:
    """A wav file of this sound."""
    width = channels * bits // 8 if width is None else width
    tag = 0xFFFE if extensible else kind
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * width, width, bits)
    if extensible:
        form += struct.pack("<HHIH", 22, bits, 0, kind) + bytes.fromhex(
            "000000001000800000aa00389b71"
        )
    chunks = before + b"fmt " + struct.pack("<I", len(form)) + form
    chunks += b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def packed(sound: np.ndarray, kind: int, bits: int) -> bytes:
    """The sound in a wav file's numbers."""
    if kind == 3:
        return sound.astype(f"<f{bits // 8}").tobytes()
    numbers = np.round(sound * (2 ** (bits - 1) - 1)).astype("int64")
    if bits == 8:
        return (numbers + 128).astype("u1").tobytes()
    return numbers.astype("<i8").view("u1").reshape(-1, 8)[:, : bits // 8].tobytes()


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize(
    "kind, bits", [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)], ids=str
)
def test_kinds_of_samples(kind, bits, extensible, tmp_path):
    """Two channels, of which the second is silent; another chunk of odd length comes first."""
    sound = tone(440, audio.RATE)
    both = np.stack([sound, 0 * sound], axis=1).ravel()
    path = tmp_path / "sound.wav"
    path.write_bytes(
        riff(
            packed(both, kind, bits),
            kind=kind,
            bits=bits,
            channels=2,
            extensible=extensible,
            before=b"LIST\x03\x00\x00\x00abc\x00",
        )
    )
    assert audio.wav_seconds(path) == 0.5
    np.testing.assert_allclose(audio.read_wav(path), sound / 2, atol=2.0 ** (1 - min(bits, 24)))


@pytest.mark.parametrize("seconds", [0.05, 0.5])
@pytest.mark.parametrize("rate", [4000, 11127, 22257, 44099, 96001])
def test_odd_rates(rate, seconds, tmp_path):
    path = write(tmp_path / "tone.wav", tone(440, rate, seconds), rate)
    found, expected = audio.read_wav(path), tone(440, audio.RATE, seconds)
    assert len(found) == round(round(rate * seconds) * audio.RATE / rate)
    inner = slice(300, len(expected) - 300)  # the ends ring
    np.testing.assert_allclose(found[inner], expected[inner], atol=0.02)


def broken_wavs() -> dict[str, tuple[bytes, str]]:
    """Files, and what is to be said of each."""
    sound = packed(tone(440, audio.RATE), 1, 16)
    whole = riff(sound)
    return {
        "cut": (whole[:-1], "expected 16000 bytes of sound, the file has 15999"),
        "header": (whole[:20], "it ends before its sound"),
        "half a frame": (riff(sound[:-1]), "expected whole frames of 2 bytes"),
        "no frames": (riff(b""), "expected at least 320 samples, found 0 at"),
        "1 Hz": (riff(sound, rate=1), "expected a rate from 4000 to 384000 Hz, found 1 Hz"),
        "0 Hz": (riff(sound, rate=0), "found 0 Hz"),
        "4 GHz": (riff(sound, rate=2**32 - 1, width=0), "found 4294967295 Hz"),
        "A-law": (riff(sound, kind=6, bits=8), "found 8-bit A-law"),
        "MP3": (riff(sound, kind=85, bits=0, width=1), "found 0-bit MP3"),
        "unknown": (riff(sound, kind=999), "found 16-bit format 999"),
        "12 bits": (riff(sound, bits=12), "found 12-bit PCM"),
        "no channels": (riff(sound, channels=0), "expected frames of 0 channels"),
        "frames": (riff(sound, channels=2, width=2), "found frames of 2 bytes"),
        "no format": (whole[:12] + whole[36:], "nothing says what the samples are"),
    }


@pytest.mark.parametrize("kind", broken_wavs())
def test_broken_wav_files_are_named_alike(kind, tmp_path, capsys):
    """By the scan before training and evaluation, by the loading of batches, by transcription."""
    content, reason = broken_wavs()[kind]
    path = tmp_path / "broken.wav"
    path.write_bytes(content)
    write(tmp_path / "good.wav", tone(440, audio.RATE))
    (tmp_path / "a.trans.txt").write_text("broken YES\ngood YES\n")
    on_error = data.OnError(stop=False)
    good = data.scan(tmp_path, TINY, on_error)
    bad = data.Utterance(path, "yes", 30)
    assert [u.path.stem for u in good] == ["good"]
    batch = data.load([bad, *good], TINY, on_error)
    assert batch.texts == ["yes"]
    assert on_error.skipped == 1  # one file, however often it is met
    output = capsys.readouterr().out
    assert output.count(f"{path}: ") == 1 and reason in output
    with pytest.raises(InputError, match="broken.wav: ") as caught:
        transcribe.transcribe(None, path)
    assert reason in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_samples_that_are_not_finite(value, tmp_path):
    sound = tone(440, audio.RATE)
    sound[100] = value
    path = tmp_path / "sound.wav"
    path.write_bytes(riff(packed(sound, 3, 64), kind=3, bits=64))
    with pytest.raises(InputError, match=r"sound.wav: expected finite samples"):
        audio.read_wav(path)


def test_any_flipped_byte_of_a_header_is_named_or_harmless(tmp_path):
    whole = riff(packed(tone(440, audio.RATE), 1, 16), channels=2)
    path = tmp_path / "flipped.wav"
    named = 0
    for place in range(44):
        for bit in (0x01, 0x80, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            try:
                assert np.isfinite(audio.read_wav(path)).all()
            except InputError as error:
                assert str(error).startswith(f"{path}: ")  # noqa: PT017  both ends are right
                named += 1
    assert named > 60


def test_a_batch_none_of_whose_files_can_be_read(tmp_path, capsys):
    """It is left out; an evaluation of nothing else says so."""
    gone = [data.Utterance(tmp_path / f"{k}.wav", "yes", 30) for k in range(2)]
    assert data.load(gone, TINY, data.OnError(stop=False)) is None
    with pytest.raises(InputError, match="none of the 2 utterances can be read"):
        evaluate.evaluate(network(), gone, 1, data.OnError(stop=False))
    good = data.Utterance(write(tmp_path / "good.wav", tone(440, audio.RATE)), "yes", 32)
    assert evaluate.evaluate(network(), [*gone, good], 1, data.OnError(stop=False)).utterances == 1


# Manifests


@pytest.fixture
def two(tmp_path) -> Path:
    """Two wav files without a manifest."""
    for name in ("one", "two"):
        write(tmp_path / f"{name}.wav", tone(300, audio.RATE))
    return tmp_path


def scanned(folder: Path, content: bytes, stop: bool = False) -> tuple[dict[str, str], int]:
    """Names and texts of what a manifest of this content lists, and how many are left out."""
    (folder / "a.trans.txt").write_bytes(content)
    on_error = data.OnError(stop)
    try:
        found = data.scan(folder, TINY, on_error)
    except InputError as error:
        if stop or "none of the utterances" not in str(error):
            raise
        found = []
    return {u.path.stem: u.text for u in found}, on_error.skipped


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("between", [" ", "\t", "  \t"])
def test_manifests_that_can_be_read(two, encoding, end, between):
    lines = [f"one{between}YES", "", f"two{between}IT'S OK", ""]
    found = scanned(two, end.join(lines).encode(encoding), stop=True)
    assert found == ({"one": "yes", "two": "it's ok"}, 0)


TEXT = "one YES\ntwo ÜBER\n"
BAD_MANIFESTS = {
    "latin-1": (TEXT.encode("latin-1"), "a.trans.txt, line 2: expected text in UTF-8", 1),
    "utf-16 without mark": (TEXT.encode("utf-16-le"), "line 1: expected text in UTF-8", 3),
    "half of utf-16": ("one YES".encode("utf-16")[:-1], "a.trans.txt: expected UTF-16", 1),
    "long name": (b"one YES\n" + b"x" * 5000 + b" NO\n", "expected a wav file: File name", 1),
    "no text": (b"one YES\ntwo\n", "two.wav: the transcript is empty", 1),
}


@pytest.mark.parametrize("kind", BAD_MANIFESTS)
def test_manifests_that_cannot(kind, two, capsys):
    content, reason, count = BAD_MANIFESTS[kind]
    found, skipped = scanned(two, content)
    assert skipped == count
    assert found == ({"one": "yes"} if content.startswith(b"one YES\n") else {})
    assert reason in capsys.readouterr().out
    with pytest.raises(InputError) as caught:
        scanned(two, content, stop=True)
    assert reason in str(caught.value)


def test_a_folder_for_a_manifest(two, capsys):
    (two / "b.trans.txt").mkdir()
    assert scanned(two, b"one YES\n") == ({"one": "yes"}, 1)
    assert "b.trans.txt: expected a text file" in capsys.readouterr().out


# Checkpoints


def network() -> DeepSpeech2:
    net = DeepSpeech2(TINY, data.BLANK + 1)
    net.prepare()
    return net


def values(net: DeepSpeech2) -> list[np.ndarray]:
    return [p.data().asnumpy() for p in net.collect_params().values()]


def test_a_checkpoint_comes_back(tmp_path):
    net = network()
    checkpoint.save(tmp_path / "net.zip", net, {"best": 0.1})
    again = checkpoint.load_network(tmp_path / "net.zip")
    for ours, found in zip(values(net), values(again)):
        np.testing.assert_array_equal(ours, found)
    assert checkpoint.read_state(tmp_path / "net.zip") == (TINY, {"best": 0.1})
    assert zipfile.ZipFile(tmp_path / "net.zip").testzip() is None  # other programs read it
    assert [path.name for path in tmp_path.iterdir()] == ["net.zip"]


def test_any_change_of_a_checkpoint_is_found(tmp_path):
    path = tmp_path / "net.zip"
    checkpoint.save(path, network(), {})
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    ends = [*range(100), *range(len(whole) - 600, len(whole))]
    for place in {*ends, *rng.integers(0, len(whole), 100).tolist()}:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(InputError, match="net.zip: (not a checkpoint|damaged)"):
            checkpoint.load_network(path)
    for length in (0, 1, 30, 64, 65, 1000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="net.zip: (not a checkpoint|damaged)"):
            checkpoint.load_network(path)
    path.write_bytes(whole + b"\n")
    with pytest.raises(InputError, match=r"net.zip: damaged, .*: expected the SHA-256 .* found"):
        checkpoint.load_network(path)


def test_other_files_are_no_checkpoints(tmp_path):
    sound = bad_wav("truncated", tmp_path)
    archive = tmp_path / "other.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("state.json", "{}")
    for path in (sound, archive, tmp_path):
        with pytest.raises(InputError, match=f"{path}: (not a checkpoint|damaged)"):
            checkpoint.load_network(path)
    with pytest.raises(InputError, match="no such checkpoint"):
        checkpoint.load_network(tmp_path / "none.zip")


def test_a_save_that_fails_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "net.zip"
    checkpoint.save(path, network(), {"step": 1})
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(path, network(), {"step": 2})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["net.zip"]


@pytest.mark.parametrize("program", [transcribe, evaluate])
def test_a_damaged_checkpoint_at_the_command_line(program, tmp_path, monkeypatch, capsys):
    path = tmp_path / "net.zip"
    checkpoint.save(path, network(), {})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["program", str(tmp_path), "--checkpoint", str(path)])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert "net.zip: damaged" in f"{ended.value.code}{capsys.readouterr().err}"
    assert ended.value.code != 0
