"""Random calls of the operator under install(): attributes, types, requests, routes; valid ones are
compared with the reference, invalid ones must be refused and leave the process right.

    python installed_fuzz.py COUNT          configurations 0 to COUNT - 1
    python installed_fuzz.py NUMBER --only  one of them, which it describes
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import Any, Callable

import masks
import mxnet as mx
import numpy as np
from helpers import (
    check_gradients,
    check_outputs,
    make,
    nd,
    operator_attributes,
    positional,
    to_numpy,
)
from mxnet.base import MXNetError
from reference import MODES, Gradients, Outputs

import fused_rnn

DTYPES = ("float64", "float64", "float32", "float32", "float16", "bfloat16")
LENGTH_DTYPES = ("int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16")
REQUESTS = ("write", "write", "add", "null")
INPUTS = ("data", "parameters", "state", "state_cell")
BLOCKS = ({}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True})


@dataclasses.dataclass
class Case:
    """A call: the problem, how it is made and what is asked of it."""

    number: int
    problem: Any
    op: str
    route: str
    dtype: str
    length_dtype: str
    requests: list[str]
    dropout: float
    is_train: bool
    state_outputs: bool
    rounds: int
    block: dict

    def attributes(self, **extra) -> dict[str, Any]:
        options = {"p": self.dropout, "state_outputs": self.state_outputs}
        return operator_attributes(self.problem, **{**options, **extra})

    def arrays(self) -> list:
        arrays = [nd(value, self.dtype) for value in self.problem.inputs]
        lengths = self.problem.options.get("lengths")
        if lengths is not None:
            arrays.append(nd(np.array(lengths, "float64"), self.length_dtype))
        return arrays

    def heads(self) -> list:
        heads = self.problem.heads if self.state_outputs else self.problem.heads[:1]
        return [nd(head, self.dtype) for head in heads]


def case(number: int) -> Case:
    rng = np.random.default_rng([7, number])

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    def size(usual: int, largest: int) -> int:
        return int(rng.integers(1, (largest if rng.random() < 0.1 else usual) + 1))

    mode = pick(*MODES)
    lstm = mode == "lstm"
    dtype = pick(*DTYPES)
    T, N, I, H = size(4, 9), size(3, 5), size(4, 17), size(4, 33)
    L, D = size(2, 3), size(2, 2)
    half = dtype in ("float16", "bfloat16")
    if half:
        T = min(T, 5)  # errors of storage add up
    P = int(rng.integers(1, H + 1)) if lstm and rng.random() < 0.3 else 0
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        options["lengths"] = [int(length) for length in rng.integers(0, T + 1, N)]
    if lstm and rng.random() < 0.3:
        low = -float(rng.random())
        options["clip"] = (low, low + 2 * float(rng.random()))
        options["clip_nan"] = bool(rng.random() < 0.5)
    problem = make(mode, T, N, I, H, L, D, P, seed=number, dtype=dtype, **options)
    if half:
        # The rounding of an output acts on a gradient as much as the gradients that come to it are
        # large, which the tolerance leaves out.
        for head in problem.heads:
            head *= 0.25
    if "lengths" in options and rng.random() < 0.5:
        padding = np.arange(T)[:, None] >= np.array(options["lengths"])
        problem.x[padding] = np.nan
        problem.dy[padding] = np.nan
    return Case(
        number,
        problem,
        op=pick("RNN", "FusedRNN"),
        # MXNet makes arrays of bfloat16 by a cast only, and no executor takes them.
        route="nd" if dtype == "bfloat16" else pick("nd", "nd", "bind", "block"),
        dtype=dtype,
        length_dtype=pick(*LENGTH_DTYPES[:-1], *(["bfloat16"] if dtype == "bfloat16" else [])),
        requests=[pick(*REQUESTS) for _ in problem.inputs],
        dropout=pick(0.0, 0.0, 0.25, 0.5, 1.0),
        is_train=rng.random() < 0.8,
        state_outputs=rng.random() < 0.7,
        rounds=pick(1, 1, 2),
        block=pick(*BLOCKS),
    )


# Routes: each runs a case's rounds, and gives the last outputs and the gradients.


def imperative(case: Case, arrays: list, function: Callable | None = None):
    for array, request in zip(arrays, case.requests):
        if request != "null":
            array.attach_grad(request)
            array.grad[:] = 1
    args, keywords = positional(arrays, case.problem)
    for _ in range(case.rounds):
        mx.random.seed(case.number)
        with mx.autograd.record(train_mode=case.is_train):
            if function is None:
                outputs = getattr(mx.nd, case.op)(*args, **keywords, **case.attributes())
            else:
                outputs = function(*arrays)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        if any(request != "null" for request in case.requests):
            mx.autograd.backward(outputs, case.heads(), train_mode=case.is_train)
    return outputs, [array.grad for array in arrays[: len(case.requests)]]


class Block(mx.gluon.HybridBlock):
    """The operator on the block's inputs."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def hybrid_forward(self, F, *inputs):
        args, keywords = positional(list(inputs), self.case.problem)
        return getattr(F, self.case.op)(*args, **keywords, **self.case.attributes())


