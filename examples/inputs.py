"""What comes from outside: numbers of the command line, folders to write to, text files.

What cannot be used is refused by a message that names it, what was expected and what was found.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import math
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator

SEED = 2**31 - 1  # the largest that MXNet takes


class InputError(Exception):
    """Something from outside cannot be used; the message names it."""


# What ends a program with a message alone: a traceback would say no more.
OUTSIDE = (InputError, OSError, MemoryError)


def whole(least: int, most: int) -> Callable[[str], int]:
    """A type of argparse: whole numbers from least to most."""
    return _number(int, "a whole number", least, most)


def real(least: float, most: float) -> Callable[[str], float]:
    """A type of argparse: numbers from least to most."""
    return _number(float, "a number", least, most)


def _number(convert: Callable[[str], Any], kind: str, least: Any, most: Any) -> Callable:
    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"expected {kind} from {least} to {most}, found {text!r}"
            )
        return value

    return parse


def writable(folder: Path) -> None:
    """Makes the folder if it is not there; refuses one in which no file can be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{folder}: expected a folder that can be written: {error.strerror}"
        ) from None


def _stop(error: InputError) -> None:
    raise error


def read_lines(path: Path, on_error: Callable[[InputError], None] = _stop) -> list[str]:
    """The lines of a text in UTF-8, or in UTF-16 with a byte order mark.

    `on_error` is told of each line that cannot be decoded, and may go on without it.
    """
    try:
        content = path.read_bytes()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            content = content.decode("utf-16").encode()
    except OSError as error:
        raise InputError(f"{path}: expected a text file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected UTF-16, as its first bytes say, found {error.reason} "
            f"at byte {error.start}"
        ) from None
    if content.startswith(codecs.BOM_UTF8):
        content = content[len(codecs.BOM_UTF8) :]
    found = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            found.append(_decoded(line))
        except ValueError as error:
            on_error(InputError(f"{path}, line {number}: expected text in UTF-8, found {error}"))
    return found


def _decoded(line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte 0x{line[error.start]:02x}") from None
    if "\0" in text:
        raise ValueError("a zero byte; UTF-16 without a byte order mark?")
    return text


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    """Ends the program with the message alone if the fault lies outside of it."""
    try:
        yield
    except OUTSIDE as error:
        sys.exit(f"{error}" or type(error).__name__)
