"""Images sampled at the points of a grid (Jaderberg et al. 2015) as functions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import product

from ... import _core
from ..._core import Tensor

__all__ = ["affine_grid", "grid_sample"]

Taps = list[tuple[Tensor, Tensor | None]]  # along one axis: whole coordinates, as floats, and weights; None is 1


def _aligned(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            f"Default {name} behavior is align_corners=False. Please specify align_corners if another is desired.",
            stacklevel=3,
        )
    return bool(align_corners)


def _inside(at: Tensor, size: int) -> Tensor:
    return (at >= 0).logical_and(at <= size - 1)


def _clipped(at: Tensor, size: int) -> Tensor:
    """Within 0 ... size - 1; a coordinate that is moved, or lies on the border, has no gradient."""
    moves = (at > 0).logical_and(at < size - 1)
    return _core.where(moves, at, at.detach().nan_to_num(0.0).clamp(0, size - 1))


def _reflected(at: Tensor, size: int, align_corners: bool) -> Tensor:
    """Mirrored at the border as often as needed: at the middles of the outer pixels, or at their edges."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if not span:
        return at * 0
    away = _core.where(at < low, low - at, at - low)
    turns = (away.detach() / span).floor()
    rest = away - turns * span
    return _core.where(turns % 2 == 0, rest, span - rest) + low


def _padded(at: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "zeros":
        return at
    return _clipped(_reflected(at, size, align_corners) if padding_mode == "reflection" else at, size)


def _cubic(t: Tensor) -> list[Tensor]:
    """Weights of the pixels at -1, 0, 1, 2 for the position t in [0, 1] (Keys 1981, a = -0.75)."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _taps(at: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool) -> Taps:
    """The pixels along one axis that a coordinate in [-1, 1] reads."""
    at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
    if mode == "bicubic":
        base = at.detach().floor()
        weights = _cubic(at - base)
        return [(_padded(base + i, size, padding_mode, align_corners), w) for i, w in enumerate(weights, -1)]
    at = _padded(at, size, padding_mode, align_corners)
    if mode == "nearest":
        # a weight of 1, from which the grid gets a gradient of 0
        weight = _core.where(_core.zeros_like(at, dtype=_core.bool), at, 1.0) if at.requires_grad else None
        return [(at.detach().round(), weight)]
    base = at.detach().floor()
    return [(base, base + 1 - at), (base + 1, at - base)]


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The image at the points of the grid, (x, y) or (x, y, z) with -1 and 1 at its borders : (N, C,
    H, W), (N, oh, ow, 2) -> (N, C, oh, ow), or with one axis more, 3. mode: "bilinear", "nearest" or
    "bicubic" (four axes only).  padding_mode: what is outside: "zeros", "border" or "reflection".
    align_corners: -1 and 1 are the middles of the outer pixels, not their edges."""
    for what, value, known in (
        ("mode", mode, ("bilinear", "nearest", "bicubic")),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if value not in known:
            raise ValueError(f"nn.functional.grid_sample(): expected {what} to be one of {known}, but got: '{value}'")
    align_corners = _aligned("grid_sample", align_corners)
    axes = input.ndim - 2
    if axes not in (2, 3) or grid.ndim != input.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes"
            f" {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.size(0) != grid.size(0) or grid.size(-1) != axes:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {axes} in last dimension and the batch size of input, but got"
            f" input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {list(input.shape)}"
        )
    if mode == "bicubic" and axes == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype or input.device != grid.device:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to be on same device and have the same dtype, but input is"
            f" {input.dtype} on {input.device} and grid is {grid.dtype} on {grid.device}"
        )
    sizes, points = input.shape[2:], grid.flatten(1, -2)  # (N, P, axes); the last coordinate is that of the first axis
    taps = [_taps(points[..., axes - 1 - k], sizes[k], mode, padding_mode, align_corners) for k in range(axes)]
    pixels = input.flatten(2)
    first, *others = (_weighted_pixels(pixels, sizes, corner) for corner in product(*taps))
    return sum(others, start=first).unflatten(2, tuple(grid.shape[1:-1]))


def _weighted_pixels(pixels: Tensor, sizes: Sequence[int], corner: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
    """One pixel for each point times its weight, 0 outside : (N, C, prod(sizes)), (N, P) each -> (N, C, P)"""
    inside = _core.ones_like(corner[0][0], dtype=_core.bool)
    for size, (at, _) in zip(sizes, corner, strict=True):
        inside = inside.logical_and(_inside(at, size))
    index = _core.zeros_like(inside, dtype=_core.int64)
    for size, (at, _) in zip(sizes, corner, strict=True):
        index = index * size + at.detach().masked_fill(~inside, 0).long()
    weights = [weight for _, weight in corner if weight is not None]
    weight = math.prod(weights[1:], start=weights[0]) if weights else inside.to(pixels.dtype)
    value = pixels.gather(2, index.unsqueeze(1).expand(-1, pixels.size(1), -1))
    return value.masked_fill(~inside.unsqueeze(1), 0) * weight.masked_fill(~inside, 0).unsqueeze(1)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The points theta (x, y, 1) of all pixels of an image of ``size``, for ``grid_sample`` : (N, 2,
    3), (N, C, H, W) -> (N, H, W, 2); (N, 3, 4), (N, C, D, H, W) -> (N, D, H, W, 3)"""
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    axes = len(size) - 2
    if axes not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size"
            f" {list(size)}."
        )
    if tuple(theta.shape) != (theta.size(0), axes, axes + 1):
        raise ValueError(
            f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} for size {list(size)}. Got"
            f" {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {list(size)}")
    align_corners = _aligned("affine_grid", align_corners)
    lines = []
    for n in size[2:]:
        line = _core.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device) if n > 1 else theta.new_zeros(1)
        lines.append(line if align_corners else line * ((n - 1) / n))
    mesh = _core.meshgrid(*lines, indexing="ij")
    base = _core.stack([*mesh[::-1], _core.ones_like(mesh[0])], -1).flatten(0, -2)  # (P, axes + 1)
    return (base @ theta.mT).unflatten(1, tuple(size[2:]))
