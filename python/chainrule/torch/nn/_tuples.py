"""``torch.nn.modules.utils``: one number as a tuple of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    return lambda x: tuple(x) if isinstance(x, Iterable) else (x,) * n


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Each element n times, from the last to the first."""
    return tuple(x for x in reversed(t) for _ in range(n))
