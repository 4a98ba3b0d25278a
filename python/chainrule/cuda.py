"""CUDA devices, under PyTorch's names."""

from __future__ import annotations

from . import _core
from ._core import Device

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "synchronize",
]


def is_available() -> bool:
    """Is there a CUDA device that can be used?"""
    return Device.is_cuda_available()


def device_count() -> int:
    """How many CUDA devices there are."""
    return sum(name.startswith("cuda") for name in _core._devices())


def _device(device: Device | str | int | None) -> Device:
    found = Device.cuda(device or 0) if device is None or isinstance(device, int) else Device(device)
    if found.type != "cuda":
        raise ValueError(f"expected a CUDA device, not {found}")
    return found


def memory_allocated(device: Device | str | int | None = None) -> int:
    """Bytes in use on a device."""
    return _core.memory_stats(_device(device))[0]


def max_memory_allocated(device: Device | str | int | None = None) -> int:
    """The most bytes that were in use on a device, ever or since ``reset_peak_memory_stats``."""
    return _core.memory_stats(_device(device))[1]


def reset_peak_memory_stats(device: Device | str | int | None = None) -> None:
    """``max_memory_allocated`` counts from now on."""
    _core.reset_peak_memory_stats(_device(device))


def memory_reserved(device: Device | str | int | None = None) -> int:
    """Bytes that a device has for tensors: those in use, and those that are kept for reuse."""
    current, _, cached = _core.memory_stats(_device(device))
    return current + cached


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the system."""
    for name in _core._devices():
        if name.startswith("cuda"):
            _core.empty_cache(Device(name))


def synchronize(device: Device | str | int | None = None) -> None:
    """Waits until a device has done all its work."""
    _core.synchronize(_device(device))
