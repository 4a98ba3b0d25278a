"""``chainrule.data`` under PyTorch's name."""

from ... import _names

__getattr__ = _names.forward(__name__, "chainrule.data")
