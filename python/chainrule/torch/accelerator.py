"""``torch.accelerator``: the GPU, where there is one."""

from __future__ import annotations

from typing import Any

import chainrule as cr
import chainrule.cuda as _cuda

from . import _names, legacy

__getattr__ = _names.forward(__name__)


def is_available() -> bool:
    """Is there a CUDA device?"""
    return _cuda.is_available()


def device_count() -> int:
    """How many CUDA devices there are."""
    return _cuda.device_count()


def current_accelerator(check_available: bool = False) -> legacy.device | None:
    """The kind of GPU: "cuda", or None."""
    return legacy.device("cuda") if _cuda.is_available() else None


def current_device_index() -> int:
    """0: the number of the device that "cuda" names."""
    return 0


current_device_idx = current_device_index


def set_device_index(device: Any) -> None:
    """Tensors go to the device that a call names, whatever is set here."""


set_device_idx = set_device_index


class device_index:  # noqa: N801, PyTorch's name
    """``with device_index(i):`` as outside: a call names the device."""

    def __init__(self, device: int | None) -> None:
        self.device = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


def synchronize(device: Any = None) -> None:
    """Waits until a device has done all its work."""
    cr.synchronize(None if device is None else str.__str__(legacy.device(device)))


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the system."""
    _cuda.empty_cache()
