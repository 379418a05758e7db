"""Checks who may include whom, by folder or file, and prints every breach."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


class Layer(NamedTuple):
    """What the files of a folder may include, as patterns of the whole path."""

    own: str  # in quotes: the project's headers
    system: str  # in angle brackets


STANDARD = r"c?[a-z_]+"  # <vector>, <cstdint>: a name without a folder and an ending
# The kernels are compiled for several instruction sets, so they may instantiate no inline function
# that others share: a copy with the wrong instructions could be linked in for all.
C_ONLY = r"c(assert|float|limits|stddef|stdint|string)"

PUBLIC = r"fused_rnn/\w+\.h"

LAYERS = {
    "include/fused_rnn/modes.h": Layer(r"", r""),
    "include/fused_rnn/fused_rnn_c.h": Layer(r"fused_rnn/modes\.h", r"std(bool|def|int)\.h"),
    "include/fused_rnn/error.h": Layer(r"", STANDARD),
    "include/fused_rnn/measure.h": Layer(r"fused_rnn/error\.h", STANDARD),
    "include/fused_rnn/memory.h": Layer(r"fused_rnn/error\.h", STANDARD),
    "include/fused_rnn/session.h": Layer(r"fused_rnn/(memory|rnn)\.h", STANDARD),
    "include/fused_rnn/rnn.h": Layer(r"fused_rnn/(error|memory|modes)\.h", STANDARD),
    # Knows no problem: the threads, the failures and the measuring of anything.
    "src/base": Layer(
        r"base/.+|fused_rnn/(error|measure|memory)\.h", STANDARD + r"|((linux|sys)/)?[a-z]+\.h"
    ),
    "src/kernels": Layer(
        r"kernels/.+|cells/cells?\.h|base/(cpu\.h|half\.h|isas\.def)", C_ONLY + r"|immintrin\.h"
    ),
    "src/cells": Layer(r"cells/.+|kernels/(activations|vec)-inl\.h|fused_rnn/modes\.h", C_ONLY),
    "src/rnn": Layer(
        r"rnn/.+|base/.+|kernels/kernel_table\.h|cells/cells?\.h|" + PUBLIC,
        STANDARD + r"|(omp|pthread|sys/mman|unistd)\.h",
    ),
    # Like a user's code, but for the text of errors.
    "src/session": Layer(r"session/.+|base/check\.h|" + PUBLIC, STANDARD),
    "src/c": Layer(r"base/check\.h|" + PUBLIC, STANDARD),
    # Its own headers without a folder: mxnet/ is the framework's.
    "src/mxnet": Layer(
        r"\w+\.h|" + PUBLIC, STANDARD + r"|(mxnet|nnvm|dmlc|mshadow|sys)/.+|[a-z]+\.h"
    ),
    "src/pybind": Layer(
        r"\w+\.h|" + PUBLIC, STANDARD + r"|pybind11/.+|(pthread|sys/syscall|unistd)\.h"
    ),
    # A peer, not a part, of the rest.
    "src/bench/onednn_rnn.cc": Layer(r"", STANDARD + r"|oneapi/dnnl/dnnl\.hpp"),
    "src/bench": Layer(
        r"bench/.+|rnn/.+|base/.+|kernels/kernel_(list|table)\.h|cells/cells?\.h|" + PUBLIC,
        STANDARD,
    ),
    "tests/cpp": Layer(r".+", r".+"),
    "examples/c": Layer(r"fused_rnn/fused_rnn_c\.h", r"[a-z]+\.h"),
}
# The only files that see a matrix library.
LIBRARY_FILES = {
    "src/rnn/onednn_gemm.cc": r"oneapi/dnnl/dnnl\.hpp",
    "src/rnn/mkl_gemm.cc": r"mkl\.h",
}


def allowed(path: str, layer: Layer, bracket: str, header: str) -> bool:
    """Whether the file at `path` may include `header`."""
    if path in LIBRARY_FILES and re.fullmatch(LIBRARY_FILES[path], header):
        return True
    return re.fullmatch(layer.own if bracket == '"' else layer.system, header) is not None


def main() -> int:
    breaches = 0
    sources = [
        p
        for top in ("include", "src", "tests", "examples")
        for p in sorted((ROOT / top).rglob("*"))
    ]
    for source in sources:
        if source.suffix not in (".c", ".cc", ".h"):
            continue
        path = source.relative_to(ROOT).as_posix()
        layer = next((LAYERS[top] for top in LAYERS if (path + "/").startswith(top + "/")), None)
        if layer is None:
            print(f"{path}: expected a folder among {', '.join(LAYERS)}")
            breaches += 1
            continue
        for bracket, header in INCLUDE.findall(source.read_text()):
            if not allowed(path, layer, bracket, header):
                print(f"{path}: may not include {header}")
                breaches += 1
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
