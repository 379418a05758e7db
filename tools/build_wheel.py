"""Builds a self-contained wheel in dist/ and tries it in a new environment (`make wheel`).

The wheel holds our libraries and oneDNN. It does not hold libmxnet.so, which the package mxnet has,
nor libgomp.so.1, which mxnet takes from the system: there must be one OpenMP in a process.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheel"
NOT_INSIDE = ("libmxnet.so", "libgomp.so.1")


def python(*arguments: str, interpreter: str = sys.executable, **keywords) -> None:
    subprocess.run([interpreter, *arguments], check=True, **keywords)


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.whl")
    return path


def build() -> Path:
    """The wheel, with the oldest platform tag that it keeps to."""
    # What an earlier build left would go into this wheel too.
    for old in (*WORK.glob("[!.]*"), *ROOT.glob("build/lib.*"), *ROOT.glob("build/bdist.*")):
        shutil.rmtree(old, ignore_errors=True)
    pip = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    python(*pip, "--wheel-dir", str(WORK / "built"), str(ROOT))
    exclude = [option for name in NOT_INSIDE for option in ("--exclude", name)]
    repair = ("-m", "auditwheel", "repair", *exclude, "--wheel-dir", str(WORK / "repaired"))
    python(*repair, str(only_file(WORK / "built")))
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    return Path(shutil.copy(only_file(WORK / "repaired"), dist))


def try_out(wheel: Path) -> None:
    """Installs nothing but wheels into a new environment, and runs there."""
    environment = WORK / "environment"
    python("-m", "venv", str(environment))
    interpreter = str(environment / "bin" / "python")
    install = ("-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    python(*install, "--upgrade", "pip", interpreter=interpreter)
    python(*install, str(wheel), interpreter=interpreter)
    # -I: this folder and PYTHONPATH are not searched, so that it is the wheel that runs.
    smoke_test = str(ROOT / "tools" / "smoke_test.py")
    python("-I", smoke_test, interpreter=interpreter, cwd=WORK)


def main() -> None:
    wheel = build()
    try_out(wheel)
    print(wheel.relative_to(ROOT))


if __name__ == "__main__":
    main()
