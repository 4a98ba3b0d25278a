"""``chainrule.nn.functional`` with PyTorch's old names."""

from __future__ import annotations

import chainrule as _cr

from .. import _names

_forward = _names.forward(__name__, "chainrule.nn.functional", "chainrule")


def __getattr__(name: str) -> object:
    if name.endswith("_") and not name.startswith("_") and hasattr(_cr.Tensor, name):
        return getattr(_cr.Tensor, name)  # relu_(x)
    return _forward(name)


def tanh(input: _cr.Tensor) -> _cr.Tensor:
    return input.tanh()


def sigmoid(input: _cr.Tensor) -> _cr.Tensor:
    return input.sigmoid()
