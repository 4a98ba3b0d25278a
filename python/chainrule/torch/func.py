"""``torch.func``: the names of ``chainrule.func``."""

from . import _names

__getattr__ = _names.forward(__name__, "chainrule.func")
