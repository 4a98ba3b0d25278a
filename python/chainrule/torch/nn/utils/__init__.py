"""``chainrule.nn.utils`` with PyTorch's old names."""

from __future__ import annotations

from ... import _names

_OLD = {"clip_grad_norm": "clip_grad_norm_", "clip_grad_value": "clip_grad_value_"}
_forward = _names.forward(__name__, "chainrule.nn.utils")


def __getattr__(name: str) -> object:
    return _forward(_OLD.get(name, name))
