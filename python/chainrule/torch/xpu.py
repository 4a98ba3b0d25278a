"""``torch.xpu``: there is no such device."""

from typing import NoReturn

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


manual_seed_all = manual_seed


def _no_device(*args: object) -> NoReturn:
    raise RuntimeError("there is no XPU here: torch.xpu.is_available() is False")


current_device = get_device_name = get_device_properties = set_device = _no_device
