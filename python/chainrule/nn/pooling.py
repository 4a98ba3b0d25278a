"""Pooling: modules over the functions of ``functional.pooling``, by name and number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

_Ints = int | Sequence[int]
_Sizes = int | Sequence[int | None] | None


def _each(value: _Ints, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


class _MaxPoolNd(Module):
    """The largest element of each window; return_indices: also its position (``functional.max_pool2d``)"""

    n: int

    def __init__(
        self,
        kernel_size: _Ints,
        stride: _Ints | None = None,
        padding: _Ints = 0,
        dilation: _Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self.n - 1]
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation},"
            f" ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    __doc__ = f"(N, C, T) or (C, T).  {_MaxPoolNd.__doc__}"
    n = 1


class MaxPool2d(_MaxPoolNd):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_MaxPoolNd.__doc__}"
    n = 2


class MaxPool3d(_MaxPoolNd):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_MaxPoolNd.__doc__}"
    n = 3


class _MaxUnpoolNd(Module):
    """Zeros with the elements at the positions that a MaxPool gave (``functional.max_unpool2d``)"""

    n: int

    def __init__(self, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0) -> None:
        super().__init__()
        self.kernel_size = _each(kernel_size, self.n)
        self.stride = self.kernel_size if stride is None else _each(stride, self.n)
        self.padding = _each(padding, self.n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self.n - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    __doc__ = f"(N, C, T) or (C, T).  {_MaxUnpoolNd.__doc__}"
    n = 1


class MaxUnpool2d(_MaxUnpoolNd):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_MaxUnpoolNd.__doc__}"
    n = 2


class MaxUnpool3d(_MaxUnpoolNd):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_MaxUnpoolNd.__doc__}"
    n = 3


class _AvgPoolNd(Module):
    """The mean of each window (``functional.avg_pool2d``)"""

    kernel_size: _Ints
    stride: _Ints
    padding: _Ints

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    __doc__ = f"(N, C, T) or (C, T).  {_AvgPoolNd.__doc__}"

    def __init__(
        self,
        kernel_size: _Ints,
        stride: _Ints | None = None,
        padding: _Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = _each(kernel_size, 1), _each(padding, 1)
        self.stride = self.kernel_size if stride is None else _each(stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWide(_AvgPoolNd):
    n: int

    def __init__(
        self,
        kernel_size: _Ints,
        stride: _Ints | None = None,
        padding: _Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return (F.avg_pool2d, F.avg_pool3d)[self.n - 2](
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolWide):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_AvgPoolNd.__doc__}"
    n = 2


class AvgPool3d(_AvgPoolWide):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_AvgPoolNd.__doc__}"
    n = 3


class _LPPoolNd(Module):
    """(sum over the window of x^p)^(1 / p), p = norm_type (``functional.lp_pool2d``)"""

    n: int

    def __init__(
        self, norm_type: float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        pool = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[self.n - 1]
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride},"
            f" ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    __doc__ = f"(N, C, T) or (C, T).  {_LPPoolNd.__doc__}"
    n = 1


class LPPool2d(_LPPoolNd):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_LPPoolNd.__doc__}"
    n = 2


class LPPool3d(_LPPoolNd):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_LPPoolNd.__doc__}"
    n = 3


class _AdaptiveAvgPoolNd(Module):
    """Means of as many windows as ``output_size`` says (``functional.adaptive_avg_pool2d``)"""

    n: int

    def __init__(self, output_size: _Sizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[self.n - 1]
        return pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    __doc__ = f"(N, C, T) or (C, T).  {_AdaptiveAvgPoolNd.__doc__}"
    n = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_AdaptiveAvgPoolNd.__doc__}"
    n = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_AdaptiveAvgPoolNd.__doc__}"
    n = 3


class _AdaptiveMaxPoolNd(Module):
    """The largest elements of as many windows as ``output_size`` says; return_indices: also their positions
    (``functional.adaptive_max_pool2d``)"""

    n: int

    def __init__(self, output_size: _Sizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        pool = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[self.n - 1]
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    __doc__ = f"(N, C, T) or (C, T).  {_AdaptiveMaxPoolNd.__doc__}"
    n = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_AdaptiveMaxPoolNd.__doc__}"
    n = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_AdaptiveMaxPoolNd.__doc__}"
    n = 3


class _FractionalMaxPool(Module):
    """The largest element of windows at random, increasing positions (``functional.fractional_max_pool2d``)"""

    n: int

    def __init__(
        self,
        kernel_size: _Ints,
        output_size: _Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__} requires specifying either an output_size or a pooling ratio")
        self.kernel_size, self.output_ratio = _each(kernel_size, self.n), output_ratio
        self.output_size = None if output_size is None else _each(output_size, self.n)
        self.return_indices, self._random_samples = return_indices, _random_samples

    def forward(self, input: Tensor) -> Any:
        pool = (F.fractional_max_pool2d, F.fractional_max_pool3d)[self.n - 2]
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    __doc__ = f"(N, C, H, W) or (C, H, W).  {_FractionalMaxPool.__doc__}"
    n = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W).  {_FractionalMaxPool.__doc__}"
    n = 3
