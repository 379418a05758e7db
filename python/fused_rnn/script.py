"""`fused-rnn run`: a program as it is, on our kernels."""

from __future__ import annotations

import argparse
import builtins
import importlib.util
import io
import os
import runpy
import sys
import types

from fused_rnn._errors import UserError
from fused_rnn.install import install


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`: all that follow the program's name are the program's own."""
    rest = argparse.REMAINDER
    parser.add_argument("-m", dest="module", nargs=rest, help="a module, and its arguments")
    parser.add_argument("script", nargs=rest, help="a file, and its arguments")


def run(args: argparse.Namespace) -> None:
    """Runs it after `install`, otherwise as Python does."""
    words = args.script if args.module is None else args.module
    if not words:
        raise UserError("run: expected a script, or -m and a module")
    if args.module is None:
        _run_file(words)
    else:
        _run_module(words)


def _run_file(words: list[str]) -> None:
    path = words[0]
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise UserError(f"run: cannot open {path}: {error.strerror}") from error
    install()
    sys.argv[:] = words
    _set_first_folder(os.path.dirname(os.path.realpath(path)))
    main = types.ModuleType("__main__")  # stays, for threads and functions called at exit
    main.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec"), main.__dict__)


def _run_module(words: list[str]) -> None:
    _set_first_folder(os.getcwd())
    try:
        found = importlib.util.find_spec(words[0])
    except (ImportError, ValueError):  # its package is missing or is none
        found = None
    if found is None:
        raise UserError(f"run: no module named {words[0]}")
    install()
    sys.argv[:] = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _set_first_folder(folder: str) -> None:
    """In place of that of this program."""
    if not getattr(sys.flags, "safe_path", False):  # python -P has none there
        sys.path[0] = folder
