"""``torch.mps``: there is no such device."""

import chainrule as cr

from . import _names

__getattr__ = _names.forward(__name__)


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def synchronize() -> None:
    """Nothing: there is no such device."""


def empty_cache() -> None:
    """Nothing: there is no such device."""


def manual_seed(seed: int) -> None:
    """Seeds the generator, which serves all devices."""
    cr.manual_seed(seed)
