"""Prints where the running interpreter's packages keep what the build needs, as CMake code.

Nothing is imported: `import mxnet` takes seconds and needs libraries that a build does not.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

NOTICES = ("LICENSE", "THIRD-PARTY-PROGRAMS")


def missing(what: str) -> str:
    """The message that ends the build."""
    return f"{sys.executable} has no {what}; pyproject.toml lists what a build requires"


def package_dir(name: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(missing(f"package {name!r}"))
    return Path(next(iter(spec.submodule_search_locations)))


def installed_file(distribution: str, ending: str) -> Path:
    """The file of a distribution whose path ends so; it may lie outside site-packages."""
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        sys.exit(missing(f"distribution {distribution!r}"))
    for file in files:
        if str(file).endswith(ending):
            return Path(str(file.locate())).resolve()
    sys.exit(f"distribution {distribution!r} has no file {ending!r}")


def main() -> None:
    header = installed_file("onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.hpp")
    library = installed_file("onednn-cpu-gomp", "libdnnl.so.3")
    located = {
        "ONEDNN_PREFIX": [header.parents[3], library.parents[1]],
        "ONEDNN_NOTICES": [installed_file("onednn-cpu-gomp", f"onednn/{name}") for name in NOTICES],
        "MXNET_DIR": [package_dir("mxnet")],
        "PYTHON_PREFIX": [Path(sys.prefix)],  # where mkl-static and mkl-include lie
        "PYBIND11_CMAKE_DIR": [package_dir("pybind11") / "share" / "cmake" / "pybind11"],
    }
    for name, paths in located.items():
        # In CMake's brackets, inside which "$", quotes and backslashes are themselves.
        print(f"set({name} {' '.join(f'[==[{path}]==]' for path in paths)})")


if __name__ == "__main__":
    main()
