"""``chainrule.autograd`` with ``Variable`` and the context managers that only have a meaning in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import chainrule as cr
from chainrule import Node as Node

from .. import _names
from ..legacy import _TensorMeta

__getattr__ = _names.forward(__name__, "chainrule.autograd")


class Variable(metaclass=_TensorMeta):
    """``Variable(tensor)``: the tensor, which has been what a Variable was since 2018."""

    _dtype = None
    _cuda = False

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            return cr.empty(0)
        if not isinstance(data, cr.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_() if requires_grad and not volatile else data.detach()


def grad(outputs: Any, inputs: Any, *args: Any, only_inputs: bool = True, **options: Any) -> Any:
    """``chainrule.autograd.grad``; only_inputs was dropped in 2018, when True became its only value."""
    if not only_inputs:
        raise ValueError("autograd.grad: only_inputs=False is no longer there; use backward")
    return cr.autograd.grad(outputs, inputs, *args, **options)


def variable(data: Any, **options: Any) -> Any:
    """``Variable(data)``"""
    return Variable(data, **options)


@contextmanager
def set_multithreading_enabled(mode: bool) -> Iterator[None]:
    """One walk runs in the thread that calls backward, whatever ``mode`` says."""
    yield
