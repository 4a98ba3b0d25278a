"""Margins around the last one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """padding: before and after the last axis, then the one before, and so on; or one number for all.
    Negative margins crop."""

    axes: int
    mode: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.axes:
            raise ValueError(f"padding must be an integer or {2 * self.axes} of them, got {self.padding}")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad):
    """Margins of ``value`` : (..., W)"""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """Margins of ``value`` : (..., H, W)"""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """Margins of ``value`` : (..., D, H, W)"""

    axes = 3


class ZeroPad1d(_ZeroPad):
    """Margins of zeros : (..., W)"""

    axes = 1


class ZeroPad2d(_ZeroPad):
    """Margins of zeros : (..., H, W)"""

    axes = 2


class ZeroPad3d(_ZeroPad):
    """Margins of zeros : (..., D, H, W)"""

    axes = 3


class ReflectionPad1d(_Pad):
    """Margins that mirror the inside; the edge itself is not repeated : (..., W)"""

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Margins that mirror the inside; the edge itself is not repeated : (..., H, W)"""

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Margins that mirror the inside; the edge itself is not repeated : (..., D, H, W)"""

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Margins that repeat the edge : (..., W)"""

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Margins that repeat the edge : (..., H, W)"""

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """Margins that repeat the edge : (..., D, H, W)"""

    axes = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Margins from the other side : (..., W)"""

    axes = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Margins from the other side : (..., H, W)"""

    axes = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Margins from the other side : (..., D, H, W)"""

    axes = 3
    mode = "circular"
