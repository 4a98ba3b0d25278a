"""``torch.overrides``: questions about ``__torch_function__``."""

from __future__ import annotations

from typing import Any

import chainrule as cr

from . import _names

__getattr__ = _names.forward(__name__)


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or does its class define ``__torch_function__``?"""
    return isinstance(inp, cr.Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Is it one of Tensor's?"""
    return getattr(cr.Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str:
    """The name under which a function is found."""
    return f"{getattr(f, '__module__', None) or 'torch'}.{getattr(f, '__qualname__', f)}"
