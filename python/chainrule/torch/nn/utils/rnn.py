"""``chainrule.nn.utils.rnn``."""

from ... import _names

__getattr__ = _names.forward(__name__, "chainrule.nn.utils.rnn", "chainrule.nn.utils")
