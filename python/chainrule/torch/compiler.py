"""``torch.compiler``: functions as they are."""

from __future__ import annotations

from typing import Any

from . import _names
from . import compile as compile

__getattr__ = _names.forward(__name__)


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function as it is."""
    return (lambda found: found) if fn is None else fn


allow_in_graph = disable


def is_compiling() -> bool:
    """False: Python runs the function."""
    return False


is_dynamo_compiling = is_compiling


def reset() -> None:
    """Does nothing; no compiled function is kept."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing; there are no CUDA graphs."""
