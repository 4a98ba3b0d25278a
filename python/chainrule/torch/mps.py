"""``torch.mps``: there is no such device."""

from . import _names

__getattr__ = _names.forward(__name__, "chainrule.torch._no_device")
