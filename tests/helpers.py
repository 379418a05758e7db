"""Problems for the tests, and the ways to run them: reference, core, operator, subprocess."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import reference
from reference import Gradients, Outputs, Shape

TESTS = Path(__file__).parent


@dataclasses.dataclass
class Problem:
    """A shape, its inputs and head gradients in double precision, and the options of the
    reference.
    """

    shape: Shape
    x: np.ndarray
    params: np.ndarray
    h0: np.ndarray
    c0: np.ndarray | None
    dy: np.ndarray | None
    dhN: np.ndarray | None
    dcN: np.ndarray | None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        states = (self.h0,) if self.c0 is None else (self.h0, self.c0)
        return (self.x, self.params, *states)

    @property
    def heads(self) -> tuple[np.ndarray | None, ...]:
        return (self.dy, self.dhN) if self.c0 is None else (self.dy, self.dhN, self.dcN)

    def replace(self, **changes) -> Problem:
        return dataclasses.replace(self, **changes)

    def outputs(self) -> Outputs:
        return reference.forward(self.shape, self.x, self.params, self.h0, self.c0, **self.options)

    def gradients(self) -> Gradients:
        return reference.backward(self.shape, *self._all(), **self.options)

    def numeric_gradients(self) -> Gradients:
        return reference.numeric_gradients(self.shape, *self._all(), **self.options)

    def _all(self):
        return self.x, self.params, self.h0, self.c0, self.dy, self.dhN, self.dcN


def make(
    mode: str, T=5, N=2, I=3, H=4, L=1, D=1, P=0, *, seed=0, dtype="float64", **options
) -> Problem:
    """A random problem. Its values are exact in dtype, so that the product and the reference start
    from the same numbers.

    Parameters lie within 0.5, and shrink with H so that errors die out over time (see
    `reference.tolerance`).
    """
    shape = Shape(mode, T, N, I, H, L, D, P)
    rng = np.random.default_rng([seed, T, N, I, H, L, D, P])

    def normal(*size: int) -> np.ndarray:
        return rounded(rng.standard_normal(size), dtype)

    bound = min(0.5, H**-0.5)
    states = (L * D, N)
    lstm = mode in reference.LSTMS
    return Problem(
        shape,
        x=normal(T, N, I),
        params=rounded(rng.uniform(-bound, bound, shape.param_count), dtype),
        h0=rounded(np.tanh(normal(*states, shape.S)), dtype),
        c0=normal(*states, H) if lstm else None,
        dy=normal(T, N, D * shape.S),
        dhN=normal(*states, shape.S),
        dcN=normal(*states, H) if lstm else None,
        options=options,
    )


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Doubles that dtype holds exactly. NumPy has no bfloat16: it is half a float32."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    return values.astype(dtype).astype(np.float64)


def check(
    actual, expected, shape: Shape, dtype: str = "float64", *, gradient=False, what=""
) -> None:
    """Asserts that a tensor of the product equals the reference's within the tolerance formula."""
    assert actual is not None, f"{what} is missing"
    actual = np.asarray(actual)
    assert actual.shape == expected.shape, (
        f"{what}: shape {actual.shape}, expected {expected.shape}"
    )
    limit = reference.tolerance(shape, dtype, expected, gradient=gradient)
    np.testing.assert_allclose(
        actual.astype(np.float64),
        expected,
        rtol=0,
        atol=limit,
        err_msg=f"{what} of {shape} {dtype}",
    )


def check_outputs(actual, expected: Outputs, shape: Shape, dtype: str = "float64") -> None:
    for name, a, e in zip(Outputs._fields, actual, expected):
        if e is not None:
            check(a, e, shape, dtype, what=name)


def check_gradients(actual, expected: Gradients, shape: Shape, dtype: str = "float64") -> None:
    """`actual` in the order of Gradients. Parameters are compared block by block, each against its
    own magnitude.
    """
    for name, a, e in zip(Gradients._fields, actual, expected):
        if e is None:
            continue
        if name != "dparams":
            check(a, e, shape, dtype, gradient=True, what=name)
            continue
        assert a is not None and a.shape == e.shape, f"dparams: {a if a is None else a.shape}"
        parts = reference.unpack(shape, np.asarray(a))
        for key, part in reference.unpack(shape, e).items():
            check(parts[key], part, shape, dtype, gradient=True, what=f"dparams{key}")


# The core on NumPy arrays.


def core_arguments(problem: Problem) -> dict[str, Any]:
    """Keyword arguments of `_core.forward` and `_core.backward` that describe the problem."""
    shape, options = problem.shape, problem.options
    result: dict[str, Any] = {"num_layers": shape.L, "bidirectional": shape.D == 2}
    if shape.P:
        result["projection_size"] = shape.P
    if options.get("lengths") is not None:
        result["lengths"] = np.asarray(options["lengths"])
    if options.get("clip") is not None:
        result["clip_min"], result["clip_max"] = options["clip"]
        result["clip_nan"] = options.get("clip_nan", False)
    return result


def cast(arrays, dtype: str) -> list:
    return [None if array is None else np.ascontiguousarray(array, dtype) for array in arrays]


def core_forward(problem: Problem, dtype="float64", *, training=False, **extra):
    """(y, hN, cN, reserve)."""
    from fused_rnn import _core

    inputs = cast((problem.x, problem.params, problem.h0, problem.c0), dtype)
    return _core.forward(
        problem.shape.mode, *inputs, training=training, **core_arguments(problem), **extra
    )


