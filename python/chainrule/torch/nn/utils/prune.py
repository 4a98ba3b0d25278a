"""``chainrule.nn.utils.prune``."""

from ... import _names

__getattr__ = _names.forward(__name__, "chainrule.nn.utils.prune", "chainrule.nn.utils")
