"""Norms and similarities of vectors as functions."""

from __future__ import annotations

from ..._core import Tensor

__all__ = [
    "cosine_similarity",
    "normalize",
]


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm_p(x), eps) along ``dim``; the same shape."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(norm(x1), eps) max(norm(x2), eps)) along ``dim``, which goes."""
    return (
        x1 / x1.norm(2, dim, keepdim=True).clamp(min=eps) * (x2 / x2.norm(2, dim, keepdim=True).clamp(min=eps))
    ).sum(dim)