def core_backward(problem: Problem, y, reserve, dtype="float64", **extra):
    """(dx, dparams, dh0, dc0) from the y and reserve of a training forward."""
    from fused_rnn import _core

    inputs = cast((problem.x, problem.params, problem.h0, problem.c0), dtype)
    heads = dict(zip(("dy", "dhN", "dcN"), cast((problem.dy, problem.dhN, problem.dcN), dtype)))
    return _core.backward(
        problem.shape.mode, *inputs, y, reserve, **heads, **core_arguments(problem), **extra
    )


def core_gradients(problem: Problem, dtype="float64", **extra):
    y, _, _, reserve = core_forward(problem, dtype, training=True)
    return core_backward(problem, y, reserve, dtype, **extra)


# The operator on MXNet arrays.


def operator_attributes(problem: Problem, **extra) -> dict[str, Any]:
    """Attributes of the operator that describe the problem; outputs all states unless told
    otherwise.
    """
    shape, options = problem.shape, problem.options
    result: dict[str, Any] = {
        "mode": reference.VARIANTS.get(shape.mode, shape.mode),
        "state_size": shape.H,
        "num_layers": shape.L,
        "bidirectional": shape.D == 2,
        "state_outputs": True,
    }
    if shape.mode in reference.VARIANTS:
        result["__fused_rnn_cell__"] = shape.mode
    if shape.P:
        result["projection_size"] = shape.P
    if options.get("lengths") is not None:
        result["use_sequence_length"] = True
    if options.get("clip") is not None:
        result["lstm_state_clip_min"], result["lstm_state_clip_max"] = options["clip"]
        result["lstm_state_clip_nan"] = options.get("clip_nan", False)
    result.update(extra)
    return result


def gluon_class(mode: str) -> tuple[str, dict[str, Any]]:
    """The name of a mode's layer in fused_rnn.gluon, and the options that make it."""
    if mode == "lstm_peephole":
        return "LSTM", {"peephole": True, "peephole_initializer": None}
    if mode == "gru_reset_before":
        return "GRU", {"reset_after": False}
    kind, _, activation = mode.partition("_")
    return kind.upper(), {"activation": activation} if activation else {}


def nd(value: np.ndarray, dtype="float64"):
    """An NDArray. MXNet makes bfloat16 ones only by a cast."""
    import mxnet as mx
    from mxnet.contrib.amp.amp import bfloat16

    if dtype == "bfloat16":
        return mx.nd.amp_cast(mx.nd.array(value), dtype=bfloat16)
    return mx.nd.array(value, dtype=dtype)


def to_numpy(array) -> np.ndarray:
    import mxnet as mx

    if array.dtype in (np.float16, np.float32, np.float64):
        return array.asnumpy()
    return mx.nd.amp_cast(array, dtype="float32").asnumpy()  # bfloat16


def operator_inputs(problem: Problem, dtype="float64", length_dtype="int32") -> list:
    """NDArrays in the operator's order: data, parameters, state, state_cell, sequence_length."""
    import mxnet as mx

    arrays = [nd(value, dtype) for value in problem.inputs]
    if problem.options.get("lengths") is not None:
        arrays.append(mx.nd.array(problem.options["lengths"], dtype=length_dtype))
    return arrays


def positional(arrays: list, problem: Problem) -> tuple[list, dict]:
    """Splits operator inputs into positional ones and keywords: the length's place differs between
    modes natively.
    """
    if problem.options.get("lengths") is None:
        return arrays, {}
    return arrays[:-1], {"sequence_length": arrays[-1]}


def operator_forward(
    problem: Problem, dtype="float64", *, op=None, arrays=None, **extra
) -> list[np.ndarray]:
    import mxnet as mx

    args, keywords = positional(arrays or operator_inputs(problem, dtype), problem)
    outputs = (op or mx.nd.FusedRNN)(*args, **keywords, **operator_attributes(problem, **extra))
    return [to_numpy(output) for output in (outputs if isinstance(outputs, list) else [outputs])]


def operator_gradients(problem: Problem, dtype="float64", *, op=None, train_mode=True, **extra):
    """(outputs, gradients) of a recorded call: lists in the order of Outputs and Gradients."""
    import mxnet as mx

    arrays = operator_inputs(problem, dtype)
    wanted = arrays[: len(problem.inputs)]
    for array in wanted:
        array.attach_grad()
    args, keywords = positional(arrays, problem)
    with mx.autograd.record(train_mode=train_mode):
        outputs = (op or mx.nd.FusedRNN)(*args, **keywords, **operator_attributes(problem, **extra))
    heads = [nd(head, dtype) for head in problem.heads]
    mx.autograd.backward(outputs, heads, train_mode=train_mode)
    return [to_numpy(output) for output in outputs], [to_numpy(array.grad) for array in wanted]


# Subprocesses. MXNet takes a second to import: a test file starts as few as it can.


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment without the product's own variables, changed (None removes)."""
    result = {k: v for k, v in os.environ.items() if not k.startswith("FUSED_RNN_")}
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    result["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), result.get("PYTHONPATH")]))
    return result


def run(
    arguments: list[str], *, timeout: float = 120, **env: str | None
) -> subprocess.CompletedProcess:
    """Runs this Python with arguments; the caller looks at the return code."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**env),
        cwd=TESTS,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
    )


def run_code(code: str, **keywords) -> str:
    """Output of a program that must succeed."""
    done = run(["-c", code], **keywords)
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_tests(*selection: str, **keywords) -> None:
    """Runs tests in another process (another environment); all must pass and at least one must
    run.
    """
    done = run(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *selection], **keywords)
    assert done.returncode == 0, done.stdout
