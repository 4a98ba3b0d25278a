"""Mixed precision: ``autocast`` is accepted and computes in the dtypes of the operands; ``GradScaler`` scales.

Products of float32 operands can be made quicker with ``torch.set_float32_matmul_precision``; a model is computed
in bfloat16 by ``model.bfloat16()``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import chainrule as cr

from .history import device as _device

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_enabled = [False]


class autocast:  # noqa: N801, PyTorch's name
    """``with autocast(device_type, dtype):`` or a decorator: operations inside run in the dtypes of their operands,
    float32 in float32, which is more precise than PyTorch's casts."""

    def __init__(
        self,
        device_type: Any = "cuda",
        dtype: cr.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if isinstance(device_type, bool):  # torch.cuda.amp.autocast(enabled)
            device_type, enabled = "cuda", device_type
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device, self.fast_dtype, self._on = _device(device_type).type, dtype, enabled
        self._before: list[bool] = []

    def __enter__(self) -> autocast:
        self._before.append(_enabled[0])
        _enabled[0] = self._on
        return self

    def __exit__(self, *exception: object) -> None:
        _enabled[0] = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Is this inside ``autocast``?"""
    return _enabled[0]


def set_autocast_enabled(*args: Any) -> None:
    """``set_autocast_enabled(device_type, enabled)``"""
    _enabled[0] = bool(args[-1])


def is_autocast_available(device_type: str) -> bool:
    """Can ``autocast`` be entered?  For every device."""
    return True


def custom_fwd(fwd: Any = None, **options: Any) -> Any:
    """The forward of a Function as it is."""
    return (lambda f: f) if fwd is None else fwd


def custom_bwd(bwd: Any = None, **options: Any) -> Any:
    """The backward of a Function as it is."""
    return (lambda f: f) if bwd is None else bwd


class GradScaler:
    """Multiplies the loss by a scale so that gradients of half precision do not underflow.

    ``scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()``: step divides the gradients by the scale
    and steps unless one is infinite or NaN; update halves the scale then (``backoff_factor``), and doubles it
    (``growth_factor``) after ``growth_interval`` steps in a row without."""

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if isinstance(device, int | float):  # torch.cuda.amp.GradScaler(init_scale)
            device, init_scale = "cuda", float(device)
        if growth_factor <= 1:
            raise ValueError("The growth factor must be > 1.0.")
        if backoff_factor >= 1:
            raise ValueError("The backoff factor must be < 1.0.")
        on_device = _device(device).type != "cuda" or cr.cuda.is_available()
        self._scale, self._enabled = float(init_scale), enabled and on_device
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._growth_tracker = 0
        self._found: dict[int, bool] = {}  # optimizer -> did unscale_ find an infinity or NaN
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 where it is off."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """``outputs`` times the scale: a tensor, or a list or tuple of them."""
        if not self._enabled:
            return outputs
        return (
            outputs * self._scale if isinstance(outputs, cr.Tensor) else type(outputs)(self.scale(y) for y in outputs)
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, as before clipping.
        RuntimeError: they were divided since the last update."""
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise RuntimeError(
                "unscale_() is being called after step()."
                if id(optimizer) in self._stepped
                else "unscale_() has already been called on this optimizer since the last update()."
            )
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        bad = False
        with cr.no_grad():
            for g in grads:
                g.mul_(1 / self._scale)
                bad = bad or not bool(g.isfinite().all())
        self._found[id(optimizer)] = bad

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()`` unless a gradient is infinite or NaN.  RuntimeError: it has stepped already."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Sets the scale for the next step."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif any(self._found.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._found.clear()
        self._stepped.clear()

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """Steps without an infinity until the scale grows."""
        return self._growth_interval

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
                "The source state dict is empty, possibly because it was saved from a disabled GradScaler."
            )
        self._scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
