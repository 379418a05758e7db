"""Weights in the form of PyTorch."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from fused_rnn._arrays import as_numpy
from fused_rnn._cells import CELLS
from fused_rnn.weights.layout import Layout, Part

__all__ = ["from_torch", "to_torch"]

_TORCH_PARTS = {
    "i2h_weight": "weight_ih",
    "h2h_weight": "weight_hh",
    "h2r_weight": "weight_hr",
    "i2h_bias": "bias_ih",
    "h2h_bias": "bias_hh",
}


def _check_mode(name: str, mode: str) -> None:
    if mode in CELLS and CELLS[mode].torch is None:
        known = ", ".join(mode for mode, cell in CELLS.items() if cell.torch is not None)
        raise ValueError(f"{name}: expected a mode that torch.nn has ({known}), found '{mode}'")


def _torch_name(part: Part) -> str:
    return f"{_TORCH_PARTS[part.kind]}_l{part.layer}{'_reverse' * part.direction}"


def to_torch(layout: Layout, params: np.ndarray) -> dict[str, np.ndarray]:
    """The state dictionary of `torch.nn.LSTM`, `GRU` or `RNN` for parameters of the operator.

    Gates have the same order in both, so that only names and places change.

    Parameters
    ----------
    layout : Layout
        What the parameters are of.
    params : array [layout.size]
        Parameters.

    Returns
    -------
    dict
        Arrays that share the memory of params.

    Raises
    ------
    ValueError
        For a mode that PyTorch lacks, and params of another size.

    Examples
    --------
    >>> layout = fused_rnn.weights.Layout("gru", input_size=3, hidden_size=4)
    >>> arrays = fused_rnn.weights.to_torch(layout, np.zeros(108))
    >>> list(arrays)
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """
    _check_mode("layout", layout.mode)
    arrays = layout.split(params)
    return {_torch_name(part): arrays[name] for name, part in layout.parts.items()}


def from_torch(
    state_dict: Mapping[str, Any], mode: str, prefix: str = ""
) -> tuple[Layout, np.ndarray]:
    """Parameters of the operator from a module `torch.nn.LSTM`, `GRU` or `RNN`.

    Parameters
    ----------
    state_dict : mapping of names to tensors or arrays
        As `module.state_dict()` gives it, on the CPU. Biases may be missing (``bias=False``); they
        are zeros then.
    mode : str
        As for `fused_rnn.sym.RNN`; shapes do not tell "rnn_tanh" and "rnn_relu" apart.
    prefix : str
        What names begin with if the module is part of another one, such as "encoder."; other
        names are left out.

    Returns
    -------
    layout : Layout
        Found from names and shapes.
    params : array [layout.size]
        Parameters.

    Raises
    ------
    ValueError
        If the dictionary does not fit the mode, or PyTorch lacks that.
    """
    _check_mode("mode", mode)
    found = {
        name[len(prefix) :]: as_numpy(f"state_dict['{name}']", value)
        for name, value in state_dict.items()
        if name.startswith(prefix)
    }
    if "weight_ih_l0" not in found:
        raise ValueError(f"state_dict: expected '{prefix}weight_ih_l0', found {list(state_dict)}")
    first = found["weight_ih_l0"]
    num_layers = 0
    while f"weight_ih_l{num_layers}" in found:
        num_layers += 1
    projection = found.get("weight_hr_l0")
    layout = Layout(
        mode,
        first.shape[1],
        len(first) // (len(CELLS[mode].gates) if mode in CELLS else 1),
        num_layers,
        "weight_ih_l0_reverse" in found,
        0 if projection is None else len(projection),
    )
    parts = {}
    for part in layout.parts.values():
        name = _torch_name(part)
        zeros = np.zeros(part.shape, first.dtype) if part.kind.endswith("bias") else None
        array = found.pop(name, zeros)
        if array is None:
            raise ValueError(f"state_dict: expected '{prefix}{name}', found none")
        if array.shape != part.shape:
            raise ValueError(
                f"state_dict['{prefix}{name}']: expected shape {part.shape} in mode '{mode}', "
                f"found {array.shape}"
            )
        parts[part.name] = array
    if found:
        raise ValueError(f"state_dict: unknown names {sorted(found)}")
    return layout, layout.join(parts)
