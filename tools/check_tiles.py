"""Checks that the hot loops of the panel kernels keep their sums in registers.

A compiler that runs out of registers, or leaves a loop over the sums rolled, puts them on the
stack, and the kernel is several times slower without any other sign. Reads the disassembly of the
kernel objects of a build folder, prints each tile whose loop touches the stack, and exits with 1 if
there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.*)>:$")
INSTRUCTION = re.compile(r"^\s*(?P<address>[0-9a-f]+):\s+(?P<text>\S.*)$")
JUMP = re.compile(r"^j\w+\s+(?P<target>[0-9a-f]+)\b")
MULTIPLY = re.compile(r"^v?f?m(ul|add)\w*p[sd]\b|^vfmadd\w+p[sd]\b|^mulp[sd]\b")
# A vector register to or from the stack. %rbp may hold any pointer where it is no frame pointer,
# below which variables have negative offsets.
SPILL = re.compile(r"(?=.*%[xyz]mm)(?=.*(\(%rsp|-0x[0-9a-f]+\(%rbp\)))")
TILE = re.compile(r"::Tile<(?P<sizes>[^>]*)>")

Function = "tuple[str, list[tuple[int, str]]]"


def functions(path: Path) -> list[Function]:
    """Name and instructions of every function of an object file."""
    listing = subprocess.run(
        ["objdump", "-d", "-C", "--no-show-raw-insn", str(path)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found: list[Function] = []
    for line in listing.splitlines():
        head = FUNCTION.match(line)
        if head:
            found.append((head["name"], []))
            continue
        instruction = INSTRUCTION.match(line)
        if instruction and found:
            found[-1][1].append((int(instruction["address"], 16), instruction["text"]))
    return found


def hot_loop(instructions: list[tuple[int, str]]) -> list[str]:
    """The loop with the most multiplications for its length."""
    best: list[str] = []
    best_density = 0.0
    for address, text in instructions:
        jump = JUMP.match(text)
        if not jump:
            continue
        target = int(jump["target"], 16)
        body = [t for a, t in instructions if target <= a <= address]
        multiplications = sum(MULTIPLY.match(t) is not None for t in body)
        if body and multiplications / len(body) > best_density:
            best, best_density = body, multiplications / len(body)
    return best


def main() -> int:
    objects = sorted(Path(sys.argv[1]).glob("CMakeFiles/kernels_*.dir/**/kernels.cc.o"))
    tiles, bad = 0, 0
    for path in objects:
        isa = re.search(r"kernels_(\w+)\.dir", str(path))[1]
        for name, instructions in functions(path):
            tile = TILE.search(name)
            if not tile:
                continue
            loop = hot_loop(instructions)
            spills = [text for text in loop if SPILL.search(text)]
            tiles += 1
            if spills or not loop:
                bad += 1
                what = f"{len(spills)} stack accesses" if loop else "no loop of multiplications"
                print(f"{isa} Tile<{tile['sizes']}>: {what}", *spills[:3], sep="\n    ")
    if tiles == 0:
        print(f"{sys.argv[1]}: expected kernel objects with tiles, found none")
    print(
        f"{tiles} tiles of {len(objects)} instruction sets, {bad} with their sums not in registers"
    )
    return 1 if bad or tiles == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