def block(case: Case, arrays: list):
    net = Block(case)
    net.hybridize(**case.block)
    return imperative(case, arrays, net)


def symbol(case: Case, **extra):
    names = INPUTS[: len(case.problem.inputs)]
    lengths = case.problem.options.get("lengths")
    variables = {name: mx.sym.var(name) for name in names}
    if lengths is not None:
        variables["sequence_length"] = mx.sym.var("sequence_length")
    return getattr(mx.sym, case.op)(**variables, **case.attributes(**extra), name="a")


def bind(case: Case, arrays: list):
    net = symbol(case)
    names = net.list_arguments()
    values = dict(zip(INPUTS[: len(case.problem.inputs)], arrays))
    if len(arrays) > len(values):
        values["sequence_length"] = arrays[-1]
    requests = {name: "null" for name in names}
    requests.update(zip(INPUTS, case.requests))
    grads = {name: mx.nd.ones_like(values[name]) for name in names if requests[name] != "null"}
    executor = net.bind(mx.cpu(), values, grads, requests)
    for _ in range(case.rounds):
        mx.nd.waitall()  # an executor's calls look at the latest is_train when they run
        mx.random.seed(case.number)
        executor.forward(is_train=case.is_train)
        if grads:
            executor.backward(case.heads(), is_train=case.is_train)
    return executor.outputs, [grads.get(name) for name in INPUTS[: len(case.problem.inputs)]]


ROUTES = {"nd": imperative, "block": block, "bind": bind}


def found_masks(case: Case):
    if case.dropout == 0 or case.problem.shape.L == 1 or not case.is_train:
        return None

    def run(net):
        mx.random.seed(case.number)
        arrays = [nd(value) for value in net.inputs]
        with mx.autograd.train_mode():
            outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(net, p=case.dropout))
        return outputs[0].asnumpy()

    return masks.find(case.problem.shape, run)


def run_valid(case: Case) -> None:
    problem = case.problem
    if not case.state_outputs:
        problem = problem.replace(dhN=None, dcN=None)
    problem = problem.replace(options={**problem.options, "masks": found_masks(case)})
    outputs, gradients = ROUTES[case.route](case, case.arrays())
    expected = problem.outputs()
    shown = expected if case.state_outputs else Outputs(expected.y, None, None)
    check_outputs([to_numpy(output) for output in outputs], shown, problem.shape, case.dtype)
    targets = []
    for gradient, request in zip(problem.gradients(), [*case.requests, "null"]):
        target = None if request == "null" else gradient
        if target is not None and request == "add":
            target = 1 + case.rounds * target
        targets.append(target)
    targets += [None] * (len(Gradients._fields) - len(targets))
    actual = [None if gradient is None else to_numpy(gradient) for gradient in gradients]
    check_gradients(actual, Gradients(*targets), problem.shape, case.dtype)


# What is wrong with an invalid call: changes to the attributes, or to one of the arrays.


def resized(axis: int, by: int):
    def change(array):
        shape = list(array.shape)
        shape[axis] += by
        return mx.nd.zeros(shape, dtype=array.dtype)

    return change


def retyped(array):
    other = "float32" if array.dtype == np.float64 else "float64"
    return mx.nd.zeros(array.shape, dtype=other)


def filled(value: Callable[[Case], float]):
    return lambda array, case: mx.nd.full(array.shape, value(case), dtype="float64")


