"""The names that functions of ``torch.linalg`` had in ``torch``, their methods of tensors, and the decompositions that
are in ``torch`` only."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import chainrule as cr
from chainrule import linalg

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "geqrf",
    "inverse",
    "lobpcg",
    "logdet",
    "lu",
    "lu_solve",
    "lu_unpack",
    "matrix_exp",
    "matrix_power",
    "orgqr",
    "ormqr",
    "pca_lowrank",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "svd_lowrank",
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


class LUUnpack(NamedTuple):
    P: cr.Tensor
    L: cr.Tensor
    U: cr.Tensor


class Geqrf(NamedTuple):
    a: cr.Tensor
    tau: cr.Tensor


def lu(input: cr.Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """(LU, pivots), and info with get_infos: ``linalg.lu_factor_ex``; without it a pivot that is 0 is an error."""
    if get_infos:
        return tuple(linalg.lu_factor_ex(input, pivot=pivot))
    return tuple(linalg.lu_factor(input, pivot=pivot))


def lu_unpack(
    LU_data: cr.Tensor,  # noqa: N803
    LU_pivots: cr.Tensor,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> LUUnpack:
    """(P, L, U) of the factors of ``linalg.lu_factor``; what is not unpacked is empty."""
    empty = LU_data.new_zeros(0)
    p, (lower, upper) = empty, linalg.factors_of(LU_data) if unpack_data else (empty, empty)
    if unpack_pivots:
        p = linalg.permutation_of(LU_pivots, LU_data.size(-2), LU_data.dtype)
    return LUUnpack(p, lower, upper)


@cr.no_grad()
def geqrf(input: cr.Tensor) -> Geqrf:
    """(a, tau): R, and below it the vectors of the reflections of ``linalg.householder_product``, as LAPACK's geqrf."""
    if input.ndim < 2 or not input.is_floating_point():
        raise RuntimeError(f"[geqrf] needs matrices of a float dtype: {tuple(input.shape)} {input.dtype}")
    a, k = input.detach().clone(), min(input.shape[-2:])
    tau = a.new_zeros((*a.shape[:-2], k))
    for i in range(k):
        x = a[..., i:, i].clone()
        first, rest = x[..., 0], x[..., 1:].norm(2, -1)
        turned = rest > 0  # else the column is done
        size = cr.hypot(first, rest)
        diagonal = cr.where(turned, cr.where(first < 0, size, -size), first)
        tau[..., i] = cr.where(turned, (diagonal - first) / cr.where(turned, diagonal, 1.0), 0.0)
        v = x / cr.where(turned, first - diagonal, 1.0)[..., None]
        v[..., 0] = 1
        part = a[..., i:, i + 1 :]
        part -= tau[..., i, None, None] * v[..., None] * (v[..., None, :] @ part)
        a[..., i:, i] = v
        a[..., i, i] = diagonal
    return Geqrf(a, tau)


def ormqr(input: cr.Tensor, tau: cr.Tensor, other: cr.Tensor, left: bool = True, transpose: bool = False) -> cr.Tensor:
    """Q other, or other Q with left=False, Q or its transpose the product of the reflections of ``geqrf``."""
    rows = other.size(-2 if left else -1)
    if input.size(-2) != rows or tau.size(-1) > input.size(-1):
        raise RuntimeError(
            f"[ormqr] the reflections are of {input.size(-2)} rows, and other of {rows}: {tuple(input.shape)},"
            f" {tuple(tau.shape)}, {tuple(other.shape)}"
        )
    if left:
        return linalg.reflected(input, tau, other, transpose)
    return linalg.reflected(input, tau, other.mT, not transpose).mT


def _columns_near(a: cr.Tensor, q: int, niter: int) -> cr.Tensor:
    """Orthonormal columns near the span of the first q singular vectors (Halko, Martinsson, Tropp 2009, algorithm
    4.4)."""
    start = cr.randn(*a.shape[:-2], a.size(-1), q, dtype=a.dtype, device=a.device)
    columns = linalg.qr(a @ start).Q
    for _ in range(niter):
        columns = linalg.qr(a @ linalg.qr(a.mT @ columns).Q).Q
    return columns


