"""The one place that knows tqdm: a progress bar around a loop, where it is installed and someone is watching."""

from __future__ import annotations

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    _T = TypeVar("_T")


def progress(iterable: Iterable[_T], description: str | None = None, total: int | None = None) -> Iterable[_T]:
    """``iterable``, with a progress bar while it is gone over: ``for step in progress(range(1000), "training"): ...``.

    total: how many there are, where ``len(iterable)`` does not say.  There is a bar only where tqdm
    is installed (``pip install chainrule[viz]``) and stderr is a terminal or a notebook's; the loop
    sees the same items in any case."""
    import sys

    try:
        from tqdm import tqdm  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return iterable
    notebook = type(sys.stderr).__module__.startswith("ipykernel.")
    bar: Iterable[_T] = tqdm(iterable, desc=description, total=total, disable=False if notebook else None)
    return bar
