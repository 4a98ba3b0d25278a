"""``torch.serialization``: save and load, and what they allow."""

from . import _names

__getattr__ = _names.forward(__name__, "chainrule.serialization", "chainrule")
