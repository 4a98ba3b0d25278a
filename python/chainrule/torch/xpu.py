"""``torch.xpu``: there is no such device."""

from typing import NoReturn

from . import _names
from ._no_device import manual_seed

__getattr__ = _names.forward(__name__, "chainrule.torch._no_device")

manual_seed_all = manual_seed


def _no_device(*args: object) -> NoReturn:
    raise RuntimeError("there is no XPU here: torch.xpu.is_available() is False")


current_device = get_device_name = get_device_properties = set_device = _no_device
