"""Mixed precision: ``autocast`` runs products in half precision and losses in float32; ``GradScaler`` keeps the
gradients of float16 from vanishing::

    scaler = amp.GradScaler()
    with cr.autocast("cuda", cr.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

The policy of each op is one table of the library (src/ops/autocast.c); docs/training.md shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from ctypes import c_float
from functools import wraps
from math import isfinite
from typing import Any, TypeVar

from . import _core
from ._core import Device, Tensor, dtype
from .autograd import no_grad

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_DEFAULTS = {"cpu": _core.bfloat16, "ref": _core.bfloat16}  # of others: float16
_LOW = (_core.bfloat16, _core.float16)


def _device_of(device_type: str) -> Device | None:
    """A device of the type; None: there is none on this machine."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    kind = device_type.partition(":")[0]
    if kind == "auto" or kind not in ("cpu", "ref", "gpu", "cuda", "webgpu"):
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    try:
        return _core.device(kind)
    except _core.Error:
        return None


def is_autocast_available(device_type: str) -> bool:
    """Is there a device of this type, so that ``autocast`` has an effect on it?"""
    return _device_of(device_type) is not None


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Is this inside ``autocast`` for this type of device?"""
    device = _device_of(device_type)
    return device is not None and _core._autocast_dtype(device) is not _core.float32


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype of products inside ``autocast``; outside, its default for this type of device."""
    device = _device_of(device_type)
    now = _core.float32 if device is None else _core._autocast_dtype(device)
    return now if now is not _core.float32 else _DEFAULTS.get(device_type.partition(":")[0], _core.float16)


class autocast:  # noqa: N801, PyTorch's name
    """``with autocast(device_type, dtype):`` or a decorator.  Inside, on devices of the type, ops run in the dtypes
    of the policy: products, convolutions and attention in ``dtype`` (bfloat16 on the cpu, float16 on GPUs by
    default), losses in float32, and all else in the dtypes of its operands.  The backward pass runs in the dtypes of
    the forward pass, wherever it is called.  A parameter is cast once for all ops until the outermost
    ``with`` ends, if cache_enabled.  ``enabled=False`` inside another region: without casts.  Of one thread."""

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self._on = _device_of(device_type)
        self.device = device_type.partition(":")[0]
        if not isinstance(enabled, bool):
            raise TypeError(f"enabled must be bool, not {type(enabled).__name__}")
        self.fast_dtype = dtype or _DEFAULTS.get(self.device, _core.float16)
        if enabled and self._on is None:
            warnings.warn(
                f"User provided device_type of '{self.device}', but there is no such device. Disabling", stacklevel=2
            )
        if enabled and self.fast_dtype not in _LOW:
            warnings.warn(
                f"autocast takes bfloat16 and float16, not {self.fast_dtype}. Disabling autocast.", stacklevel=2
            )
        self._enabled = enabled and self._on is not None and self.fast_dtype in _LOW
        self._cache = cache_enabled is None or cache_enabled

    def __enter__(self) -> autocast:
        to = self.fast_dtype if self._enabled else _core.float32
        _core._autocast_begin("cpu" if self._on is None else self._on, to, self._cache)
        return self

    def __exit__(self, *exception: object) -> None:
        _core._autocast_end()

    def __call__(self, function: _F) -> _F:
        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


# ---- functions with a gradient of your own


def _cast(value: Any, to: dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(to) if value.is_floating_point() and value.dtype is not _core.float64 else value
    if isinstance(value, dict):
        return {_cast(k, to): _cast(v, to) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(v, to) for v in value)
    return value


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: dtype | None = None) -> Any:
    """Decorates the forward of a Function: with cast_inputs, floating tensors are cast to it and autocast is off
    inside; without, the forward runs in the state around it, and ``custom_bwd`` gives the backward the same state."""
    if fwd is None:
        return lambda f: custom_fwd(f, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = is_autocast_enabled(device_type)
            return fwd(*args, **kwargs)
        inside = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = False
        if not inside:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorates the backward of a Function: it runs in the autocast state of the forward."""
    if bwd is None:
        return lambda f: custom_bwd(f, device_type=device_type)

    @wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward


# ---- loss scaling


def _float32(x: float) -> float:
    """x as PyTorch's scale stores it."""
    return c_float(x).value


class GradScaler:
    """Multiplies the loss by a scale so that gradients of float16 do not underflow.

    ``scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()``: step divides the gradients by the scale
    and steps unless one is infinite or NaN; update multiplies the scale by backoff_factor then, and by growth_factor
    after growth_interval steps in a row without.  ``unscale_`` divides earlier, for clipping."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and growth_factor <= 1:
            raise ValueError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1:
            raise ValueError("The backoff factor must be < 1.0.")
        self._enabled = enabled and _device_of(str(device)) is not None
        if enabled and not self._enabled:
            warnings.warn(f"GradScaler is enabled, but there is no {device} device. Disabling.", stacklevel=2)
        self._scale, self._growth_factor, self._backoff_factor = float(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._found: dict[int, bool] = {}  # optimizer -> did unscale_ find an infinity or NaN
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 where it is off."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """``outputs`` times the scale: a tensor, or an iterable of them."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if not isinstance(outputs, Iterable):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, as before clipping.
        RuntimeError: they were divided since the last update.  ValueError: a gradient is float16, which has lost what
        underflowed."""
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise RuntimeError(
                "unscale_() is being called after step()."
                if id(optimizer) in self._stepped
                else "unscale_() has already been called on this optimizer since the last update()."
            )
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype is _core.float16 for g in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        with no_grad():
            # the squares of finite gradients may add up to infinity
            bad = not isfinite(_core._total_norm(grads)) and not all(bool(g.isfinite().all()) for g in grads)
            _core._scale_grads(grads, 1 / self._scale)
        self._found[id(optimizer)] = bad

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()`` unless a gradient is infinite or NaN: then None.  RuntimeError: it has stepped already,
        or a closure is given."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Sets the scale for the next steps: new_scale, or by what the steps since the last update found."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale = _float32(self._scale * self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = _float32(self._scale * self._growth_factor)
                self._scale = grown if grown != float("inf") else self._scale
                self._growth_tracker = 0
        self._found.clear()
        self._stepped.clear()

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Steps without an infinity until the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the steps without an infinity until the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and what changes it; empty where it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where the state was taken.  RuntimeError: it is empty."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
