"""What the operator must compute, in double precision and in the plainest form.

Shares no code with the product. Everything runs per layer, direction, sample and time step, on
vectors. `forward` takes extra leading axes on any input, which broadcast: `numeric_gradients` puts
all perturbed copies of an input there, so that central differences cost one vectorised run.
`backward` is the chain rule written out; test_reference.py holds it against the central
differences, and larger problems then use it.

Letters are those of the product's header: T steps, N samples, I inputs, H units, L layers, D
directions, P projected units.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")  # what the native operator has
VARIANTS = {"lstm_peephole": "lstm", "gru_reset_before": "gru"}  # what it lacks, and its nearest
GATES = dict(zip(MODES, (1, 1, 4, 3)), lstm_peephole=4, gru_reset_before=3)
CELLS = tuple(GATES)  # what the product has
LSTMS = ("lstm", "lstm_peephole")  # those with a cell state, which may be projected and clipped


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a problem."""

    mode: str
    T: int
    N: int
    I: int
    H: int
    L: int = 1
    D: int = 1
    P: int = 0

    @property
    def G(self) -> int:
        return GATES[self.mode]

    @property
    def S(self) -> int:
        """Width of a hidden state, and of one direction's output."""
        return self.P or self.H

    def width(self, layer: int) -> int:
        """Width of the input of a layer."""
        return self.D * self.S if layer else self.I

    def cells(self) -> Iterator[tuple[int, int]]:
        """(layer, direction) of every cell, in the order of states and parameters."""
        return ((l, d) for l in range(self.L) for d in range(self.D))

    def blocks(self) -> list[tuple[int, int, str, tuple[int, ...]]]:
        """(layer, direction, name, shape) of every part of the flat parameter vector, in order."""
        rows = self.G * self.H
        result: list[tuple[int, int, str, tuple[int, ...]]] = []
        for l, d in self.cells():
            result.append((l, d, "W", (rows, self.width(l))))
            result.append((l, d, "R", (rows, self.S)))
            if self.P:
                result.append((l, d, "Wp", (self.P, self.H)))
        for l, d in self.cells():
            result.append((l, d, "bW", (rows,)))
            result.append((l, d, "bR", (rows,)))
        if self.mode == "lstm_peephole":
            result += [(l, d, "p", (3 * self.H,)) for l, d in self.cells()]
        return result

    @property
    def param_count(self) -> int:
        return sum(int(np.prod(shape)) for *_, shape in self.blocks())


Weights = "dict[tuple[int, int, str], np.ndarray]"


def unpack(shape: Shape, params: np.ndarray) -> Weights:
    """Splits parameters [..., size] into {(layer, direction, name): [..., shape of the part]}."""
    assert params.shape[-1] == shape.param_count, (params.shape, shape.param_count)
    result = {}
    offset = 0
    for l, d, name, part in shape.blocks():
        size = int(np.prod(part))
        result[l, d, name] = params[..., offset : offset + size].reshape(params.shape[:-1] + part)
        offset += size
    return result


def pack(shape: Shape, weights: Weights) -> np.ndarray:
    """The inverse of `unpack`, for parts without leading axes."""
    return np.concatenate([weights[l, d, name].reshape(-1) for l, d, name, _ in shape.blocks()])


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * a))


def _relu(a: np.ndarray) -> np.ndarray:
    return np.where(a < 0, 0.0, a)  # keeps NaN


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...j->...i", matrix, vector)


class Options(NamedTuple):
    """Features beyond the plain recurrence."""

    lengths: Any = None  # [N]
    clip: tuple[float, float] | None = None
    clip_nan: bool = False
    masks: Any = (
        None  # L-1 arrays [T, N, D*S]: what a layer's output is multiplied with on its way up
    )


class Outputs(NamedTuple):
    y: np.ndarray
    hN: np.ndarray
    cN: np.ndarray | None


