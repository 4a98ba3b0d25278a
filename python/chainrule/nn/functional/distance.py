"""Norms, distances and similarities of vectors as functions."""

from __future__ import annotations

from ... import _core
from ..._core import Tensor

__all__ = [
    "cosine_similarity",
    "normalize",
    "pairwise_distance",
    "pdist",
]


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm_p(x), eps) along ``dim``; the same shape."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(norm(x1), eps) max(norm(x2), eps)) along ``dim``, which goes."""
    return (
        x1 / x1.norm(2, dim, keepdim=True).clamp(min=eps) * (x2 / x2.norm(2, dim, keepdim=True).clamp(min=eps))
    ).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """norm_p(x1 - x2 + eps) along the last axis, which goes but with ``keepdim`` : (N, D) x 2 -> (N)"""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """norm_p(x[i] - x[j]) of all pairs i < j, in the order of the triangle's rows : (N, D) -> (N (N - 1) / 2)"""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = _pairs(len(input), input)
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, -1)


def _pairs(n: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The places of a strict upper triangle, row by row."""
    at = _core.ones(n, n, dtype=_core.bool).triu(1).nonzero().to(like.device)
    return at[:, 0], at[:, 1]


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """norm_p(x[i] - x[j]) of all pairs i < j, in the order of the triangle's rows : (N, D) -> (N (N - 1) / 2)"""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = _pairs(len(input), input)
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, -1)


def _pairs(n: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The places of a strict upper triangle, row by row."""
    at = _core.ones(n, n, dtype=_core.bool).triu(1).nonzero().to(like.device)
    return at[:, 0], at[:, 1]


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """norm_p(x1[i] - x2[j]) of all pairs : (..., N, D), (..., M, D) -> (..., N, M); the gradient is 0
    where a distance is. compute_mode: "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", or
    the first where N or M is above 25: norms of p = 2 by one product, which is quicker and less exact."""
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if x1.ndim < 2 or x2.ndim < 2:
        raise RuntimeError(f"cdist only supports at least 2D tensors, got: {x1.ndim}D and {x2.ndim}D")
    if x1.size(-1) != x2.size(-1):
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.size(-1)} X2: {x2.size(-1)}")
    if not x1.is_floating_point() or not x2.is_floating_point():
        raise RuntimeError(f"cdist only supports floating-point dtypes, got: {x1.dtype} and {x2.dtype}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    many = max(x1.size(-2), x2.size(-2)) > 25
    if p == 2 and (compute_mode == modes[1] or (compute_mode == modes[0] and many)):
        return _roots(x1.square().sum(-1).unsqueeze(-1) + x2.square().sum(-1).unsqueeze(-2) - 2 * (x1 @ x2.mT))
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


def _roots(x: Tensor) -> Tensor:
    """sqrt(max(x, 0)), with the gradient 0 at 0"""
    zero = x.detach() <= 0
    return x.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)
