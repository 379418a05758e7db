"""What a training forward on NumPy arrays keeps for its backward pass."""

from __future__ import annotations

from typing import Any, Collection, Sequence

import numpy as np

from fused_rnn import _core
from fused_rnn._arrays import as_numpy

__all__ = ["Recording"]

_INPUTS = ("x", "params", "h0", "c0")


class Recording:
    """A training forward whose backward pass refuses arrays that were changed since.

    The arrays are the caller's own, output included: copies would cost as much memory again. A hash
    of their contents tells a change.

    Parameters
    ----------
    mode : str
        As for `_core.forward`.
    inputs : sequence of array or None
        x, params, h0 and c0.
    options : dict
        Those that the forward and the backward pass have in common.
    **forward_only
        Further arguments of `_core.forward`.
    """

    def __init__(
        self,
        mode: str,
        inputs: Sequence[np.ndarray | None],
        options: dict[str, Any],
        **forward_only: Any,
    ) -> None:
        held = {**dict(zip(_INPUTS, inputs)), "lengths": options["lengths"]}
        # Views, which keep shape and type when the caller sets those of the array.
        self._held = {name: None if a is None else a.view() for name, a in held.items()}
        self._mode = mode
        self._options = {name: value for name, value in options.items() if name != "lengths"}
        self._hashes = self._contents()
        *found, self._reserve = _core.forward(
            mode, *inputs, training=True, **options, **forward_only
        )
        self.outputs = [array for array in found if array is not None]
        y = self._held["y"] = self.outputs[0].view()
        self._hashes["y"] = _core.content_hash(y)

    def _contents(self) -> dict[str, int]:
        return {n: _core.content_hash(a) for n, a in self._held.items() if a is not None}

    def backward(self, heads: Sequence[Any], wanted: str | Collection[str]) -> tuple:
        """The gradients by x, params, h0 and c0; None for those not wanted."""
        wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        heads = [
            None if head is None else as_numpy(name, head)
            for name, head in zip(("dy", "dhN", "dcN"), heads)
        ]
        unknown = sorted(set(wanted) - set(_INPUTS))
        if unknown:
            raise ValueError(f"wanted: expected names among {_INPUTS}, found {unknown}")
        now = self._contents()
        changed = [name for name, before in self._hashes.items() if now[name] != before]
        if changed:
            raise ValueError(
                f"{', '.join(changed)}: changed since the forward call, whose gradients follow "
                "from the contents at that time; change a copy instead, for instance "
                "backward(y - target) in place of y -= target"
            )
        requests = {f"d{name}_req": "write" if name in wanted else "null" for name in _INPUTS}
        inputs = (self._held[name] for name in (*_INPUTS, "y"))
        heads = [None if head is None else np.asarray(head) for head in heads]
        return _core.backward(
            self._mode,
            *inputs,
            self._reserve,
            *heads,
            lengths=self._held["lengths"],
            **self._options,
            **requests,
        )
