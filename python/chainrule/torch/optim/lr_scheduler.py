"""``chainrule.optim.lr_scheduler`` with PyTorch's old names."""

from __future__ import annotations

from .. import _names

_forward = _names.forward(__name__, "chainrule.optim.lr_scheduler")


def __getattr__(name: str) -> object:
    return _forward({"_LRScheduler": "LRScheduler"}.get(name, name))
