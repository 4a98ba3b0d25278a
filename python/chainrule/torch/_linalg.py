"""The names that functions of ``torch.linalg`` had in ``torch``, and their methods of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import chainrule as cr
from chainrule import linalg

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inverse",
    "logdet",
    "lu_solve",
    "matrix_exp",
    "matrix_power",
    "orgqr",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "triangular_solve",
]

cholesky_inverse, cholesky_solve = linalg.cholesky_inverse, linalg.cholesky_solve
det, logdet, slogdet, inverse = linalg.det, linalg.logdet, linalg.slogdet, linalg.inv
matrix_exp, matrix_power, orgqr = linalg.matrix_exp, linalg.matrix_power, linalg.householder_product


class SVD(NamedTuple):
    U: cr.Tensor
    S: cr.Tensor
    V: cr.Tensor


class TriangularSolve(NamedTuple):
    solution: cr.Tensor
    cloned_coefficient: cr.Tensor


def cholesky(input: cr.Tensor, upper: bool = False) -> cr.Tensor:
    """``linalg.cholesky``."""
    return linalg.cholesky(input, upper=upper)


def pinverse(input: cr.Tensor, rcond: float = 1e-15) -> cr.Tensor:
    """``linalg.pinv``."""
    return linalg.pinv(input, rcond)


def qr(input: cr.Tensor, some: bool = True) -> Any:
    """``linalg.qr``; some: Q has as many columns as R has rows."""
    return linalg.qr(input, "reduced" if some else "complete")


def svd(input: cr.Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """(U, S, V), V not transposed, unlike in ``linalg.svd``; without compute_uv U and V are zeros."""
    u, s, vh = linalg.svd(input, not some)
    if compute_uv:
        return SVD(u, s, vh.mT)
    m, n = input.shape[-2:]
    return SVD(input.new_zeros((*input.shape[:-2], m, m)), s, input.new_zeros((*input.shape[:-2], n, n)))


def triangular_solve(
    b: cr.Tensor,
    A: cr.Tensor,  # noqa: N803, PyTorch's name
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> TriangularSolve:
    """``linalg.solve_triangular``, b first."""
    a = A.mT if transpose else A
    return TriangularSolve(linalg.solve_triangular(a, b, upper=upper != transpose, unitriangular=unitriangular), A)


def lu_solve(b: cr.Tensor, LU_data: cr.Tensor, LU_pivots: cr.Tensor) -> cr.Tensor:  # noqa: N803
    """``linalg.lu_solve``, b first."""
    return linalg.lu_solve(LU_data, LU_pivots, b)
