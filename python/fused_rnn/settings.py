"""What calls run on, and the switches in the environment."""

from __future__ import annotations

import os

from fused_rnn import _core

__all__ = ["gemm_backend", "isa", "num_threads", "set_num_threads"]

_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def set_num_threads(threads: int) -> None:
    """Sets how many threads a call may use, in the whole process.

    It holds for the calls that follow; those that were made before are waited for. MXNet's other
    operators keep their own number (``OMP_NUM_THREADS``). Results do not depend on it.

    Parameters
    ----------
    threads
        1 or more; 0 for the default: ``OMP_NUM_THREADS`` if set, else one for each physical core
        that the process may run on.
    """
    import mxnet

    mxnet.nd.waitall()  # the number is read when a call runs, which may be long after it was made
    _core.set_num_threads(threads)


def num_threads() -> int:
    """How many threads a call may use. Small problems use fewer; a forked process has 1."""
    return _core.num_threads()


def isa() -> str:
    """The instruction set of the kernels in use, e.g. ``"avx512"``.

    It is the best that the processor has, or less if FUSED_RNN_MAX_ISA says so.
    """
    return _core.isa()


def gemm_backend() -> str:
    """The library that computes large products: oneDNN, or MKL if built with it."""
    return _core.gemm_backend()


def switch(name: str) -> bool:
    """Whether a variable of the environment is on.

    Raises ImportError for a value that says neither: it is read while the package is imported.
    """
    value = os.environ.get(name, "")
    if value.strip().lower() in _ON:
        return True
    if value.strip().lower() in _OFF:
        return False
    raise ImportError(
        f"{name}: expected one of {', '.join(_ON)} or {', '.join(filter(None, _OFF))}, "
        f"got {value!r}"
    )
