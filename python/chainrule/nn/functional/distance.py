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
    """The indices of a strict upper triangle, row by row."""
    at = _core.ones(n, n, dtype=_core.bool).triu(1).nonzero().to(like.device)
    return at[:, 0], at[:, 1]
