"""Flags of PyTorch's libraries: they can be set and read, and change nothing, except for TF32."""

from __future__ import annotations

from typing import Any

import chainrule as cr

from .. import _names

__getattr__ = _names.forward(__name__)


def get_tf32() -> bool:
    """May float32 products round their operands?"""
    return cr.get_float32_matmul_precision() != "highest"


def set_tf32(allowed: Any) -> None:
    cr.set_float32_matmul_precision("high" if allowed else "highest")
