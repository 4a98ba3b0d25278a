"""Pooling as functions: windows over the last one, two or three axes of (C, *in) or (N, C, *in).

A kernel size, stride, padding or dilation is an int, or one int for each axis. Without a stride it is the kernel size.
Windows that reach beyond the input count only the elements inside, except where a function counts the padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._core import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_Ints = int | Sequence[int]


def _check(op: str, input: Tensor, n: int) -> None:
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{op}{n}d(): Expected {n + 1}D or {n + 2}D (batch mode) tensor for input, but got: {list(input.shape)}"
        )


def _each(value: _Ints, n: int) -> list[int]:
    """One int for each of n axes."""
    values = [value] * n if isinstance(value, int) else list(value)
    if len(values) == 1:
        values *= n
    if len(values) != n:
        raise RuntimeError(f"expected an int or {n} ints, got {value}")
    return values


# ---- maxima


def _max_pool(
    n: int,
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None,
    padding: _Ints,
    dilation: _Ints,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    _check("max_pool", input, n)
    pool = _core._max_pool_with_indices if return_indices else _core._max_pool
    return pool(input, n, kernel_size, kernel_size if stride is None else stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """max over t < kernel_size of x[p stride + t dilation - padding]; NaN wins. return_indices: also the positions in
    the last axis, int64. The gradient goes to the first of equal elements."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool1d`` over the last two axes; the positions are those in these axes, flattened."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool1d`` over the last three axes; the positions are those in these axes, flattened."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool1d`` with its positions"""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool2d`` with its positions"""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    dilation: _Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool3d`` with its positions"""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _unpooled_size(
    input: Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    output_size: Sequence[int] | None,
) -> list[int]:
    n = len(kernel)
    usual = [(input.shape[i - n] - 1) * stride[i] + kernel[i] - 2 * padding[i] for i in range(n)]
    if output_size is None:
        return usual
    given = list(output_size)[2:] if len(output_size) == n + 2 else list(output_size)
    if len(given) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of"
            f" '{len(output_size)}'"
        )
    for i in range(n):
        if not usual[i] - stride[i] < given[i] < usual[i] + stride[i]:
            raise ValueError(
                f'invalid output_size "{given}" (dim {i} must be between {usual[i] - stride[i]} and'
                f" {usual[i] + stride[i]})"
            )
    return given


def _max_unpool(
    n: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None,
    padding: _Ints,
    output_size: Sequence[int] | None,
) -> Tensor:
    _check("max_unpool", input, n)
    if indices.dtype is not _core.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if indices.shape != input.shape:
        raise RuntimeError(f"Expected shape of indices to be: {list(input.shape)} but got: {list(indices.shape)}")
    kernel = _each(kernel_size, n)
    size = _unpooled_size(input, kernel, kernel if stride is None else _each(stride, n), _each(padding, n), output_size)
    numel = math.prod(size)
    if indices.numel() and not 0 <= int(indices.min().item()) <= int(indices.max().item()) < numel:
        raise RuntimeError(f"Found an invalid max index: the indices must be 0 ... {numel - 1} for the output {size}")
    y = _core.zeros(*input.shape[:-n], numel, dtype=input.dtype, device=input.device)
    return y.scatter(-1, indices.flatten(-n), input.flatten(-n)).unflatten(-1, size)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements at the positions that ``max_pool1d`` gave; output_size: which of the sizes that
    pooling brings to the input's."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """``max_unpool1d`` of ``max_pool2d``"""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """``max_unpool1d`` of ``max_pool3d``"""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ---- means and norms


