"""``chainrule.nn.utils.parametrizations``."""

from ... import _names

__getattr__ = _names.forward(__name__, "chainrule.nn.utils.parametrizations", "chainrule.nn.utils")
