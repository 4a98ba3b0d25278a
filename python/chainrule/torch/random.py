"""``chainrule.random``."""

from . import _names

__getattr__ = _names.forward(__name__, "chainrule.random")