def _step(shape, w, x, h, c, options):
    """One cell at one time step: h, c, and what the backward step needs."""
    a = _times(w["W"], x) + w["bW"]
    b = _times(w["R"], h) + w["bR"]
    H = shape.H
    if shape.mode == "rnn_tanh":
        out = np.tanh(a + b)
        return out, None, (x, h, out)
    if shape.mode == "rnn_relu":
        out = _relu(a + b)
        return out, None, (x, h, out)
    if shape.mode == "gru":
        r = sigmoid(a[..., :H] + b[..., :H])
        z = sigmoid(a[..., H : 2 * H] + b[..., H : 2 * H])
        b_n = b[..., 2 * H :]
        n = np.tanh(a[..., 2 * H :] + r * b_n)
        return (1 - z) * n + z * h, None, (x, h, r, z, n, b_n)
    if shape.mode == "gru_reset_before":
        r = sigmoid(a[..., :H] + b[..., :H])
        z = sigmoid(a[..., H : 2 * H] + b[..., H : 2 * H])
        b_n = _times(w["R"][..., 2 * H :, :], r * h) + w["bR"][..., 2 * H :]
        n = np.tanh(a[..., 2 * H :] + b_n)
        return (1 - z) * n + z * h, None, (x, h, r, z, n)
    i, f, g, o = ((a + b)[..., k * H : (k + 1) * H] for k in range(4))
    if shape.mode == "lstm_peephole":
        p_i, p_f, p_o = (w["p"][..., k * H : (k + 1) * H] for k in range(3))
        i, f = i + p_i * c, f + p_f * c
    i, f, g = sigmoid(i), sigmoid(f), np.tanh(g)
    raw = f * c + i * g
    new_c = raw
    inside = np.ones(raw.shape)
    if options.clip is not None:
        low, high = options.clip
        inside = np.where((raw < low) | (raw > high), 0.0, 1.0)
        new_c = np.where(raw < low, low, np.where(raw > high, high, raw))
        if options.clip_nan:
            inside = np.where(np.isnan(raw), 0.0, inside)
            new_c = np.where(np.isnan(raw), low, new_c)
    if shape.mode == "lstm_peephole":
        o = o + p_o * new_c
    o = sigmoid(o)
    full = o * np.tanh(new_c)
    out = _times(w["Wp"], full) if shape.P else full
    return out, new_c, (x, h, c, i, f, g, o, new_c, inside, full)


def _steps(direction: int, length: int) -> range:
    """Time steps in the order in which a direction visits them."""
    return range(length) if direction == 0 else range(length - 1, -1, -1)


def _lengths(shape: Shape, options: Options) -> list[int]:
    if options.lengths is None:
        return [shape.T] * shape.N
    return [int(length) for length in options.lengths]


def _cell_weights(shape: Shape, weights: Weights, l: int, d: int) -> dict[str, np.ndarray]:
    return {name: part for (layer, side, name), part in weights.items() if (layer, side) == (l, d)}


def _run(shape: Shape, x, params, h0, c0, options: Options):
    """Outputs, and the saved values of every step keyed by (layer, direction, sample, time)."""
    leading = np.broadcast_shapes(
        x.shape[:-3], params.shape[:-1], h0.shape[:-3], c0.shape[:-3] if c0 is not None else ()
    )
    weights = unpack(shape, params)
    lengths = _lengths(shape, options)
    hN = np.zeros(leading + (shape.L * shape.D, shape.N, shape.S))
    cN = np.zeros(leading + (shape.L * shape.D, shape.N, shape.H)) if c0 is not None else None
    saved = {}
    below = x
    for l in range(shape.L):
        out = np.zeros(leading + (shape.T, shape.N, shape.D * shape.S))
        for d in range(shape.D):
            k = l * shape.D + d
            w = _cell_weights(shape, weights, l, d)
            columns = slice(d * shape.S, (d + 1) * shape.S)
            for n in range(shape.N):
                h = h0[..., k, n, :]
                c = c0[..., k, n, :] if c0 is not None else None
                for t in _steps(d, lengths[n]):
                    h, c, saved[l, d, n, t] = _step(shape, w, below[..., t, n, :], h, c, options)
                    out[..., t, n, columns] = h
                hN[..., k, n, :] = h
                if cN is not None:
                    cN[..., k, n, :] = c
        below = out
        if options.masks is not None and l < shape.L - 1:
            below = out * options.masks[l]
    return Outputs(out, hN, cN), saved


