"""``torch.amp``: ``chainrule.amp`` with PyTorch's older signatures and switches."""

from __future__ import annotations

from typing import Any

import chainrule as cr
from chainrule import _core, amp
from chainrule.amp import custom_bwd, custom_fwd, get_autocast_dtype, is_autocast_available

from .legacy import device as _device

__path__: list[str] = []  # amp.grad_scaler and amp.autocast_mode can be imported (_alias.py)
__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available"]


class autocast(amp.autocast):  # noqa: N801, PyTorch's name
    """``amp.autocast``; without a type of device, and first a bool, as ``torch.cuda.amp.autocast(enabled)``."""

    def __init__(
        self,
        device_type: Any = "cuda",
        dtype: cr.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if isinstance(device_type, bool):
            device_type, enabled = "cuda", device_type
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        super().__init__(_device(device_type).type, dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``amp.GradScaler``; with a number first, as ``torch.cuda.amp.GradScaler(init_scale)``."""

    def __init__(self, device: Any = "cuda", init_scale: float = 2.0**16, *args: Any, **kwargs: Any) -> None:
        if isinstance(device, int | float):
            args = (init_scale, *args) if args or init_scale != 2.0**16 else args
            device, init_scale = "cuda", float(device)
        super().__init__(_device(device).type, init_scale, *args, **kwargs)


# ---- switches from the call on, until autocast is left or switched again
_switched: dict[str, amp.autocast] = {}


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Is this inside ``autocast`` for this type of device?"""
    return amp.is_autocast_enabled(device_type)


def set_autocast_enabled(*args: Any) -> None:
    """``set_autocast_enabled(device_type, enabled)``"""
    kind = args[0] if len(args) > 1 else "cuda"
    before = _switched.pop(kind, None)
    if before is not None:
        before.__exit__()
    if args[-1] and amp.is_autocast_available(kind):
        _switched[kind] = amp.autocast(kind).__enter__()


def clear_autocast_cache() -> None:
    """Frees the casts of parameters."""
    _core._autocast_clear()
