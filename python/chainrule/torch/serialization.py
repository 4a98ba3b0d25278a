"""``torch.serialization``: save and load, and what they allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _names

__getattr__ = _names.forward(__name__, "chainrule")


def add_safe_globals(safe_globals: Any) -> None:
    """Classes cannot be added to the list of names that ``load`` allows: the list is fixed."""


@contextmanager
def safe_globals(safe_globals: Any) -> Iterator[None]:
    """As outside: the list of names that ``load`` allows is fixed."""
    yield
