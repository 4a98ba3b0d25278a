"""``torch.nn.attention``: which attention kernel runs; chainrule has one, which never stores the T x T matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from .. import _names

__getattr__ = _names.forward(__name__)


class SDPBackend(Enum):
    """PyTorch's kernels; each name means chainrule's."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Inside, scaled_dot_product_attention runs chainrule's kernel, as outside."""
    yield
