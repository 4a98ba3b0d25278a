"""Layers whose input size is that of the first input: LazyLinear, LazyConv2d, ...

Until then their parameters have no shape.  An optimizer may have them already: they stay the same
objects.  Give such a module one input before its parameters are counted, drawn or loaded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .. import _core
from .._core import Device, Tensor
from ..autograd import no_grad
from .module import BUFFER, PARAMETER, Module
from .parameter import Buffer, Parameter

__all__ = ["LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter"]


class _Uninitialized(Tensor):
    @property
    def shape(self) -> Any:
        """RuntimeError: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. Give the lazy module an input first: its"
            " parameters have the shapes that fit the first one."
        )

    def materialize(
        self, shape: tuple[int, ...], device: Device | str | None = None, dtype: _core.dtype | None = None
    ) -> None:
        """Gives it a shape; the values are arbitrary."""
        made = _core.empty(tuple(shape), device=device or self.device, dtype=dtype or self.dtype)
        kind: Any = Parameter if isinstance(self, Parameter) else Buffer
        self.__class__ = kind
        self.data = made

    def detach(self) -> Any:
        """Itself: there are no values yet."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter without a shape, which ``materialize`` gives it."""

    def __new__(
        cls, requires_grad: bool = True, device: Device | str | None = None, dtype: _core.dtype | None = None
    ) -> UninitializedParameter:
        parameter: UninitializedParameter = _core._alias(_core.empty(0, device=device, dtype=dtype), cls, requires_grad)
        return parameter


class UninitializedBuffer(_Uninitialized, Buffer):
    """A buffer without a shape, which ``materialize`` gives it."""

    def __new__(
        cls, device: Device | str | None = None, dtype: _core.dtype | None = None, *, persistent: bool = True
    ) -> UninitializedBuffer:
        buffer: UninitializedBuffer = _core._alias(_core.empty(0, device=device, dtype=dtype), cls, False)
        buffer.persistent = persistent
        return buffer


class LazyModuleMixin(Module):
    """Before another class of modules, ``class LazyLinear(LazyModuleMixin, Linear)``, whose first
    argument is a size: the module is made without it and becomes one of the other class at its first
    call, with the size that ``_size_of`` finds in the input."""

    _size_name: str  # of the argument and attribute
    _size_of: Callable[[Tensor], int]
    _defaults: Mapping[str, Any] = {}  # where they are not those of the other class

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind = self._kind()
        given = inspect.signature(kind.__init__).bind(self, 1, *args, **kwargs).arguments
        kwargs = {**{name: value for name, value in self._defaults.items() if name not in given}, **kwargs}
        kind.__init__(self, given.get("groups", 1), *args, **kwargs)  # a size that is surely allowed
        self._made_by = args, kwargs
        setattr(self, self._size_name, 0)
        for name, value in self._own(PARAMETER):
            if value is not None:
                setattr(self, name, UninitializedParameter(value.requires_grad, value.device, value.dtype))
        for name, value in self._own(BUFFER):
            if value is not None and value.ndim:
                setattr(self, name, UninitializedBuffer(value.device, value.dtype))
        self._first_call = self.register_forward_pre_hook(type(self)._infer_parameters, with_kwargs=True)
        self._first_load = self.register_load_state_dict_pre_hook(type(self)._take_shapes)

    @classmethod
    def _kind(cls) -> Any:
        """The class that it becomes."""
        return next(base for base in cls.__mro__ if not issubclass(base, LazyModuleMixin) and issubclass(base, Module))

    def has_uninitialized_params(self) -> bool:
        """Is there a parameter or buffer without a shape?"""
        return any(isinstance(value, _Uninitialized) for _, value in self._own(PARAMETER, BUFFER))

    @no_grad()
    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives parameters and buffers without a shape those, and the first values, of a module of the input's size."""
        size = type(self)._size_of(args[0] if args else next(iter(kwargs.values())))
        setattr(self, self._size_name, size)
        if not self.has_uninitialized_params():
            return
        made = self._kind()(size, *self._made_by[0], **self._made_by[1])
        for name, value in made._own(PARAMETER, BUFFER):
            mine = getattr(self, name)
            if isinstance(mine, _Uninitialized):
                mine.materialize(tuple(value.shape))
                mine.copy_(value)

    def _infer_parameters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        self._become()

    def _become(self) -> None:
        for handle in (self._first_call, self._first_load):
            handle.remove()
        for name in ("_first_call", "_first_load", "_made_by"):
            del self.__dict__[name]
        self.__class__ = self._kind()

    def _take_shapes(self, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
        """Parameters without a shape take those of a state dict that is loaded."""
        for name, value in self._own(PARAMETER, BUFFER):
            given = state_dict.get(prefix + name)
            if isinstance(value, _Uninitialized) and given is not None and not isinstance(given, _Uninitialized):
                value.materialize(tuple(given.shape))


def _last(x: Tensor) -> int:
    return x.size(-1)


def _channels(axes: int) -> Callable[[Tensor], int]:
    """The size of the channels in front of ``axes`` others, with or without a batch."""
    return lambda x: x.size(-1 - axes)


def _second(x: Tensor) -> int:
    return x.size(1)


# The class, the name of its size, where an input has it.
KINDS: dict[str, tuple[str, Callable[[Tensor], int]]] = {"Linear": ("in_features", _last)}
for _n in (1, 2, 3):
    KINDS[f"Conv{_n}d"] = KINDS[f"ConvTranspose{_n}d"] = ("in_channels", _channels(_n))
    KINDS[f"BatchNorm{_n}d"] = ("num_features", _second)
    KINDS[f"InstanceNorm{_n}d"] = ("num_features", _channels(_n))


def _init_with(signature: inspect.Signature, size: str, defaults: Mapping[str, Any]) -> Callable[..., None]:
    """The mixin's __init__ that shows the arguments of the other class without the size."""

    def __init__(self: LazyModuleMixin, *args: Any, **kwargs: Any) -> None:
        LazyModuleMixin.__init__(self, *args, **kwargs)

    shown = [x.replace(default=defaults.get(x.name, x.default)) for x in signature.parameters.values()]
    without = signature.replace(parameters=[x for x in shown if x.name != size])
    __init__.__signature__ = without  # type: ignore[attr-defined]
    return __init__


def lazy_classes(there: Mapping[str, Any]) -> dict[str, type[Module]]:
    """A lazy class for each class of ``KINDS`` that is there, by name."""
    made = {}
    for name, (_size_name, _size_of) in KINDS.items():
        if name in there:
            said = f"``{name}`` whose {_size_name} is that of the first input."
            defaults = dict.fromkeys(("affine", "track_running_stats"), True) if "Norm" in name else {}
            body = {
                "_size_name": _size_name,
                "_size_of": staticmethod(_size_of),
                "_defaults": defaults,
                "__doc__": said,
                "__module__": __name__,
                "__init__": _init_with(inspect.signature(there[name].__init__), _size_name, defaults),
            }
            made[f"Lazy{name}"] = type(f"Lazy{name}", (LazyModuleMixin, there[name]), body)
    globals().update(made)  # where pickle looks for them
    return made