NAN = float("nan")
ATTRIBUTES: tuple[dict[str, Any], ...] = (
    *({"p": p} for p in (NAN, -0.1, 1.5, float("inf"), "half")),
    *({"state_size": size} for size in (0, -1, -(2**31), 2**31 - 1, 2**40, 2.5, "x")),
    *({"num_layers": size} for size in (0, -1, 2**31 - 1, 2**40, 1.5)),
    *({"mode": mode} for mode in ("elman", "", "LSTM", 3.5)),
    *({"projection_size": size} for size in (-1, 2**20, -(2**31), "x")),
    {"lstm_state_clip_min": -1, "lstm_state_clip_max": None},
    {"lstm_state_clip_min": None, "lstm_state_clip_max": 1},
    {"lstm_state_clip_min": 1, "lstm_state_clip_max": -1},
    {"lstm_state_clip_min": NAN, "lstm_state_clip_max": 1},
    {"lstm_state_clip_min": -1, "lstm_state_clip_max": NAN},
    {"bidirectional": "perhaps"},
    {"units": 3},
)
ARRAYS: tuple[tuple[int, Callable], ...] = (
    *((k, resized(axis, 1)) for k in (2, 3) for axis in (0, 1, 2)),
    *((1, resized(0, by)) for by in (-1, 1, 1000)),
    *((k, retyped) for k in (0, 1, 2, 3)),
    *((k, lambda array: array.expand_dims(0)) for k in range(4)),
    (0, lambda array: array.reshape((-1,))),
)
LENGTHS = (
    lambda case: case.problem.shape.T + 1,
    lambda case: -1,
    lambda case: 0.5,
    lambda case: NAN,
    lambda case: float("inf"),
    lambda case: 1e30,
)


def run_invalid(case: Case) -> None:
    """The case with one thing wrong."""
    rng = np.random.default_rng([8, case.number])
    if case.dtype == "bfloat16":
        case = dataclasses.replace(case, dtype="float32")
    arrays, attributes = case.arrays(), case.attributes()
    kinds = ["attribute", "attribute", "array", "array", "missing"]
    if case.problem.options.get("lengths") is not None:
        kinds += ["lengths", "lengths shape"]
    kind = kinds[rng.integers(len(kinds))]
    what: Any = kind
    if kind == "attribute":
        what = ATTRIBUTES[rng.integers(len(ATTRIBUTES))]
        attributes.update(what)
    elif kind == "array":
        fitting = [entry for entry in ARRAYS if entry[0] < len(case.problem.inputs)]
        index, change = fitting[rng.integers(len(fitting))]
        what = (INPUTS[index], change)
        arrays[index] = change(arrays[index])
    elif kind == "missing":
        del arrays[rng.integers(len(arrays))]
    elif kind == "lengths":
        arrays[-1] = mx.nd.full(arrays[-1].shape, LENGTHS[rng.integers(len(LENGTHS))](case))
    else:
        arrays[-1] = resized(0, 1)(arrays[-1])
    outputs: list = []
    try:
        arrays[0].attach_grad()
        with mx.autograd.record(train_mode=case.is_train):
            outputs = getattr(mx.nd, case.op)(*arrays, **attributes)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        if rng.random() < 0.5:
            mx.autograd.backward(outputs)
        for output in outputs:
            output.wait_to_read()
    except (MXNetError, ValueError):
        pass
    else:
        raise AssertionError(f"accepted: {what}")
    finally:
        for output in outputs:
            with contextlib.suppress(MXNetError):
                output.wait_to_read()
        with contextlib.suppress(MXNetError):
            mx.nd.waitall()


SAFE = make("lstm", T=3, N=2, I=2, H=3, L=2, D=2, lengths=[3, 1])
SAFE_RESULTS = (SAFE.outputs(), SAFE.gradients())


def check_process() -> None:
    """A good call, after a refused one."""
    arrays = [*map(nd, SAFE.inputs), mx.nd.array([3, 1], dtype="int32")]
    for array in arrays[:4]:
        array.attach_grad()
    with mx.autograd.record():
        outputs = mx.nd.RNN(*arrays, **operator_attributes(SAFE))
    mx.autograd.backward(outputs, [nd(head) for head in SAFE.heads])
    check_outputs([a.asnumpy() for a in outputs], SAFE_RESULTS[0], SAFE.shape)
    check_gradients([a.grad.asnumpy() for a in arrays[:4]], SAFE_RESULTS[1], SAFE.shape)


def run(number: int) -> None:
    chosen = case(number)
    if number % 3 == 2:
        run_invalid(chosen)
        check_process()
    else:
        run_valid(chosen)


def main(arguments: list[str]) -> None:
    fused_rnn.install()
    number = int(arguments[0])
    only = arguments[1:] == ["--only"]
    if only:
        print(case(number))
    numbers = [number] if only else range(number)
    for at in numbers:
        try:
            run(at)
        except BaseException:
            print(f"configuration {at}: python tests/installed_fuzz.py {at} --only")
            raise
    mx.nd.waitall()
    print(f"{len(numbers)} configurations")


if __name__ == "__main__":
    main(sys.argv[1:])
