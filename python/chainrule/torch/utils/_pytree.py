"""``torch.utils._pytree``: the names of ``chainrule._pytree``."""

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule._pytree")
