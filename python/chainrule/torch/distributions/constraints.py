"""``chainrule.distributions.constraints``."""

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule.distributions.constraints", "chainrule.distributions")
