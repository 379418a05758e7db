"""Prints what pyproject.toml requires of a build, one requirement a line, for `pip install -r`."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
    print("\n".join(tomllib.load(file)["build-system"]["requires"]))
