"""What a recorded step says of itself to the walk of its guards (``_guards``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Planned:
    """Has plans of ``f``: what a step reads through it is what ``f`` reads."""

    f: Callable[..., Any]


class _Noted(threading.local):
    """Entries of dicts that the step which this thread records has named itself."""

    def __init__(self) -> None:
        self.entries: list[tuple[dict[Any, Any], Any]] = []


noted = _Noted()


def note(of: dict[Any, Any], key: Any) -> None:
    """The step that is recorded reads this entry."""
    noted.entries.append((of, key))


class Fixed:
    """What an object of the library keeps for itself: a recorded step reads nothing from it that changes unless a
    module or a tensor does."""
