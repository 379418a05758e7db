"""Builds the libraries through CMake; dependencies and names are in pyproject.toml.

The environment variable CMAKE_ARGS holds further arguments for the configuration, quoted as in a
shell: `CMAKE_ARGS="-DFUSED_RNN_GEMM=mkl" pip install .`
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def version() -> str:
    """The project's one version, from the public header."""
    header = (ROOT / "include" / "fused_rnn" / "rnn.h").read_text()
    match = re.search(r'#define FUSED_RNN_VERSION "(.+)"', header)
    if match is None:
        raise RuntimeError("include/fused_rnn/rnn.h: expected a definition of FUSED_RNN_VERSION")
    return match.group(1)


def cmake(*arguments: str) -> None:
    # As a module where it is one: the script of a package does not start in every folder, for
    # instance not below one with a "$" in its name.
    program = [sys.executable, "-m", "cmake"] if importlib.util.find_spec("cmake") else ["cmake"]
    subprocess.run([*program, *arguments], check=True)


class CMakeBuild(build_ext):
    """Runs CMake, which writes all libraries into the package folder; its failure is ours."""

    def run(self) -> None:
        configure = ["-S", str(ROOT), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
        if self.inplace or self.editable_mode:
            # A developer's build stays, so that the next one compiles only what has changed.
            build = ROOT / "build" / "dev"
        else:
            build = Path(self.build_temp).resolve() / "cmake"
            output = Path(self.build_lib).resolve() / "fused_rnn"
            configure += ["--fresh", f"-DFUSED_RNN_OUTPUT_DIR={output}", "-DFUSED_RNN_TESTS=OFF"]
        cmake(*configure, "-B", str(build), *shlex.split(os.environ.get("CMAKE_ARGS", "")))
        cmake("--build", str(build))


setup(
    version=version(),
    package_dir={"": "python"},
    packages=find_packages("python"),
    package_data={"fused_rnn": ["py.typed"], "fused_rnn.bench": ["*.json"]},
    include_package_data=False,  # the libraries come from the build, never from the source tree
    ext_modules=[Extension("fused_rnn._core", sources=[])],  # makes the wheel one for this platform
    cmdclass={"build_ext": CMakeBuild},
)
