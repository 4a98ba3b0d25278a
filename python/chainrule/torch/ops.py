"""``torch.ops``: the ops that ``torch.library`` knows, as ``torch.ops.namespace.name``."""

from __future__ import annotations

from typing import Any

from . import _advice, _names, library

_forward = _names.forward(__name__)


class Namespace:
    """The ops of a namespace; others raise when they are called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if f"{self._name}::{name}" in library._OPS:
            return library._OPS[f"{self._name}::{name}"]
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_forward(self._name), name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        return _forward(name)
    globals()[name] = Namespace(name)
    return globals()[name]


def load_library(path: str) -> None:
    """NotImplementedError: C++ extensions of PyTorch cannot be loaded."""
    raise NotImplementedError(_advice.message("torch.ops.load_library"))
