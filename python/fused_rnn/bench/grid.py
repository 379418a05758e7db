"""The grid of grid.json, as blocks: what one set of processes measures."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from pathlib import Path
from typing import Any, Iterator, Sequence

from fused_rnn.bench.peers import PEERS
from fused_rnn.bench.problem import Problem

DEFAULT = Path(__file__).with_name("grid.json")
PASSES = {"forward": False, "training": True}


@dataclasses.dataclass(frozen=True)
class Block:
    """One problem and the passes over it."""

    group: str
    shape: str  # its name
    problem: Problem
    passes: tuple[bool, ...]  # for each: training
    threads: int
    contended: bool
    latency: bool  # many single calls, for percentiles
    peers: tuple[str, ...]


def parse_shape(text: str) -> dict[str, int]:
    """The sizes in a text like "T300 N20 I800 H800 L5 D2"."""
    sizes = {word[0]: int(word[1:]) for word in text.split() if re.fullmatch(r"[TNIHLD]\d+", word)}
    if len(sizes) != len(text.split()) or not set("TNIH") <= set(sizes):
        raise ValueError(f"shape: expected the form 'T300 N20 I800 H800 L5 D2', found {text!r}")
    return sizes


def thread_counts(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    counts = [1]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    return sorted({*counts, most})


def _blocks(
    group: dict[str, Any], shapes: dict[str, str], threads: int, contended: bool
) -> Iterator[Block]:
    wanted = group.get("threads", [1])  # "each" from one on, or multiples of what the run has
    counts = thread_counts(threads) if wanted == "each" else [threads * n for n in wanted]
    for name, mode, dtype, lengths, count in itertools.product(
        group["shapes"],
        group["modes"],
        group.get("dtypes", ["float32"]),
        group.get("lengths", [False]),
        counts,
    ):
        sizes = parse_shape(shapes.get(name, name))
        yield Block(
            group["name"],
            name,
            Problem(mode, dtype=dtype, variable_length=lengths, **sizes),
            tuple(PASSES[each] for each in group["passes"]),
            count,
            contended or group.get("contended", False),
            group.get("latency", False),
            tuple(group.get("peers", PEERS)),
        )


def load(
    path: Path, threads: int, contended: bool = False, groups: Sequence[str] | None = None
) -> list[Block]:
    """The blocks of those groups, or of all."""
    content = json.loads(path.read_text())
    names = [group["name"] for group in content["groups"]]
    for name in groups or ():
        if name not in names:
            raise ValueError(f"groups: expected some of {', '.join(names)}; found {name!r}")
    return [
        block
        for group in content["groups"]
        if not groups or group["name"] in groups
        for block in _blocks(group, content["shapes"], threads, contended)
    ]
