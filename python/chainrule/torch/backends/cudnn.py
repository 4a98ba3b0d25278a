"""``torch.backends.cudnn``: flags are remembered; convolutions run on our own kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled, benchmark, deterministic, allow_tf32 = True, False, True, False
benchmark_limit = 10
fp32_precision = "none"


def is_available() -> bool:
    """False: no flag here has an effect."""
    return False


def version() -> int | None:
    """None: cuDNN is not used."""
    return None


def is_acceptable(tensor: Any) -> bool:
    return False


@contextmanager
def flags(**options: Any) -> Iterator[None]:
    """Flags for the time of a ``with``."""
    before = {name: globals().get(name) for name in options}
    globals().update(options)
    try:
        yield
    finally:
        globals().update(before)
