"""Cholesky factors and triangular solves for the distributions over vectors, column by column out of
differentiable functions; n columns take n small steps.  They serve matrices of tens of rows."""

from __future__ import annotations

from .. import _core
from .._core import Tensor


def factor(a: Tensor) -> tuple[Tensor, Tensor]:
    """L, lower triangular with L L^T = a, and whether a is positive definite: (..., N, N) -> (..., N, N), (...).

    Column j is (a_j - sum_(k < j) L_k L_jk) / sqrt(its first element)."""
    n = a.size(-1)
    columns: list[Tensor] = []  # (..., N), zeros above the diagonal
    good = _core.ones(a.shape[:-2], dtype=_core.bool, device=a.device)
    for j in range(n):
        rest = a[..., j:, j]
        if columns:
            before = _core.stack(columns, -1)[..., j:, :]
            rest = rest - (before * before[..., :1, :]).sum(-1)
        pivot = rest[..., :1]
        good = good & (pivot[..., 0] > 0)
        column = rest / _core.where(pivot > 0, pivot, _core.ones_like(pivot)).sqrt()
        columns.append(_core.cat([_core.zeros_like(a[..., :j, j]), column], -1))
    return (_core.stack(columns, -1) if columns else a), good


def cholesky(a: Tensor) -> Tensor:
    """The factor of symmetric positive definite matrices, with symmetric gradients; RuntimeError: one is not."""
    lower, good = factor((a + a.transpose(-2, -1)) / 2)
    if not good.all():
        raise RuntimeError(
            "cholesky: the factorization could not be completed because the input is not positive-definite"
        )
    return lower


def solve_lower(lower: Tensor, b: Tensor) -> Tensor:
    """x with lower x = b, by forward substitution: (..., N, N), (..., N, M) -> (..., N, M), batches broadcast"""
    rows: list[Tensor] = []
    for i in range(b.size(-2)):
        rest = b[..., i, :]
        if rows:
            rest = rest - (lower[..., i, :i, None] * _core.stack(rows, -2)).sum(-2)
        rows.append(rest / lower[..., i, i, None])
    return _core.stack(rows, -2) if rows else b


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
