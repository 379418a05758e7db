"""The log of a run as a CSV file, and its curves."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from examples.deepspeech2.checkpoint import write_atomically


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    """Writes log.csv and curves.png, one row and one point for each epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(folder / "log.csv", text.getvalue().encode())
    plot(rows, folder / "curves.png")


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Losses and error rates over the minutes of training."""
    from matplotlib.figure import Figure  # the object interface needs no display

    figure = Figure(figsize=(9, 4), layout="constrained")
    losses, errors = figure.subplots(1, 2)
    minutes = [row["seconds"] / 60 for row in rows]
    for name in ("train_loss", "valid_loss"):
        losses.plot(minutes, [row[name] for row in rows], ".-", label=name.replace("_", " "))
    losses.set_ylabel("CTC loss of an utterance")
    for name in ("cer", "wer"):
        errors.plot(minutes, [100 * row[name] for row in rows], ".-", label=name.upper())
    errors.set_ylabel("% errors, held-out voices")
    for axes in (losses, errors):
        axes.set_xlabel("minutes of training")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    write_atomically(path, image.getvalue())
