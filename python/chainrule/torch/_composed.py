"""Functions of ``torch`` that are made of a few others, and their methods of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import chainrule as cr
from chainrule import special

igamma, igammac, mvlgamma = special.gammainc, special.gammaincc, special.multigammaln


def scalar_tensor(value: Any, **options: Any) -> cr.Tensor:
    """A tensor of no axes, of the default dtype where none is given."""
    options["dtype"] = options.get("dtype") or cr.get_default_dtype()
    return cr.full((), value, **options)


def empty_strided(size: Sequence[int], stride: Sequence[int], **options: Any) -> cr.Tensor:
    """A tensor whose elements lie ``stride`` apart along each axis."""
    if len(size) != len(stride):
        raise RuntimeError(f"empty_strided: {len(size)} sizes and {len(stride)} strides")
    room = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if math.prod(size) else 0
    gradient = options.pop("requires_grad", False)
    kept = {name: options[name] for name in ("dtype", "device") if options.get(name)}
    return cr.empty(room, **kept).as_strided(size, stride).requires_grad_(gradient)


def new_empty_strided(self: cr.Tensor, size: Sequence[int], stride: Sequence[int], **options: Any) -> cr.Tensor:
    """The same, of the tensor's dtype and on its device."""
    return empty_strided(size, stride, **{"dtype": self.dtype, "device": self.device, **options})


def unravel_index(indices: cr.Tensor, shape: int | Sequence[int]) -> tuple[cr.Tensor, ...]:
    """Positions in a flat tensor -> those along each axis of ``shape``.  ValueError: negative sizes."""
    sizes = [shape] if isinstance(shape, int) else [int(n) for n in shape]
    if indices.is_floating_point() or indices.dtype is cr.bool:
        raise ValueError(f"unravel_index(): indices must be ints, not {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index(): shape cannot have negative values, but got {tuple(sizes)}")
    found: list[cr.Tensor] = []
    for n in reversed(sizes):
        found.append(indices % n)
        indices = indices // n
    return tuple(reversed(found))


def chain_matmul(*matrices: cr.Tensor) -> cr.Tensor:
    """The product of matrices, in the order that costs least."""
    return cr.linalg.multi_dot(matrices) if len(matrices) > 1 else matrices[0]


def put(input: cr.Tensor, index: cr.Tensor, source: cr.Tensor, accumulate: bool = False) -> cr.Tensor:
    """A copy with ``source`` at the positions ``index`` in the flat tensor, added with ``accumulate``."""
    if index.numel() != source.numel():
        raise IndexError(f"put(): index has {index.numel()} elements and source {source.numel()}")
    flat = input.reshape(-1)
    return flat.index_put((index.reshape(-1),), source.reshape(-1), accumulate).view(input.shape)


def put_(self: cr.Tensor, index: cr.Tensor, source: cr.Tensor, accumulate: bool = False) -> cr.Tensor:
    """``put`` in place."""
    return self.copy_(put(self, index, source, accumulate))


