"""Checks that no object of a build folder holds an instruction which the CPU is not asked for.

The kernels of an instruction set may use what is asked of the CPU before it is chosen
(src/base/isas.def; the build's cpu_test prints that), all other objects x86-64's baseline alone.
Looks at the instructions that the objects hold, and at what the compiler's options would let it
use. Prints every breach and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Iterator

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from iced_x86 import CpuidFeature, Decoder, Mnemonic

FEATURE_NAMES = {value: name for name, value in vars(CpuidFeature).items() if name.isupper()}
# What every x86-64 processor has, by the decoder's names; the last three do nothing on older ones.
BASELINE = re.compile(
    r"INTEL\d+\w*|FPU\w*|X64|CMOV|CX8|FXSR|MMX|SSE|SSE2|SYSCALL|TSC|CPUID"
    r"|MULTIBYTENOP|PAUSE|CET_IBT"
)
# Where the decoder or the compiler's macros have other names than the compiler's options.
RENAMED = {"bmi1": "bmi", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "crc32": "sse4.2"}
MACRO = re.compile(r"^#define __([A-Z0-9_]+)__ 1$", re.MULTILINE)


def option_name(name: str) -> str:
    name = name.lower()
    return RENAMED.get(name, name)


def features_of_object(path: Path) -> dict[str, str]:
    """The extensions that the instructions of an object need, each with the first that does."""
    found: dict[str, str] = {}
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if not section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
                continue
            for instruction in Decoder(64, section.data()):
                # As BSF it does the same where the operand is not 0; the compiler knows that.
                if instruction.mnemonic == Mnemonic.TZCNT:
                    continue
                for feature in instruction.cpuid_features():
                    name = FEATURE_NAMES[feature]
                    if not BASELINE.fullmatch(name):
                        where = f"{instruction} in {section.name} at {instruction.ip:#x}"
                        found.setdefault(option_name(name), where)
    return found


def macros(command: list[str]) -> set[str]:
    """What the compiler says that its options let it use."""
    listing = subprocess.run(
        [*command, "-dM", "-E", "-x", "c++", "/dev/null"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return set(MACRO.findall(listing))


def features_of_options(command: list[str]) -> dict[str, str]:
    """The extensions that the -m options of a compilation let the compiler use."""
    compiler = next(word for word in command if "ccache" not in word)
    options = [word for word in command if word.startswith("-m")]
    names = macros([compiler, *options]) - macros([compiler])
    return {option_name(name): " ".join(options) for name in names}


def required_features(build: Path) -> dict[str, set[str]]:
    """By instruction set, what is asked of the CPU before it is chosen."""
    printed = subprocess.run(
        [str(build.resolve() / "cpu_test")], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    listed = re.findall(r"^(\w+): (.*)$", printed, re.MULTILINE)
    return {isa: set(names.split()) for isa, names in listed}


def breaches(build: Path, required: dict[str, set[str]]) -> Iterator[str]:
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["directory"]) / entry["output"]
        kernels = re.search(r"kernels_(\w+)\.dir", entry["output"])
        allowed = required[kernels[1]] if kernels else set()
        for found in (
            features_of_object(path),
            features_of_options(shlex.split(entry["command"])),
        ):
            for name, where in sorted(found.items()):
                if name not in allowed:
                    yield f"{entry['output']}: {name} is not asked of the CPU: {where}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="build folder, all of it built")
    build = parser.parse_args().build
    required = required_features(build)
    found = list(breaches(build, required))
    print(*found, sep="\n", end="\n" * bool(found))
    print(f"{len(required)} instruction sets, {len(found)} uses of what the CPU is not asked for")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
