"""``torch.backends.cuda``: allow_tf32 sets the precision of float32 products; other flags are remembered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from . import get_tf32, set_tf32


class _Matmul(SimpleNamespace):
    @property
    def allow_tf32(self) -> bool:
        return get_tf32()

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_tf32(allowed)


matmul = _Matmul(allow_fp16_reduced_precision_reduction=False, allow_bf16_reduced_precision_reduction=False)
cufft_plan_cache: list[Any] = []


def is_built() -> bool:
    """Every build can open CUDA's driver."""
    return True


@contextmanager
def sdp_kernel(*args: Any, **options: Any) -> Iterator[None]:
    """Inside, attention runs chainrule's kernel, as outside."""
    yield


def _set(*args: Any, **options: Any) -> None:
    """chainrule has one attention kernel."""


def _enabled() -> bool:
    """chainrule's attention never stores the T x T matrix."""
    return True


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _set
flash_sdp_enabled = mem_efficient_sdp_enabled = math_sdp_enabled = cudnn_sdp_enabled = _enabled