def as_strided_scatter(
    input: cr.Tensor, src: cr.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> cr.Tensor:
    """A copy with ``src`` in place of ``as_strided(size, stride, storage_offset)``."""
    y = input.clone()
    y.as_strided(size, stride, input.storage_offset() if storage_offset is None else storage_offset).copy_(src)
    return y


def narrow_copy(input: cr.Tensor, dim: int, start: int, length: int) -> cr.Tensor:
    return input.narrow(dim, start, length).clone()


def nonzero_static(input: cr.Tensor, *, size: int, fill_value: int = -1) -> cr.Tensor:
    """``nonzero`` with ``size`` rows: cut, or filled up."""
    found = input.nonzero()[:size]
    return cr.cat([found, cr.full_like(found[:1], fill_value).expand(size - len(found), input.ndim)])


def polygamma(self: cr.Tensor, n: int) -> cr.Tensor:
    """The method, whose arguments are in the other order."""
    return special.polygamma(n, self)


def isreal(input: cr.Tensor) -> cr.Tensor:
    """True everywhere: there are no complex numbers."""
    return cr.ones_like(input, dtype=cr.bool)


def angle(input: cr.Tensor) -> cr.Tensor:
    """pi where the number is negative, else 0; NaN stays.  The gradient is 0."""
    x = input if input.is_floating_point() else input.to(cr.get_default_dtype())
    return cr.where(x.isnan(), x, cr.where(x < 0, math.pi, 0.0).to(x.dtype)) if x.numel() else x.clone()


def unsafe_chunk(input: cr.Tensor, chunks: int, dim: int = 0) -> Any:
    return input.chunk(chunks, dim)


def unsafe_split(tensor: cr.Tensor, split_size: int, dim: int = 0) -> Any:
    return tensor.split(split_size, dim)


# ---- derivatives on a grid


def _slopes(x: cr.Tensor, dim: int, at: cr.Tensor | float, order: int) -> cr.Tensor:
    """Differences of second order inside; at the edges of ``order``.  at: points, or how far apart they are."""
    n = x.size(dim)
    if n < order + 1:
        raise RuntimeError(f"gradient: axis {dim} has {n} elements: edge_order {order} needs at least {order + 1}")
    point = at if isinstance(at, cr.Tensor) else at * cr.arange(n, dtype=x.dtype, device=x.device)
    step = point.diff().view([-1 if i == dim else 1 for i in range(x.ndim)])
    slope = x.diff(dim=dim) / step  # between neighbours
    if n == 2:
        return cr.cat([slope, slope], dim)
    left, right = slope.narrow(dim, 0, n - 2), slope.narrow(dim, 1, n - 2)
    before, after = step.narrow(dim, 0, n - 2), step.narrow(dim, 1, n - 2)
    bend = (right - left) / (before + after)
    inside = left + bend * before
    first, last = slope.narrow(dim, 0, 1), slope.narrow(dim, n - 2, 1)
    if order == 2:
        first = first - bend.narrow(dim, 0, 1) * step.narrow(dim, 0, 1)
        last = last + bend.narrow(dim, n - 3, 1) * step.narrow(dim, n - 2, 1)
    return cr.cat([first, inside, last], dim)


def gradient(
    input: cr.Tensor,
    *,
    spacing: float | Sequence[Any] = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> list[cr.Tensor]:
    """The derivative along each axis by central differences, on points that need not be evenly spaced.

    spacing: the distance of points along all axes, or for each axis a distance or the points as a vector.
    edge_order: 1 or 2, the order of the differences at the edges.  RuntimeError: numbers that do not fit each other."""
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, not {edge_order}")
    x = input if input.is_floating_point() else input.to(cr.get_default_dtype())
    axes = [*range(x.ndim)] if dim is None else [dim] if isinstance(dim, int) else [*dim]
    axes = [axis % x.ndim if -x.ndim <= axis < x.ndim else axis for axis in axes]
    if any(axis < 0 or axis >= x.ndim for axis in axes) or len({*axes}) < len(axes):
        raise RuntimeError(f"gradient: dim {dim} names axes that are not there, or one twice")
    one = isinstance(spacing, int | float) or (isinstance(spacing, cr.Tensor) and spacing.ndim == 0)
    points: list[Any] = [spacing] * len(axes) if one else [*spacing]  # type: ignore[misc]
    if len(points) != len(axes):
        raise RuntimeError(f"gradient: {len(points)} spacings for {len(axes)} axes")
    for axis, point in zip(axes, points, strict=True):
        if isinstance(point, cr.Tensor) and point.ndim and point.shape != (x.size(axis),):
            raise RuntimeError(f"gradient: {tuple(point.shape)} points for axis {axis} of {x.size(axis)} elements")
    return [
        _slopes(x, axis, point if isinstance(point, cr.Tensor) and point.ndim else float(point), edge_order)
        for axis, point in zip(axes, points, strict=True)
    ]
