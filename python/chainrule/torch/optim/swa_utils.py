"""``chainrule.optim.swa_utils``: averages of weights."""

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule.optim.swa_utils", "chainrule.optim")
