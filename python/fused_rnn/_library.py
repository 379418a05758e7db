"""Loads the operator into MXNet: checks, registration, Python functions."""

from __future__ import annotations

import ctypes
import os
import pathlib
import platform
import sys
import threading
import warnings
from typing import Any, Callable

from fused_rnn._arguments import take_lengths

_MXNET = "1.9.1"
_NUMPY_BELOW = (1, 24)
_INSTALL = f"install them with: pip install mxnet=={_MXNET} 'numpy<1.24'"

lock = threading.Lock()  # of what is done once per process
_library: ctypes.CDLL | None = None


def _renew_lock() -> None:
    """A forked process has no other thread that would give the lock back."""
    global lock
    lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _check_platform() -> None:
    found = f"{sys.platform} on {platform.machine()}"
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise ImportError(f"fused_rnn runs on linux on x86_64, found {found}")


def _check_numpy() -> None:
    try:
        import numpy
    except ImportError as error:
        raise ImportError(f"fused_rnn needs NumPy, found none; {_INSTALL}") from error
    release = tuple(int(part) for part in numpy.__version__.split(".")[:2])
    if release >= _NUMPY_BELOW:
        raise ImportError(
            f"fused_rnn needs numpy<1.24, as mxnet=={_MXNET} does, "
            f"found numpy {numpy.__version__}; {_INSTALL}"
        )


def _check_mxnet() -> None:
    try:
        import mxnet
    except Exception as error:  # what a broken installation raises is not always an ImportError
        raise ImportError(
            f"fused_rnn needs mxnet=={_MXNET}, but `import mxnet` failed "
            f"({type(error).__name__}: {error}); {_INSTALL}"
        ) from error
    found = getattr(mxnet, "__version__", "of no version")
    if found != _MXNET:
        raise ImportError(f"fused_rnn needs mxnet=={_MXNET}, found mxnet {found}; {_INSTALL}")


def _open() -> ctypes.CDLL:
    path = pathlib.Path(__file__).with_name("libfused_rnn_mxnet.so")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"cannot load {path.name} ({error}); it needs the libmxnet.so of the wheel "
            f"mxnet=={_MXNET}; {_INSTALL}"
        ) from error
    library.fused_rnn_last_error.restype = ctypes.c_char_p
    library.fused_rnn_memory.argtypes = [ctypes.POINTER(ctypes.c_int64)] * 3
    library.fused_rnn_memory.restype = None
    library.fused_rnn_release_spare_memory.restype = None
    # With Python's lock held: see change_tables.
    held = ctypes.PyDLL(str(path))
    for name in ("fused_rnn_register", "fused_rnn_install", "fused_rnn_installed"):
        setattr(library, name, getattr(held, name))
    return library


def _make_functions() -> None:
    """Makes mx.nd.FusedRNN, mx.sym.FusedRNN and npx.fused_rnn as mxnet makes its own."""
    from mxnet import base, ndarray, numpy_extension, symbol
    from mxnet.ndarray.register import _make_ndarray_function
    from mxnet.symbol.register import _make_symbol_function

    def make_symbol_function(*names: Any) -> Callable[..., Any]:
        return take_lengths(_make_symbol_function(*names))

    handles = {}
    for name in ("FusedRNN", "_npx_fused_rnn"):
        handles[name] = base.OpHandle()
        base.check_call(base._LIB.NNGetOpHandle(base.c_str(name), ctypes.byref(handles[name])))

    for module, make in ((ndarray, _make_ndarray_function), (symbol, make_symbol_function)):
        function = make(handles["FusedRNN"], "FusedRNN", "FusedRNN")
        for home in (module, module.op):
            home.FusedRNN = function
        extension = make(handles["_npx_fused_rnn"], "_npx_fused_rnn", "fused_rnn")
        for home in (module.numpy_extension, module.numpy_extension._op):
            home.fused_rnn = extension
    for home in (numpy_extension, numpy_extension._op):
        home.fused_rnn = ndarray.numpy_extension.fused_rnn


def check(code: int) -> None:
    """Raises MXNetError for a library call that failed."""
    from mxnet import MXNetError

    if code < 0:
        raise MXNetError(_library.fused_rnn_last_error().decode())


def change_tables(entry: Callable[[], int]) -> int:
    """Calls an entry point that changes MXNet's tables of operators; returns its result.

    No other thread may be inside MXNet then. Python threads cannot enter while the entry point has
    Python's lock; for those that are inside, MXNet's workers among them, it waits until they sleep.
    `waitall` would not do: others may call MXNet right after it, and it takes the errors of
    operators that somebody else is going to wait for.
    """
    code = entry()
    if code == 1:
        warnings.warn(
            "other threads kept running while fused_rnn changed MXNet's tables of operators; "
            "if they call MXNet, import (and install) fused_rnn before they start",
            RuntimeWarning,
            stacklevel=2,
        )
    return code


def load() -> ctypes.CDLL:
    """The library, with the operator registered; does its work once per process."""
    global _library
    if _library is not None:
        return _library
    with lock:
        if _library is None:
            _check_platform()
            _check_numpy()
            _check_mxnet()
            library = _open()
            if change_tables(library.fused_rnn_register) < 0:
                raise ImportError(f"{library.fused_rnn_last_error().decode()}; {_INSTALL}")
            _make_functions()
            _library = library
    return _library


def memory() -> dict[str, int]:
    """The memory of live operator states.

    Returns
    -------
    dict
        ``states``: number of states; ``reserve``: bytes that forward passes keep for their backward
        passes; ``workspace``: bytes that running calls work in, which states share.
    """
    keys = ("states", "workspace", "reserve")
    values = [ctypes.c_int64() for _ in keys]
    load().fused_rnn_memory(*map(ctypes.byref, values))
    return {key: value.value for key, value in zip(keys, values)}


def set_recompute(on: bool) -> bool:
    """Sets whether training trades time for memory, in the whole process; by default it does not.

    If so, a training forward keeps no reserve, and its backward computes that forward again, with
    the same dropout masks. The results are the same bits. The setting holds for the forwards that
    follow; those that were called before are waited for.

    Returns
    -------
    bool
        The former setting.
    """
    import mxnet

    mxnet.nd.waitall()  # the setting is read when a call runs, which may be long after it was made
    return bool(load().fused_rnn_set_recompute(int(on)))


def release_memory() -> None:
    """Gives back the memory that ended states and calls left for the next ones.

    Live and spare memory together never exceed the most that was live at one time.
    """
    load().fused_rnn_release_spare_memory()
