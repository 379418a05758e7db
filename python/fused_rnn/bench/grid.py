"""The grid of grid.json, as blocks: what one set of processes measures."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any, Iterator, Sequence

from fused_rnn._errors import UserError
from fused_rnn.bench.options import read_json
from fused_rnn.bench.peers import PEERS
from fused_rnn.bench.problem import ELEMENT_BYTES, Problem
from fused_rnn.bench.results import MODES

DEFAULT = Path(__file__).with_name("grid.json")
PASSES = {"forward": False, "training": True}
# What the lists of a group may hold.
WORDS = {"modes": MODES, "passes": PASSES, "dtypes": ELEMENT_BYTES, "peers": PEERS}


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
    usual = len(sizes) == len(text.split()) and set("TNIH") <= set(sizes)
    if not usual or min(sizes.values()) < 1 or sizes.get("D", 1) > 2:
        raise UserError(
            "shape: expected the form 'T300 N20 I800 H800 L5 D2', sizes of 1 or more, D of 1 or 2; "
            f"found {text!r}"
        )
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
    try:
        content = read_json(path)
        return list(_chosen(content, threads, contended, groups))
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: expected what fused_rnn/bench/grid.json has: {type(error).__name__}: {error}"
        ) from error


def _chosen(
    content: dict[str, Any], threads: int, contended: bool, groups: Sequence[str] | None
) -> Iterator[Block]:
    names = [group["name"] for group in content["groups"]]
    for name in groups or ():
        if name not in names:
            raise UserError(f"groups: expected some of {', '.join(names)}; found {name!r}")
    for group in content["groups"]:
        _check_words(group)
        if not groups or group["name"] in groups:
            yield from _blocks(group, content["shapes"], threads, contended)


def _check_words(group: dict[str, Any]) -> None:
    for name, known in WORDS.items():
        for word in group.get(name, ()):
            if word not in known:
                raise UserError(
                    f"{name} of {group['name']!r}: expected some of {', '.join(known)}; "
                    f"found {word!r}"
                )
