"""``chainrule.nn.utils.parametrize``."""

from ... import _names

__getattr__ = _names.forward(__name__, "chainrule.nn.utils.parametrize", "chainrule.nn.utils")
