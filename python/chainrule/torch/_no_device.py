"""What ``torch.mps`` and ``torch.xpu`` have: there are no such devices."""

from __future__ import annotations

import chainrule as cr

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def synchronize() -> None:
    """Does nothing; there is no such device."""


def empty_cache() -> None:
    """Does nothing; there is no such device."""


def manual_seed(seed: int) -> None:
    """Seeds the generator, which serves all devices."""
    cr.manual_seed(seed)
