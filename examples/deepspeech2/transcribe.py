"""Prints what is said in wav files.

python -m examples.deepspeech2.transcribe --checkpoint runs/small/best.zip FILE.wav
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mxnet as mx
import numpy as np

from examples.deepspeech2 import audio, checkpoint, decode
from examples.deepspeech2.evaluate import texts
from examples.deepspeech2.model import DeepSpeech2
from examples.inputs import InputError, named_errors


def transcribe(net: DeepSpeech2, path: Path, beam: int = 0) -> str:
    """The text of a wav file, by beam search or greedily."""
    features = audio.spectrogram(audio.read_wav(path), net.config.hop)
    frames = np.array([len(features)], "float32")
    scores, _ = net(mx.nd.array(features[np.newaxis]), mx.nd.array(frames))
    return texts(scores.asnumpy(), frames, net, decode.decoder(beam))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.wav")
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/small/best.zip"))
    decode.add_argument(parser, default=16)
    parser.add_argument("--on-error", choices=("skip", "stop"), default="skip")
    args = parser.parse_args()
    left_out = 0
    with named_errors():
        net = checkpoint.load_network(args.checkpoint)
        for path in args.files:
            try:
                print(f"{path}: {transcribe(net, path, args.beam)}")
            except InputError as error:
                if args.on_error == "stop":
                    raise
                print(f"left out: {error}", file=sys.stderr)
                left_out += 1
    if left_out:
        sys.exit(f"{left_out} of {len(args.files)} files were left out")


if __name__ == "__main__":
    main()
