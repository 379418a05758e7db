"""One flat parameter that is initialised, saved and loaded as the many that mx.gluon.rnn has."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping

import mxnet as mx
from mxnet import autograd
from mxnet.gluon import Block, Parameter
from mxnet.gluon.parameter import ParameterDict

from fused_rnn.weights import Layout

__all__ = ["FusedParameter", "PartParameter", "split_params"]


class FusedParameter(Parameter):
    """All weights and biases of a layer as one vector, in the order of the operator's `parameters`.

    Everything a `Parameter` does is done for the whole. `parts` maps the names that mx.gluon.rnn
    uses to parameters that are windows into it.

    Parameters
    ----------
    name : str
        Name of the whole; the text before its last "parameters" is the parts' prefix.
    layout : Layout
        What is where in it. Its input size is 0 if that is not known yet.
    initializers : mapping
        For each part its own initialiser, or None, in the order in which mx.gluon.rnn makes them;
        so initial values from a seed are the same.
    **kwargs
        Further arguments of `Parameter`.
    """

    def __init__(
        self, name: str, layout: Layout, initializers: Mapping[str, Any], **kwargs: Any
    ) -> None:
        prefix = name[: name.rindex("parameters")]
        self.parts = {
            key: PartParameter(self, prefix + key, key, init) for key, init in initializers.items()
        }
        self._given = self._layout = layout
        self._waiting: dict[str, mx.nd.NDArray] = {}  # parts that came before the whole was there
        self._views: dict[str, list[mx.nd.NDArray]] = {}
        self._views_of: list[mx.nd.NDArray] | None = None
        super().__init__(name, shape=(0,), allow_deferred_init=True, **kwargs)
        if layout.input_size:
            self.set_input_size(layout.input_size)

    def set_input_size(self, input_size: int) -> None:
        """Makes the shape known; input_size counts only if the layout left it open."""
        known = self._given.input_size or input_size
        self.shape = (dataclasses.replace(self._given, input_size=known).size,)

    @property
    def layout(self) -> Layout:
        """What is where; the input size in it is 0 as long as it is not known."""
        if not self._layout.input_size and self._shape[0] > 0:
            found = self._layout.input_size_for(self._shape[0])
            self._layout = dataclasses.replace(self._layout, input_size=found or 0)
        return self._layout

    def window(self, part: PartParameter, whole: mx.nd.NDArray) -> mx.nd.NDArray:
        """The part of an array that holds the whole; shares its memory, and autograd records it."""
        place = self.layout.parts[part.key]
        flat = whole.as_nd_ndarray()
        window = flat[place.begin : place.end].reshape(place.shape)
        return window if flat is whole else window.as_np_ndarray()

    def windows(
        self, part: PartParameter, wholes: list[mx.nd.NDArray] | None
    ) -> list[mx.nd.NDArray] | None:
        """The part of each context's array."""
        return wholes and [self.window(part, whole) for whole in wholes]

    def trained_views(self, part: PartParameter) -> list[mx.nd.NDArray] | None:
        """Windows that tell a Trainer whether a backward pass wrote their gradient since its step.

        MXNet keeps this mark in an array; a window has none unless it is a variable of its own. The
        mark of the whole goes over to the windows of all parts.
        """
        if self._data is None or self._grad is None:
            return self.windows(part, self._data)
        if self._views_of is not self._data:
            made = {}
            for each in self.parts.values():
                made[each.name] = self.windows(each, self._data)
                gradients = self.windows(each, self._grad)
                autograd.mark_variables(made[each.name], gradients, self.grad_req)
            self._views, self._views_of = made, self._data  # in this order, for other threads
        for k, array in enumerate(self._data):
            if array._fresh_grad:
                array._fresh_grad = False
                for views in self._views.values():
                    views[k]._fresh_grad = True
        return self._views[part.name]

    def receive(self, part: PartParameter, data: mx.nd.NDArray, ctx: list | None) -> None:
        """Keeps a part's data until the whole is initialised; that is now if all parts are here."""
        self._waiting[part.name] = data
        if ctx is not None and len(self._waiting) == len(self.parts):
            with autograd.pause():
                whole = self._assemble()
                self._deferred_init = ()
                self._init_impl(whole, ctx)

    def initialize(
        self,
        init: Any = None,
        ctx: Any = None,
        default_init: Any = mx.init.Uniform(),  # noqa: B008  the base's own default
        force_reinit: bool = False,
    ) -> None:
        """Initialises each part with its own initialiser, or with `init` if that is given.

        Parts of known shape get their values now, even if the whole has to wait for the input size:
        mx.gluon.rnn draws its random numbers in this order.
        """
        if force_reinit:
            self._waiting.clear()
        super().initialize(init, ctx, default_init, force_reinit)
        if self._deferred_init:
            for part in self.parts.values():
                if math.prod(part._shape) and part.name not in self._waiting:
                    self._waiting[part.name] = self._drawn(part)

    def _drawn(self, part: PartParameter) -> mx.nd.NDArray:
        init, _, default_init, _ = self._deferred_init
        # `init` is `default_init` unless the caller gave one for this very parameter.
        own = part.init if init is default_init and part.init is not None else init
        data = _zeros(part._shape, self.dtype)
        desc = mx.init.InitDesc(part.name, {"__init__": own})
        with autograd.pause():
            mx.init.create(default_init)(desc, data)
        return data

    def _assemble(self) -> mx.nd.NDArray:
        whole = _zeros(self._shape, self.dtype)
        for part in self.parts.values():
            data = self._waiting.pop(part.name, None)
            self.window(part, whole)[:] = self._drawn(part) if data is None else data
        return whole

    def _finish_deferred_init(self) -> None:
        if self._deferred_init and self._deferred_init[3] is None and math.prod(self._shape):
            with autograd.pause():
                self._deferred_init = (*self._deferred_init[:3], self._assemble())
        super()._finish_deferred_init()

    def _set_trainer(self, trainer: mx.gluon.Trainer | None) -> None:
        differing = [part.name for part in self.parts.values() if part.differs]
        if trainer is not None and differing:
            raise ValueError(
                f"parts of '{self.name}' have an lr_mult, wd_mult or grad_req of their own "
                f"({', '.join(differing)}), which an optimizer that updates the whole cannot "
                "heed; make the Trainer with fused_rnn.gluon.split_params(block)"
            )
        super()._set_trainer(trainer)