def svd_lowrank(
    A: cr.Tensor,  # noqa: N803
    q: int | None = 6,
    niter: int | None = 2,
    M: cr.Tensor | None = None,  # noqa: N803
) -> SVD:
    """(U, S, V) of about the first q singular values of A - M, by random projections: reproducible by the seed."""
    a = A if M is None else A - M
    count, times = 6 if q is None else q, 2 if niter is None else niter
    if a.size(-2) < a.size(-1):
        columns = _columns_near(a.mT, count, times)
        u, s, vh = linalg.svd(a @ columns, False)
        return SVD(u, s, columns @ vh.mT)
    columns = _columns_near(a, count, times)
    u, s, vh = linalg.svd(columns.mT @ a, False)
    return SVD(columns @ u, s, vh.mT)


def pca_lowrank(A: cr.Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> SVD:  # noqa: N803
    """``svd_lowrank`` of A with the mean of each column taken away: q principal components, the columns of V."""
    m, n = A.shape[-2:]
    count = min(6, m, n) if q is None else q
    if not 0 <= count <= min(m, n):
        raise ValueError(f"q(={count}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, niter)


def _times(m: cr.Tensor | None, x: cr.Tensor) -> cr.Tensor:
    return x if m is None else m @ x


def _orthonormal_in(b: cr.Tensor | None, x: cr.Tensor) -> cr.Tensor:
    """Columns of the same span with X^T B X = I."""
    gram = x.mT @ _times(b, x)
    w, v = linalg.eigh(gram)
    kept = w > w.max() * cr.finfo(x.dtype).eps * w.numel()
    return x @ (v[:, kept] / w[kept].sqrt())


@cr.no_grad()
def _lobpcg(
    a: cr.Tensor, b: cr.Tensor | None, x: cr.Tensor, k: int, ik: Any, steps: int, tol: float, largest: bool
) -> tuple[cr.Tensor, cr.Tensor]:
    """One matrix: Rayleigh and Ritz in the span of X, the residuals and the last steps (Knyazev 2001)."""
    basis, columns, sizes = _orthonormal_in(b, x), x.size(1), (a.norm(), 1.0 if b is None else b.norm())
    while True:
        w, v = linalg.eigh(basis.mT @ (a @ basis))
        values, v = (w.flip(0), v.flip(1)) if largest else (w, v)
        values, v = values[:columns], v[:, :columns]
        x, last_step = basis @ v, basis[:, columns:] @ v[columns:]
        residual = a @ x - _times(b, x) * values
        close = residual.norm(2, 0) <= tol * (sizes[0] + values.abs() * sizes[1]) * x.norm(2, 0)
        if not steps or bool(close[:k].all()):
            return values[:k], x[:, :k]
        steps -= 1
        rest = cr.cat([_times(ik, residual), last_step], -1)
        for _ in range(2):
            rest = rest - x @ (x.mT @ _times(b, rest))
        rest = rest / rest.norm(2, 0).clamp(min=cr.finfo(x.dtype).tiny)
        basis = cr.cat([x, _orthonormal_in(b, rest)], -1)


def lobpcg(
    A: cr.Tensor,  # noqa: N803
    k: int | None = None,
    B: cr.Tensor | None = None,  # noqa: N803
    X: cr.Tensor | None = None,  # noqa: N803
    n: int | None = None,
    iK: cr.Tensor | None = None,  # noqa: N803
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[cr.Tensor, cr.Tensor]:
    """(E, V): the k largest eigenvalues, or smallest, of A v = e B v, A symmetric and B positive-definite, and their
    vectors, by products with A only.  X: where to begin, (..., N, n); iK: a preconditioner; niter: at most so many
    steps (-1: until tol).  No gradient; method, tracker and the ortho parameters have no effect."""
    size = A.size(-1)
    count = k if k is not None else 1 if X is None else X.size(-1)
    columns = X.size(-1) if X is not None else n if n is not None else count
    if size < 3 * columns:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the number of"
            f" requested eigenpairs (={columns})"
        )
    steps = 1000 if niter is None or niter < 0 else niter
    bound = math.sqrt(cr.finfo(A.dtype).eps) if tol is None else tol
    batch = A.shape[:-2]
    start = cr.randn(*batch, size, columns, dtype=A.dtype, device=A.device) if X is None else X

    def each(m: cr.Tensor | None) -> list[Any]:
        count = math.prod(batch)
        return [None] * count if m is None else list(m.expand(*batch, *m.shape[-2:]).reshape(count, *m.shape[-2:]))

    found = [
        _lobpcg(a, b, x, count, ik, steps, bound, largest is not False)
        for a, b, x, ik in zip(each(A), each(B), each(start), each(iK), strict=True)
    ]
    values, vectors = (cr.stack([f[i] for f in found]) for i in range(2))
    return values.reshape(*batch, count), vectors.reshape(*batch, size, count)
