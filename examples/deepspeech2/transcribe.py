"""Prints what is said in wav files.

python -m examples.deepspeech2.transcribe --checkpoint runs/small/best.zip FILE.wav
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import mxnet as mx
import numpy as np

from examples.deepspeech2 import audio, checkpoint, decode
from examples.deepspeech2.audio import SpeechError
from examples.deepspeech2.evaluate import texts
from examples.deepspeech2.model import DeepSpeech2


def transcribe(net: DeepSpeech2, path: Path, beam: int = 0) -> str:
    """The text of a wav file, by beam search or greedily."""
    samples = audio.read_wav(path)
    if audio.frame_count(len(samples) / audio.RATE, net.config.hop) < 1:
        raise SpeechError(f"{path}: expected at least {audio.WINDOW} samples, found {len(samples)}")
    features = audio.spectrogram(samples, net.config.hop)
    frames = np.array([len(features)], "float32")
    scores, _ = net(mx.nd.array(features[np.newaxis]), mx.nd.array(frames))
    decoder = functools.partial(decode.beam_search, width=beam) if beam else decode.greedy
    return texts(scores.asnumpy(), frames, net, decoder)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.wav")
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/small/best.zip"))
    parser.add_argument("--beam", type=int, default=16, help="beginnings kept; 0: greedy (16)")
    parser.add_argument("--on-error", choices=("skip", "stop"), default="skip")
    args = parser.parse_args()
    failed = False
    try:
        net = checkpoint.load_network(args.checkpoint)
    except SpeechError as error:
        sys.exit(f"{error}")
    for path in args.files:
        try:
            print(f"{path}: {transcribe(net, path, args.beam)}")
        except SpeechError as error:
            print(f"left out: {error}", file=sys.stderr)
            failed = True
            if args.on_error == "stop":
                break
    sys.exit(failed)


if __name__ == "__main__":
    main()