def _zeros(shape: tuple[int, ...], dtype: Any) -> mx.nd.NDArray:
    zeros = mx.np.zeros if mx.util.is_np_array() else mx.nd.zeros
    return zeros(shape, dtype=dtype, ctx=mx.cpu())


class PartParameter(Parameter):
    """A window into a `FusedParameter` that behaves as the parameter of mx.gluon.rnn it stands for.

    Data and gradients are views: what is written to them is written to the whole. What is not kept
    here (contexts, type, deferred initialisation) is read from the whole.

    lr_mult, wd_mult and grad_req="null" of a part count only in a Trainer that was made with
    `split_params`; another Trainer refuses the whole then.
    """

    def __init__(self, whole: FusedParameter, name: str, key: str, init: Any) -> None:
        self._whole = whole
        self._own: dict[str, Any] = {}  # lr_mult and so on, where they are not those of the whole
        self._trainer = None
        self._var = None
        self.name = name
        self.key = key  # its name in the layout
        self.init = init

    def __getattr__(self, name: str) -> Any:
        if name == "_whole":  # copy and pickle ask before there is one
            raise AttributeError(name)
        return getattr(self._whole, name)

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._whole.layout.parts[self.key].shape

    @_shape.setter
    def _shape(self, shape: tuple[int, ...]) -> None:
        if not math.prod(self._shape) and min(shape) > 0:
            self._whole.set_input_size(shape[-1])

    @property
    def _deferred_init(self) -> tuple:
        return self._whole._deferred_init

    @_deferred_init.setter
    def _deferred_init(self, _: tuple) -> None:
        """Loading one part does not end the deferred initialisation of the others."""

    @property
    def _data(self) -> list[mx.nd.NDArray] | None:
        if self._trainer is not None and not autograd.is_recording():
            return self._whole.trained_views(self)
        return self._whole.windows(self, self._whole._data)

    @property
    def _grad(self) -> list[mx.nd.NDArray] | None:
        return self._whole.windows(self, self._whole._grad)

    def _init_impl(self, data: mx.nd.NDArray, ctx_list: list) -> None:
        self._whole.receive(self, data, ctx_list)

    def set_data(self, data: mx.nd.NDArray) -> None:
        """Sets this part's value on all contexts; before the whole is initialised, for then."""
        self.shape = data.shape
        if self._data is None:
            self._whole.receive(self, data, None)
        else:
            super().set_data(data)

    def initialize(self, *_: Any, **__: Any) -> None:
        raise ValueError(f"'{self.name}' is a part: initialize '{self._whole.name}' instead")

    def reset_ctx(self, ctx: Any) -> None:
        raise ValueError(f"'{self.name}' is a part: reset_ctx '{self._whole.name}' instead")

    def cast(self, dtype: Any) -> None:
        self._whole.cast(dtype)

    @property
    def differs(self) -> bool:
        """Whether the part has an lr_mult, wd_mult or grad_req of its own."""
        return any(value != getattr(self._whole, name) for name, value in self._own.items())

    def _set_own(self, name: str, value: Any) -> None:
        if self._whole._trainer is not None and value != getattr(self, name):
            raise ValueError(
                f"{name} of '{self.name}' has no effect in a Trainer that updates "
                f"'{self._whole.name}'; make the Trainer with fused_rnn.gluon.split_params(block)"
            )
        self._own[name] = value

    @property
    def lr_mult(self) -> float:
        return self._own.get("lr_mult", self._whole.lr_mult)

    @lr_mult.setter
    def lr_mult(self, value: float) -> None:
        self._set_own("lr_mult", value)

    @property
    def wd_mult(self) -> float:
        return self._own.get("wd_mult", self._whole.wd_mult)

    @wd_mult.setter
    def wd_mult(self, value: float) -> None:
        self._set_own("wd_mult", value)

    @property
    def grad_req(self) -> str:
        return self._own.get("grad_req", self._whole.grad_req)

    @grad_req.setter
    def grad_req(self, value: str) -> None:
        if value not in ("null", self._whole.grad_req):
            raise ValueError(
                f"grad_req of '{self.name}': expected 'null' or that of '{self._whole.name}', "
                f"'{self._whole.grad_req}', found '{value}'"
            )
        self._set_own("grad_req", value)


def split_params(block: Block) -> ParameterDict:
    """The parameters of a block, with those of mx.gluon.rnn in place of every fused one.

    The parts are views of the fused parameters. Three things need them:

    - files that `collect_params().save` wrote with mx.gluon.rnn's layers, which `load` reads, and
      `save` writes;
    - an lr_mult, wd_mult or grad_req="null" for some weights or biases alone;
    - optimizers that look at a parameter as a whole (LAMB, LARS), if they shall see each matrix.

    Parameters
    ----------
    block : Block
        Any block; parameters that are not fused are returned as they are.

    Returns
    -------
    ParameterDict
        With the block's prefix.

    Examples
    --------
    >>> params = fused_rnn.gluon.split_params(net)
    >>> for name, param in params.items():
    ...     if name.endswith("bias"):
    ...         param.wd_mult = 0
    >>> trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": 1, "wd": 1e-6})
    """
    result = ParameterDict(block.prefix)
    for name, param in block.collect_params().items():
        parts = param.parts.values() if isinstance(param, FusedParameter) else None
        result.update({name: param} if parts is None else {part.name: part for part in parts})
    return result
