"""``chainrule.optim``."""

from .. import _names

__getattr__ = _names.forward(__name__, "chainrule.optim", "chainrule.optim.optimizer")


class _RequiredParameter:
    """The default of an option that a group of parameters must have."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()
