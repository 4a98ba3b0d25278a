"""Resampling as functions: other sizes of the axes behind (N, C)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from ... import _core
from ..._core import Tensor

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

# mode -> (the axes behind (N, C), the mode of each axis)
_MODES: dict[str, tuple[tuple[int, ...], str]] = {
    "nearest": ((1, 2, 3), "nearest"),
    "nearest-exact": ((1, 2, 3), "nearest-exact"),
    "area": ((1, 2, 3), "area"),
    "linear": ((1,), "linear"),
    "bilinear": ((2,), "linear"),
    "trilinear": ((3,), "linear"),
    "bicubic": ((2,), "cubic"),
}


def _by_axis(what: str, value: float | Sequence[float], n: int) -> list[float]:
    if isinstance(value, int | float):
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with {n} spatial"
            f" dimensions and {what} of {list(value)}."
        )
    return list(value)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The axes behind (N, C) brought to ``size``, or to floor(size ``scale_factor``). mode: "nearest" (as OpenCV
    does), "nearest-exact" (as Pillow does), "linear", "bilinear" and "trilinear" for 1, 2 and 3 axes, "bicubic"
    (Keys 1981, a = -0.75), "area" (``adaptive_avg_pool``). Element s of S is at (s + 1/2) R / S - 1/2 of R, with
    align_corners s (R - 1) / (S - 1). A scale factor replaces S / R, unless recompute_scale_factor.
    antialias: "bilinear" and "bicubic" filter what they make smaller, as Pillow does."""
    n = input.ndim - 2
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "either size or scale_factor should be defined"
            if size is None
            else "only one of size or scale_factor should be defined"
        )
    if mode not in _MODES or n not in (1, 2, 3):
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported"
            f" (got {input.ndim}D) for the modes: {' | '.join(_MODES)} (got {mode})"
        )
    axes, each = _MODES[mode]
    if n not in axes:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {axes[0] + 2}D input")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    scale = [0.0] * n  # by the sizes
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = [int(s) for s in _by_axis("output size", size, n)]
    elif scale_factor is not None:
        factors = _by_axis("scale_factor", scale_factor, n)
        sizes = [math.floor(s * f) for s, f in zip(input.shape[2:], factors, strict=True)]
        scale = scale if recompute_scale_factor else [float(f) for f in factors]
    if min(sizes) < 1 or 0 in input.shape[1:]:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(input.shape[2:])} and output {sizes}"
        )
    if each == "area":
        return _core._adaptive_avg_pool(input, sizes)
    first, second, third = [*scale, 0.0, 0.0][:3]
    return _core._interpolate(input, sizes, each, bool(align_corners), antialias, first, second, third)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """``interpolate`` by its old name"""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """``interpolate`` with the mode "nearest\""""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """``interpolate`` with the mode "bilinear" and align_corners"""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, "bilinear", True)
