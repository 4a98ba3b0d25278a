"""Autocast of functions that several ops make up.  The library casts the inputs of single ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ... import _core
from ..._core import Tensor

__all__ = ["full", "mixed"]

_HALF = (_core.bfloat16, _core.float16)


def full(x: Tensor) -> Tensor:
    """Inside autocast, a tensor of half precision as float32."""
    return x.float() if x.dtype in _HALF and _core._autocasting() else x


def _cast(x: Any, to: Any) -> Any:
    eligible = to is not None and isinstance(x, Tensor) and x.is_floating_point() and x.dtype is not _core.float64
    return _core._autocast_cast(x, to) if eligible else x


def mixed(function: Callable[..., Any], policy: str) -> Callable[..., Any]:
    """The function, whose inputs autocast casts to half precision (policy "low"), to float32 ("f32"), to the dtype of
    the first ("first") or not at all ("none"); the ops inside run without it."""

    @wraps(function)
    def cast(*args: Any, **kwargs: Any) -> Any:
        if not _core._autocasting():
            return function(*args, **kwargs)
        first = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
        low = _core.float32 if first is None else _core._autocast_dtype(first.device)
        if first is None or low is _core.float32:
            return function(*args, **kwargs)
        to = {"low": low, "f32": _core.float32, "first": first.dtype, "none": None}[policy]
        _core._set_autocast(False)
        try:
            return function(*(_cast(x, to) for x in args), **{name: _cast(x, to) for name, x in kwargs.items()})
        finally:
            _core._set_autocast(True)

    return cast
