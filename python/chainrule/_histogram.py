"""Histograms over one axis or several, as PyTorch's: ``histogram`` and ``histogramdd`` of the package."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from . import _core
from ._core import Error, Tensor


class _Histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor


class _Histogramdd(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _limits(name: str, x: Tensor, axis: int, given: Sequence[float] | None) -> tuple[float, float]:
    """Where the first bin begins and the last one ends; of the data when not given."""
    if given is not None:
        low, high = float(given[0]), float(given[1])
    elif x.shape[0] == 0:
        low, high = 0.0, 1.0
    else:
        low, high = x[:, axis].amin().item(), x[:, axis].amax().item()
    if not (isfinite(low) and isfinite(high)):
        raise Error(f"[{name}] the range of axis {axis} is not finite: [{low}, {high}]")
    if low > high:
        raise Error(f"[{name}] the range of axis {axis} must not fall: [{low}, {high}]")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges(name: str, x: Tensor, bins: Sequence[int | Tensor], span: Sequence[float] | None) -> list[Tensor]:
    """The edges of the bins along each axis, from their numbers or as they are given : (M, D) -> D times (N + 1)."""
    for b in bins:
        if not isinstance(b, int | Tensor):
            raise TypeError(f"{name}(): argument 'bins' must be ints or Tensors, not {type(b).__name__}")
    if len(bins) != x.shape[1]:
        raise Error(f"[{name}] {x.shape[1]} axes need as many bins: {len(bins)}")
    tensors = [isinstance(b, Tensor) for b in bins]
    if any(tensors) and not all(tensors):
        raise TypeError(f"{name}(): argument 'bins' must be ints or Tensors, not both")
    if any(tensors) and span is not None:
        raise TypeError(f"{name}(): edges of bins and a range exclude one another")
    if span is not None and len(span) != 2 * len(bins):
        raise Error(f"[{name}] a range of {len(bins)} axes has {2 * len(bins)} numbers: {len(span)}")
    found = []
    for axis, b in enumerate(bins):
        if isinstance(b, Tensor):
            found.append(b.detach())
            continue
        if b < 1:
            raise Error(f"[{name}] the number of bins along axis {axis} must be at least 1: {b}")
        low, high = _limits(name, x, axis, None if span is None else span[2 * axis : 2 * axis + 2])
        found.append(_core.linspace(low, high, b + 1, dtype=x.dtype, device=x.device))
    return found


def _counted(
    name: str,
    x: Tensor,
    bins: Sequence[int | Tensor],
    span: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
) -> tuple[Tensor, list[Tensor]]:
    if not x.is_floating_point():
        raise _core.DtypeError(f"[{name}] needs a floating point dtype: {x.dtype}")
    edges = _edges(name, x, bins, span)
    hist = _core._histogram(x, edges, weight)
    if density:
        hist = hist / hist.sum()
        for axis, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1] + [1] * (len(edges) - 1 - axis))
    return hist, edges


def histogram(
    input: Tensor,
    bins: int | Tensor | None = None,
    range: Sequence[float] | None = None,  # noqa: A002, as PyTorch's
    weight: Tensor | None = None,
    density: bool = False,
) -> _Histogram:
    """Counts of the elements in each bin, and the edges of the bins."""
    if weight is not None and weight.shape != input.shape:
        raise Error(f"[histogram] a weight for each element is needed: {tuple(weight.shape)} for {tuple(input.shape)}")
    x = input.detach().reshape(-1, 1)
    w = None if weight is None else weight.detach().reshape(-1)
    hist, edges = _counted("histogram", x, [100 if bins is None else bins], range, w, density)
    return _Histogram(hist, edges[0])


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    range: Sequence[float] | None = None,  # noqa: A002, as PyTorch's
    weight: Tensor | None = None,
    density: bool = False,
) -> _Histogramdd:
    """Counts of the points in each box, and the edges of the boxes along each axis."""
    if input.ndim < 2:
        raise Error(f"[histogramdd] points along a last axis are needed: {tuple(input.shape)}")
    if weight is not None and weight.shape != input.shape[:-1]:
        raise Error(f"[histogramdd] a weight for each point is needed: {tuple(weight.shape)} for {tuple(input.shape)}")
    axes = input.shape[-1]
    x = input.detach().reshape(input.numel() // axes if axes else 0, axes)
    w = None if weight is None else weight.detach().reshape(-1)
    if not isinstance(bins, int | list | tuple):
        raise TypeError(f"histogramdd(): argument 'bins' must be an int or a sequence, not {type(bins).__name__}")
    each: list[int | Tensor] = [bins] * axes if isinstance(bins, int) else [*bins]
    hist, edges = _counted("histogramdd", x, each, range, w, density)
    return _Histogramdd(hist, tuple(edges))
