"""``Parameter``, a tensor that a module learns, and ``Buffer``, one that moves with it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .. import _core
from .._core import Tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that a module learns: a leaf over the memory of ``data`` that collects a gradient.
    Assigned to a module, it is among its parameters."""

    __torch_function__ = _core._disabled_torch_function_impl  # type: ignore[assignment]  # results are Tensors

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        parameter: Parameter = _core._alias(_core.empty(0) if data is None else data, cls, requires_grad)
        return parameter

    def __deepcopy__(self, memo: Any) -> Any:
        """A copy in memory of its own, without the gradient."""
        if id(self) not in memo:
            memo[id(self)] = made = _core._alias(self.detach().clone(), type(self), self.requires_grad)
            made.__dict__.update(deepcopy(self.__dict__, memo))
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor over the memory of ``data`` that moves with a module but is not learned.  Assigned to
    a module, it is among its buffers, and in the state dict where ``persistent``."""

    __torch_function__ = _core._disabled_torch_function_impl  # type: ignore[assignment]
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        buffer: Buffer = _core._alias(_core.empty(0) if data is None else data, cls, False)
        buffer.persistent = persistent
        return buffer
