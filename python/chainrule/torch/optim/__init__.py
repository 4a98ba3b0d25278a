"""``chainrule.optim``."""

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule.optim", "chainrule.optim.optimizer")
