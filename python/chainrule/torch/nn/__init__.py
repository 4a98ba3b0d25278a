"""``chainrule.nn`` with PyTorch's old names, and the parts of Module that other libraries reach into."""

from __future__ import annotations

from typing import Any

import chainrule.nn as _nn
from chainrule.nn import Module

from .. import _names
from .parallel import DataParallel  # noqa: F401

_NAMES = {
    "UninitializedParameter": "chainrule.nn.lazy",
    "IncompatibleKeys": "chainrule.nn.module",
}
_OLD = {"_IncompatibleKeys": "IncompatibleKeys"}
_forward = _names.forward(__name__, "chainrule.nn", names=_NAMES)


def __getattr__(name: str) -> Any:
    return _forward(_OLD.get(name, name))


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"  # the end of the key of get_extra_state in a state dict
NonDynamicallyQuantizableLinear = _nn.Linear  # PyTorch's name of the last layer of MultiheadAttention


class NLLLoss2d(_nn.NLLLoss):
    """NLLLoss, which takes any number of axes."""


class _Registry(dict[str, Any]):
    """Parts of one kind by name; what is set here is set on the module."""

    def __init__(self, module: Module, kinds: tuple[str, ...]) -> None:
        super().__init__(module._own(*kinds))
        self.module = module

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        setattr(self.module, name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        delattr(self.module, name)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value


def share_memory(self: Module) -> Module:
    """Moves parameters and buffers to memory that processes share."""
    for t in [*self.parameters(), *self.buffers()]:
        t.share_memory_()  # type: ignore[attr-defined]
    return self


Module.share_memory = share_memory  # type: ignore[method-assign, assignment]  # tensors have share_memory_() here
for _name, _value in {
    "_parameters": property(lambda self: _Registry(self, ("parameter",))),
    "_buffers": property(lambda self: _Registry(self, ("buffer", "transient buffer"))),
    "_modules": property(lambda self: _Registry(self, ("module",))),
}.items():
    if not hasattr(Module, _name):
        setattr(Module, _name, _value)
