"""``torch._dynamo``: ``torch.compile`` records steps (``chainrule.compile``), so these settings have no effect."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from . import _names
from .compiler import allow_in_graph as allow_in_graph
from .compiler import disable as disable
from .compiler import is_compiling as is_compiling
from .compiler import reset as reset

__getattr__ = _names.forward(__name__)


class Config(SimpleNamespace):
    """Settings that are remembered; one that was never set is an empty group of settings, and false."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, Config())
        return self.__dict__[name]

    def __bool__(self) -> bool:
        return bool(self.__dict__)

    def patch(self, *args: Any, **options: Any) -> Any:
        """A context in which nothing differs."""
        return nullcontext()


config = Config(suppress_errors=False, verbose=False, cache_size_limit=8, recompile_limit=8)


def mark_dynamic(t: object, index: object, **options: object) -> None:
    """Does nothing; sizes may change anyway."""