def forward(shape: Shape, x, params, h0, c0=None, **options) -> Outputs:
    """y, hN, cN (None without cells)."""
    with np.errstate(all="ignore"):  # tests pass infinities on purpose
        return _run(shape, x, params, h0, c0, Options(**options))[0]


def _step_backward(shape, w, saved, dh, dc):
    """Gradients of one step: dx, dh, dc of the step before, and of the weights."""
    if shape.mode in ("rnn_tanh", "rnn_relu"):
        x, h, out = saved
        da = dh * (1 - out * out) if shape.mode == "rnn_tanh" else dh * (out > 0)
        db = da
        dh_before = np.zeros(shape.S)
        dc_before = None
        grads = {}
    elif shape.mode == "gru":
        x, h, r, z, n, b_n = saved
        dn = dh * (1 - z) * (1 - n * n)
        dz = dh * (h - n) * z * (1 - z)
        dr = dn * b_n * r * (1 - r)
        da = np.concatenate([dr, dz, dn])
        db = np.concatenate([dr, dz, dn * r])
        dh_before = dh * z
        dc_before = None
        grads = {}
    elif shape.mode == "gru_reset_before":
        x, h, r, z, n = saved
        H = shape.H
        dn = dh * (1 - z) * (1 - n * n)
        dz = dh * (h - n) * z * (1 - z)
        drh = w["R"][2 * H :].T @ dn
        dr = drh * h * r * (1 - r)
        da = db = np.concatenate([dr, dz, dn])
        dgates = np.concatenate([dr, dz])
        grads = {
            "W": np.outer(da, x),
            "R": np.concatenate([np.outer(dgates, h), np.outer(dn, r * h)]),
            "bW": da,
            "bR": db,
        }
        return w["W"].T @ da, dh * z + drh * r + w["R"][: 2 * H].T @ dgates, None, grads
    else:
        x, h, c, i, f, g, o, new_c, inside, full = saved
        grads = {"Wp": np.outer(dh, full)} if shape.P else {}
        dfull = w["Wp"].T @ dh if shape.P else dh
        tanh_c = np.tanh(new_c)
        do = dfull * tanh_c * o * (1 - o)
        dnew_c = dc + dfull * o * (1 - tanh_c**2)
        if shape.mode == "lstm_peephole":
            p_i, p_f, p_o = np.split(w["p"], 3)
            dnew_c = dnew_c + do * p_o
        draw = dnew_c * inside
        di, df = draw * g * i * (1 - i), draw * c * f * (1 - f)
        da = np.concatenate([di, df, draw * i * (1 - g * g), do])
        db = da
        dh_before = np.zeros(shape.S)
        dc_before = draw * f
        if shape.mode == "lstm_peephole":
            dc_before = dc_before + di * p_i + df * p_f
            grads["p"] = np.concatenate([di * c, df * c, do * new_c])
    grads.update(W=np.outer(da, x), R=np.outer(db, h), bW=da, bR=db)
    return w["W"].T @ da, dh_before + w["R"].T @ db, dc_before, grads


class Gradients(NamedTuple):
    dx: np.ndarray
    dparams: np.ndarray
    dh0: np.ndarray
    dc0: np.ndarray | None


