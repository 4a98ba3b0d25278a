"""The linear algebra extension of the array API standard, ``chainrule.array_api.linalg``, by ``chainrule.linalg``.
``eig`` and ``eigvals`` of later versions need complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import chainrule as _cr
from chainrule import Tensor, linalg
from chainrule import dtype as _dtype
from chainrule.linalg import QR, SVD, Eigh, Slogdet

from .array_api import _pair, _wide, astype, broadcast_arrays, matmul, matrix_transpose, tensordot, vecdot

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower L with L L^T = x, or the upper U with U^T U = x."""
    return linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross products along an axis of size 3; the others broadcast."""
    a, b = broadcast_arrays(*_pair(x1, x2))
    return _cr.cross(a, b, axis)


def det(x: Tensor, /) -> Tensor:
    """The determinants."""
    return linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return _cr.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> Eigh:
    """(eigenvalues, eigenvectors) of symmetric matrices, the values ascending."""
    return linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverses."""
    return linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro") -> Tensor:
    """The norms of matrices."""
    return linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """x^n; n < 0: of the inverse."""
    return linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values exceed rtol times the largest."""
    return linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    a, b = _pair(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer() takes vectors: {tuple(a.shape)}, {tuple(b.shape)}")
    return a[:, None] * b


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudoinverses; singular values up to rtol times the largest count as 0."""
    return linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """(Q, R) with x = Q R."""
    return linalg.qr(x, mode)


def slogdet(x: Tensor, /) -> Slogdet:
    """(sign, logabsdet): the determinant is sign exp(logabsdet)."""
    return linalg.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """X with x1 X = x2; x2 is a vector only if it has one axis."""
    a, b = _pair(x1, x2)
    if b.ndim == 1:
        return linalg.solve(a, b[:, None].expand(*a.shape[:-2], b.size(0), 1))[..., 0]
    batch = _cr.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return linalg.solve(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """(U, S, Vh) with x = U diag(S) Vh, S descending."""
    return linalg.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values, descending."""
    return linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: _dtype | None = None) -> Tensor:
    """The sums of the diagonals; of integers in 64 bits, unless ``dtype`` says otherwise."""
    wide = _wide(x, dtype)
    return astype(_cr.sum(diagonal(x, offset=offset), -1, dtype=wide), wide, copy=False)


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """sum(|x|^ord)^(1 / ord) over the axes, all when absent; of none of them |x|."""
    if axis == ():
        return linalg.vector_norm(x[..., None], ord, -1)
    return linalg.vector_norm(x, ord, tuple(range(x.ndim)) if axis is None else axis, keepdims)
