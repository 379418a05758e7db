"""An extension of Griffe for the API reference: docstrings as fused_rnn._descriptions makes them.

Griffe reads sources and runs none, so decorators have no effect on what it finds.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
from pathlib import Path
from typing import Any

import griffe

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "fused_rnn"


def _descriptions() -> types.ModuleType:
    """The module by itself: the package would load MXNet."""
    package = types.ModuleType("fused_rnn")
    package.__path__ = [str(PACKAGE)]
    before = {name: module for name, module in sys.modules.items() if name.startswith("fused_rnn")}
    for name in before:
        del sys.modules[name]
    sys.modules["fused_rnn"] = package
    try:
        return importlib.import_module("fused_rnn._descriptions")
    finally:
        for name in [name for name in sys.modules if name.startswith("fused_rnn")]:
            del sys.modules[name]
        sys.modules.update(before)


class Described(griffe.Extension):
    """Completes the docstrings of functions that are decorated with `described`."""

    def __init__(self) -> None:
        self._module = _descriptions()

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        for decorator in func.decorators:
            call = ast.parse(str(decorator.value), mode="eval").body
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != "described":
                continue
            (description,) = call.args
            words = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            func.docstring.value = self._module.describe(
                func.docstring.value,
                [parameter.name for parameter in func.parameters],
                getattr(self._module, ast.unparse(description)),
                **words,
            )