def backward(
    shape: Shape, x, params, h0, c0=None, dy=None, dhN=None, dcN=None, **options
) -> Gradients:
    """Gradients of sum(y dy) + sum(hN dhN) + sum(cN dcN); a missing head gradient is zero."""
    given = Options(**options)
    outputs, saved = _run(shape, x, params, h0, c0, given)
    weights = unpack(shape, params)
    totals = {(l, d, name): np.zeros(part) for l, d, name, part in shape.blocks()}
    lengths = _lengths(shape, given)
    dh0 = np.zeros(h0.shape)
    dc0 = np.zeros(c0.shape) if c0 is not None else None
    dout = np.zeros(outputs.y.shape) if dy is None else dy
    for l in reversed(range(shape.L)):
        dbelow = np.zeros((shape.T, shape.N, shape.width(l)))
        for d in range(shape.D):
            k = l * shape.D + d
            w = _cell_weights(shape, weights, l, d)
            columns = slice(d * shape.S, (d + 1) * shape.S)
            for n in range(shape.N):
                dh = np.zeros(shape.S) if dhN is None else dhN[k, n]
                dc = None
                if c0 is not None:
                    dc = np.zeros(shape.H) if dcN is None else dcN[k, n]
                for t in reversed(_steps(d, lengths[n])):
                    dx, dh, dc, grads = _step_backward(
                        shape, w, saved[l, d, n, t], dh + dout[t, n, columns], dc
                    )
                    dbelow[t, n] += dx
                    for name, grad in grads.items():
                        totals[l, d, name] += grad
                dh0[k, n] = dh
                if dc0 is not None:
                    dc0[k, n] = dc
        dout = dbelow
        if given.masks is not None and l > 0:
            dout = dbelow * given.masks[l - 1]
    return Gradients(dout, pack(shape, totals), dh0, dc0)


def central_differences(
    loss: Callable[[np.ndarray], np.ndarray], value: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Gradient of loss, a function of copies [K, *value.shape] to [K], at value."""
    flat = value.reshape(-1)
    result = np.zeros(flat.size)
    for begin in range(0, flat.size, 512):  # bounds memory
        index = np.arange(begin, min(begin + 512, flat.size))
        shift = np.zeros((index.size, flat.size))
        shift[np.arange(index.size), index] = step
        ends = [loss((flat + s).reshape((index.size,) + value.shape)) for s in (shift, -shift)]
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result.reshape(value.shape)


def numeric_gradients(
    shape: Shape, x, params, h0, c0=None, dy=None, dhN=None, dcN=None, **options
) -> Gradients:
    """`backward` by central differences."""
    inputs = {"x": x, "params": params, "h0": h0, "c0": c0}
    if (
        dy is not None
    ):  # outputs beyond a sequence's length are constants: 0 * dy must be 0, also for NaN
        used = np.arange(shape.T)[:, None] < _lengths(shape, Options(**options))
        dy = np.where(used[:, :, None], dy, 0.0)

    def loss(name: str, copies: np.ndarray) -> np.ndarray:
        outputs = forward(shape, **{**inputs, name: copies}, **options)
        total = np.zeros(len(copies))
        for output, head in zip(outputs, (dy, dhN, dcN)):
            if output is not None and head is not None:
                total = total + (output * head).sum(axis=(-3, -2, -1))
        return total

    return Gradients(
        *(
            None if value is None else central_differences(lambda v, n=name: loss(n, v), value)
            for name, value in inputs.items()
        )
    )


# Unit of the last place at 1. The half types only store values: sums run in float32.
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def tolerance(shape: Shape, dtype: str, expected: np.ndarray, *, gradient: bool = False) -> float:
    """Largest allowed absolute difference from the reference, if weights let errors die out.

    A value is the end of a chain of T*L steps. Each step rounds a sum of `terms` products and a few
    gate operations; independent roundings add up like a random walk, hence the root. Weight
    gradients are sums over T*N products on top. Errors scale with the largest value. 4 = 2 units in
    the last place per gate operation, times 2 standard deviations. The half types round once per
    step, when h is stored, by half a unit: `terms` plays no part there.
    """
    finite = np.abs(expected[np.isfinite(expected)])
    magnitude = max(1.0, float(finite.max()) if finite.size else 0.0)
    steps = max(1, shape.T * shape.L)
    if dtype in ("float16", "bfloat16"):
        return EPS[dtype] * steps**0.5 * magnitude
    terms = max(shape.width(l) for l in range(shape.L)) + shape.S
    if gradient:
        terms = max(terms, shape.T * shape.N) + shape.G * shape.H
    return 4 * EPS[dtype] * (steps * terms) ** 0.5 * magnitude
