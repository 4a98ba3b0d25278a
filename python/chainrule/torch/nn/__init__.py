"""``chainrule.nn`` with PyTorch's old names, and the parts of Module that other libraries reach into."""

from __future__ import annotations

from typing import Any

import chainrule.nn as _nn
from chainrule.nn import Module

from .. import _names
from .parallel import DataParallel  # noqa: F401

_NAMES = {
    "UninitializedParameter": "chainrule.nn.lazy",
    "_BatchNorm": "chainrule.nn.norm",
    "_ConvNd": "chainrule.nn.conv",
}
__getattr__ = _names.forward(__name__, "chainrule.nn", names=_NAMES)


class NLLLoss2d(_nn.NLLLoss):
    """NLLLoss, which takes any number of axes."""


class Buffer:
    """``Buffer(tensor)``: the tensor.  Assigned to a module it is an attribute; ``register_buffer`` makes a buffer."""

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        import chainrule

        return chainrule.empty(0) if data is None else data


class _Registry(dict[str, Any]):
    """Parts of one kind by name; what is set here is set on the module."""

    def __init__(self, module: Module, kinds: tuple[str, ...]) -> None:
        super().__init__((name, module.__dict__[name]) for name, kind in module._kinds.items() if kind in kinds)
        self.module = module

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        setattr(self.module, name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        delattr(self.module, name)


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