def _avg_pool(
    n: int,
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None,
    padding: _Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    _check("avg_pool", input, n)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    return _core._avg_pool(
        input,
        n,
        kernel_size,
        kernel_size if stride is None else stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override or 0,
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean over t < kernel_size of x[p stride + t - padding]. count_include_pad: the padding counts as zeros."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``avg_pool1d`` over the last two axes; divisor_override: divides each sum, instead of the window's size."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: _Ints,
    stride: _Ints | None = None,
    padding: _Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``avg_pool2d`` over the last three axes"""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(
    n: int, input: Tensor, norm_type: float, kernel_size: _Ints, stride: _Ints | None, ceil_mode: bool
) -> Tensor:
    count = math.prod(_each(kernel_size, n))
    mean = _avg_pool(n, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    return (mean.sign() * mean.abs().relu() * count).pow(1 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """(sum over the window of x^p)^(1 / p), p = norm_type"""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """``lp_pool1d`` over the last two axes"""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: _Ints, stride: _Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    """``lp_pool1d`` over the last three axes"""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ---- windows by the size of the result

_Sizes = int | Sequence[int | None] | None


def _sizes(op: str, n: int, input: Tensor, output_size: _Sizes) -> list[int]:
    """The sizes of the result; None: that of the input."""
    _check(op, input, n)
    given = [output_size] * n if output_size is None or isinstance(output_size, int) else list(output_size)
    if len(given) != n:
        raise RuntimeError(f"{op}{n}d(): output_size must be an int or {n} ints, got {output_size}")
    return [input.shape[i - n] if size is None else size for i, size in enumerate(given)]


def adaptive_avg_pool1d(input: Tensor, output_size: _Sizes) -> Tensor:
    """(..., R) -> (..., S): element s is the mean of the elements floor(s R / S) ... ceil((s + 1) R / S) - 1."""
    return _core._adaptive_avg_pool(input, _sizes("adaptive_avg_pool", 1, input, output_size))


def adaptive_avg_pool2d(input: Tensor, output_size: _Sizes) -> Tensor:
    """``adaptive_avg_pool1d`` over the last two axes; None: the size of the input"""
    return _core._adaptive_avg_pool(input, _sizes("adaptive_avg_pool", 2, input, output_size))


def adaptive_avg_pool3d(input: Tensor, output_size: _Sizes) -> Tensor:
    """``adaptive_avg_pool1d`` over the last three axes; None: the size of the input"""
    return _core._adaptive_avg_pool(input, _sizes("adaptive_avg_pool", 3, input, output_size))


def _adaptive_max(n: int, input: Tensor, output_size: _Sizes, return_indices: bool) -> Any:
    size = _sizes("adaptive_max_pool", n, input, output_size)
    return (_core._adaptive_max_pool_with_indices if return_indices else _core._adaptive_max_pool)(input, size)


def adaptive_max_pool1d(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """The largest elements of the windows of ``adaptive_avg_pool1d``. return_indices: also their positions."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """``adaptive_max_pool1d`` over the last two axes; positions in these axes, flattened"""
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """``adaptive_max_pool1d`` over the last three axes; positions in these axes, flattened"""
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """``adaptive_max_pool1d`` with its positions"""
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """``adaptive_max_pool2d`` with its positions"""
    return _adaptive_max(2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: _Sizes, return_indices: bool = False) -> Any:
    """``adaptive_max_pool3d`` with its positions"""
    return _adaptive_max(3, input, output_size, True)


def _starts(sample: Tensor, size: int, kernel: int, out: int) -> Tensor:
    """The first element of each of ``out`` windows of ``kernel`` elements, for random numbers u in [0, 1) :
    (...) -> (..., out); alpha = (size - kernel) / (out - 1), floor((i + u) alpha) - floor(u alpha), the last at the
    end."""
    if out == 1:
        return _core.full((*sample.shape, 1), size - kernel, dtype=_core.int64, device=sample.device)
    alpha, u = (size - kernel) / (out - 1), sample.unsqueeze(-1)
    i = _core.arange(out, device=sample.device)
    first = ((i + u) * alpha).to(_core.int64) - (u * alpha).to(_core.int64)
    return first.masked_fill(i == out - 1, size - kernel)


def _fractional(
    n: int,
    input: Tensor,
    kernel_size: _Ints,
    output_size: _Ints | None,
    output_ratio: float | Sequence[float] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    _check("fractional_max_pool", input, n)
    if (output_size is None) == (output_ratio is None):
        raise ValueError("fractional_max_pool requires specifying either an output_size or an output_ratio")
    kernel, size = _each(kernel_size, n), list(input.shape[-n:])
    if output_size is not None:
        out = _each(output_size, n)
    elif output_ratio is not None:
        ratios = [output_ratio] * n if isinstance(output_ratio, int | float) else list(output_ratio)
        if not all(0 < r < 1 for r in ratios):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        out = [int(s * r) for s, r in zip(size, ratios, strict=True)]
    for i in range(n):
        if not 1 <= out[i] <= size[i] - kernel[i] + 1:
            raise RuntimeError(f"fractional_max_pool{n}d(): pool size {kernel} too large relative to input size {size}")
    x = input if input.ndim == n + 2 else input.unsqueeze(0)
    if samples is None:
        samples = _core.rand(*x.shape[:2], n, dtype=input.dtype, device=input.device)
    positions = _core.zeros(1, dtype=_core.int64, device=x.device)  # flattened axes: (N, C, out[0] kernel[0], ...)
    for i in range(n):
        u = samples[:, :, n - 1 - i if n == 2 else i]  # PyTorch's order: width first in two axes, depth first in three
        at = _starts(u, size[i], kernel[i], out[i]).unsqueeze(-1) + _core.arange(kernel[i], device=x.device)
        at = at.reshape(*x.shape[:2], *(-1 if j == i else 1 for j in range(n)))
        positions = positions + at * math.prod(size[i + 1 :])
    windows = x.flatten(2).gather(2, positions.flatten(2)).reshape(positions.shape)
    y, inside = _core._max_pool_with_indices(windows, n, kernel, kernel, 0, 1, False)
    indices = positions.flatten(2).gather(2, inside.flatten(2)).reshape(y.shape)
    if input.ndim != n + 2:
        y, indices = y.squeeze(0), indices.squeeze(0)
    return (y, indices) if return_indices else y


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: _Ints,
    output_size: _Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows of ``kernel_size`` at random, increasing positions (Graham 2014), which follow
    from one number in [0, 1) for each axis of each plane. output_size, or output_ratio: of the input's."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: _Ints,
    output_size: _Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """``fractional_max_pool2d`` over the last three axes"""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: _Ints,
    output_size: _Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """``fractional_max_pool2d`` with its positions"""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: _Ints,
    output_size: _Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """``fractional_max_pool3d`` with its positions"""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)
