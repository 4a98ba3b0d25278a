"""Cholesky factors and triangular solves for the distributions over vectors."""

from __future__ import annotations

from .. import _core
from .._core import Tensor
from ..linalg import cholesky, cholesky_ex, solve_triangular

__all__ = [
    "cholesky",
    "from_precision",
    "inverse_lower",
    "is_definite",
    "log_det_half",
    "solve_lower",
    "solve_lower_vector",
]


def is_definite(a: Tensor) -> Tensor:
    """Are symmetric matrices positive definite? : (..., N, N) -> (...)"""
    return cholesky_ex(a.detach()).info == 0


def solve_lower(lower: Tensor, b: Tensor) -> Tensor:
    """x with lower x = b : (..., N, N), (..., N, M) -> (..., N, M), batches broadcast"""
    return solve_triangular(lower, b, upper=False)


def solve_lower_vector(lower: Tensor, b: Tensor) -> Tensor:
    """The same for vectors: (..., N, N), (..., N) -> (..., N)"""
    return solve_lower(lower, b[..., None])[..., 0]


def inverse_lower(lower: Tensor) -> Tensor:
    """The inverse of a lower triangular matrix."""
    return solve_lower(lower, _core.eye(lower.size(-1), dtype=lower.dtype, device=lower.device).expand(lower.shape))


def from_precision(precision: Tensor) -> Tensor:
    """L with L L^T the inverse of precision: the inverse of the transposed factor of the matrix turned by 180 degrees,
    turned back."""
    turned = cholesky(precision.flip((-2, -1)))
    return inverse_lower(turned.flip((-2, -1)).transpose(-2, -1))


def log_det_half(lower: Tensor) -> Tensor:
    """log sqrt(det(L L^T)): (..., N, N) -> (...)"""
    return lower.diagonal(0, -2, -1).log().sum(-1)
