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


class _ConstantPadNd(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self.axes + 1, self.axes + 2):
            raise ValueError(f"expected {self.axes + 1}D or {self.axes + 2}D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """Margins of ``value`` : (..., W)"""

    axes = 1


class ConstantPad2d(_ConstantPadNd):
    """Margins of ``value`` : (..., H, W)"""

    axes = 2


class ConstantPad3d(_ConstantPadNd):
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


class ReflectionPad1d(_ReflectionPadNd):
    """Margins that mirror the inside; the edge itself is not repeated : (..., W)"""

    axes = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Margins that mirror the inside; the edge itself is not repeated : (..., H, W)"""

    axes = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Margins that mirror the inside; the edge itself is not repeated : (..., D, H, W)"""

    axes = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Margins that repeat the edge : (..., W)"""

    axes = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Margins that repeat the edge : (..., H, W)"""

    axes = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Margins that repeat the edge : (..., D, H, W)"""

    axes = 3


class CircularPad1d(_CircularPadNd):
    """Margins from the other side : (..., W)"""

    axes = 1


class CircularPad2d(_CircularPadNd):
    """Margins from the other side : (..., H, W)"""

    axes = 2


class CircularPad3d(_CircularPadNd):
    """Margins from the other side : (..., D, H, W)"""

    axes = 3
