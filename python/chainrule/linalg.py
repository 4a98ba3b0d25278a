"""``chainrule.linalg``: PyTorch's ``torch.linalg``.  Factors and solves are the library's own, with equal bits for any
number of threads; the other functions are compositions of them, so that all have gradients of any order.  Matrices are
the last two axes; half precision computes in float32.

A function that raises LinAlgError reads the factors, which a compiled step refuses: there use those in ``_ex``, whose
``info`` says the same.

Where two eigenvalues or singular values are equal their vectors have no derivative: gradients leave out the terms
between the two.  Values alone have the right gradient there too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps
from typing import Any, NamedTuple

from . import _core
from ._core import Tensor, diagonal, matmul
from ._dtypes import broadcast_shapes, finfo
from ._transformed import of_values, values_of
from .autograd import Function, no_grad

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "logdet",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

Order = int | float | str | None
Axes = int | Sequence[int] | None


class LinAlgError(RuntimeError, ValueError):
    """A matrix is singular, not positive-definite or not finite; the message names its position in the batch.  It is a
    RuntimeError, as PyTorch's, and a ValueError, as NumPy's."""


class CholeskyEx(NamedTuple):
    L: Tensor
    info: Tensor


class InvEx(NamedTuple):
    inverse: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    result: Tensor
    info: Tensor


class LUFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


class LU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class LDLFactor(NamedTuple):
    LD: Tensor
    pivots: Tensor


class LDLFactorEx(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class Slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class Lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


# ---- checks ----


def _want_matrices(name: str, a: Tensor, square: bool = False) -> None:
    if not a.is_floating_point():
        raise RuntimeError(f"[linalg.{name}] needs a float dtype: {a.dtype}")
    if a.ndim < 2:
        raise RuntimeError(f"[linalg.{name}] needs matrices, tensors with at least 2 axes: {tuple(a.shape)}")
    if square and a.size(-1) != a.size(-2):
        raise RuntimeError(f"[linalg.{name}] needs square matrices: {tuple(a.shape)}")


def _first(bad: Tensor) -> Tensor:
    """The position, from 1, of the first true element of the last axis; 0: none : (..., N) -> (...) int32"""
    if not bad.size(-1):
        return _core.zeros(bad.shape[:-1], dtype=_core.int32, device=bad.device)
    found = bad.to(_core.float32)  # whose extremes are found in vectors
    return ((found.argmax(-1) + 1) * found.amax(-1)).to(_core.int32)


def _refuse(name: str, info: Tensor, what: str) -> None:
    """LinAlgError where an element of info is not 0; ``{}`` in ``what`` stands for it."""
    info = values_of(info)
    if not bool((info != 0).any()):
        return
    at = tuple(int(i) for i in (info != 0).nonzero()[0].tolist()) if info.ndim else ()
    where = f"matrix {at} of the batch" if at else "the matrix"
    raise LinAlgError(f"[linalg.{name}] {where} {what.format(int(info[at].item()))}")


def _want_none(name: str, bad: Tensor, what: str) -> None:
    """LinAlgError where an element of bad is true, as ``_refuse``."""
    bad = values_of(bad)
    if bool(bad.any()):
        _refuse(name, _first(bad), what)


_SINGULAR = "is singular: pivot {} of its LU factors is 0"
_INDEFINITE = "is not positive-definite: its leading minor of order {} is not"


def _constant(y: Tensor, x: Tensor) -> Tensor:
    """y as a result of x, of the same shape: the gradient is zeros."""
    return _core.where(_core.ones((), dtype=_core.bool, device=x.device), y, x)


def _eye_like(a: Tensor) -> Tensor:
    return _core.eye(a.size(-1), dtype=a.dtype, device=a.device).expand(a.shape)


def _zero_pivots(lu: Tensor) -> Tensor:
    return lu.detach().diagonal(0, -2, -1) == 0


def _singular(lu: Tensor) -> Tensor:
    return _first(_zero_pivots(lu))


def _no_minors(lower: Tensor) -> Tensor:
    return lower.detach().diagonal(0, -2, -1).isnan()


# ---- Cholesky ----


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:  # noqa: N803
    """(L, info): L L^T = A; info is 0, or the order of the leading minor that is not positive: L is NaN from there."""
    _want_matrices("cholesky", A, True)
    lower = _core._cholesky(A.mT if upper else A)
    info = _first(_no_minors(lower))
    if check_errors:
        _refuse("cholesky_ex", info, _INDEFINITE)
    return CholeskyEx(lower.mT if upper else lower, info)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:  # noqa: N803
    """The lower L with L L^T = A, or the upper U with U^T U = A.  LinAlgError: A is not positive-definite."""
    _want_matrices("cholesky", A, True)
    lower = _core._cholesky(A.mT if upper else A)
    _want_none("cholesky", _no_minors(lower), _INDEFINITE)
    return lower.mT if upper else lower


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """A^-1 B, A = L L^T, or U^T U : (..., N, K), (..., N, N) -> (..., N, K)"""
    lower = L.mT if upper else L
    return _core._solve_triangular(lower.mT, _core._solve_triangular(lower, B, False, False), True, False)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """The inverse of L L^T, or of U^T U."""
    _want_matrices("cholesky_inverse", L, True)
    return cholesky_solve(_eye_like(L), L, upper)


# ---- LU and systems ----


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:  # noqa: N803
    """(LU, pivots, info): row i was exchanged with row pivots[i] - 1; info is 0, or the first pivot that is 0."""
    _want_matrices("lu_factor", A)
    if not pivot:
        raise RuntimeError("[linalg.lu_factor] LU without pivoting is not implemented: pivot=False")
    packed, pivots, _ = _core._lu_factor(A)
    info = _singular(packed)
    if check_errors:
        _refuse("lu_factor_ex", info, _SINGULAR)
    return LUFactorEx(packed, pivots, info)


def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:  # noqa: N803
    """(LU, pivots): U, and L below its diagonal.  LinAlgError: a pivot is 0."""
    packed, pivots, info = lu_factor_ex(A, pivot=pivot)
    _refuse("lu_factor", info, _SINGULAR)
    return LUFactor(packed, pivots)


def factors_of(packed: Tensor) -> tuple[Tensor, Tensor]:
    """L and U of packed factors."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    eye = _core.eye(m, k, dtype=packed.dtype, device=packed.device)
    return packed[..., :k].tril(-1) + eye, packed[..., :k, :].triu()


def lu(A: Tensor, *, pivot: bool = True) -> LU:  # noqa: N803
    """(P, L, U) with A = P L U."""
    _want_matrices("lu", A)
    if not pivot:
        raise RuntimeError("[linalg.lu] LU without pivoting is not implemented: pivot=False")
    packed, _, order = _core._lu_factor(A)
    return LU(_permutation(order, A.dtype), *factors_of(packed))


def _permutation(order: Tensor, dtype: _core.dtype) -> Tensor:
    rows = _core.arange(order.size(-1), device=order.device)
    return (rows[:, None] == order[..., None, :]).to(dtype)


def permutation_of(pivots: Tensor, n: int, dtype: _core.dtype) -> Tensor:
    """P of n rows with A = P L U, from the pivots of ``lu_factor``."""
    return _permutation(of_values(lambda p: _order(p, n), pivots), dtype)


def _order(pivots: Tensor, n: int) -> Tensor:
    """The rows in the order that the exchanges of pivots give : (..., N)"""
    batch = pivots.shape[:-1]
    swaps = pivots.reshape(math.prod(batch), pivots.size(-1)).tolist()
    orders = []
    for exchanged in swaps:
        order = list(range(n))
        for i, p in enumerate(exchanged):
            order[i], order[int(p) - 1] = order[int(p) - 1], order[i]
        orders.append(order)
    return _core.tensor(orders, dtype=_core.int64, device=pivots.device).reshape(*batch, n)


def lu_solve(  # noqa: N803
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B (left=False: X A = B; adjoint: A^T) from the factors of ``lu_factor``."""
    _want_matrices("lu_solve", LU, True)
    if not left:
        return lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT
    n = LU.size(-1)
    order = of_values(lambda p: _order(p, n), pivots)[..., None]
    batch = broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    B = B.expand(*batch, *B.shape[-2:])  # noqa: N806
    order = order.expand(*batch, n, B.size(-1))
    if adjoint:
        x = _core._solve_triangular(LU.mT, B, False, False)
        x = _core._solve_triangular(LU.mT, x, True, True)
        return x.gather(-2, order.argsort(-2))
    x = _core._solve_triangular(LU, B.gather(-2, order), False, True)
    return _core._solve_triangular(LU, x, True, False)


def _is_vector(A: Tensor, B: Tensor) -> bool:  # noqa: N803
    """Is B a batch of vectors for matrices A?  As PyTorch decides."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def _solved(A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:  # noqa: N803
    """X, and the LU factors."""
    _want_matrices("solve", A, True)
    vector = _is_vector(A, B)
    right = B[..., None] if vector else B
    x, packed = _core._solve(A if left else A.mT, right if left or vector else right.mT)
    return x[..., 0] if vector else x if left else x.mT, packed


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:  # noqa: N803
    """(X, info): as ``solve``; info is 0, or the first pivot of A that is 0."""
    x, packed = _solved(A, B, left)
    info = _singular(packed)
    if check_errors:
        _refuse("solve_ex", info, _SINGULAR)
    return SolveEx(x, info)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """X with A X = B, or X A = B with left=False; B: matrices, or vectors (..., N).  LinAlgError: A is singular."""
    x, packed = _solved(A, B, left)
    _want_none("solve", _zero_pivots(packed), _SINGULAR)
    return x


def solve_triangular(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """X with A X = B, or X A = B with left=False; only the triangle of A is read."""
    _want_matrices("solve_triangular", A, True)
    if left:
        return _core._solve_triangular(A, B, upper, unitriangular)
    return _core._solve_triangular(A.mT, B.mT, not upper, unitriangular).mT


def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:  # noqa: N803
    """(inverse, info): info is 0, or the first pivot that is 0."""
    _want_matrices("inv", A, True)
    x, packed = _core._solve(A, _eye_like(A))
    info = _singular(packed)
    if check_errors:
        _refuse("inv_ex", info, _SINGULAR)
    return InvEx(x, info)


def inv(A: Tensor) -> Tensor:  # noqa: N803
    """The inverse.  LinAlgError: A is singular."""
    _want_matrices("inv", A, True)
    x, packed = _core._solve(A, _eye_like(A))
    _want_none("inv", _zero_pivots(packed), _SINGULAR)
    return x


def _parity(pivots: Tensor, dtype: _core.dtype) -> Tensor:
    """The sign of the permutation : (..., N) -> (...)"""
    moved = (pivots != _core.arange(1, pivots.size(-1) + 1, device=pivots.device)).sum(-1)
    return 1 - 2 * (moved % 2).to(dtype)


def det(A: Tensor) -> Tensor:  # noqa: N803
    """The determinant.  Where a matrix is singular the gradient is that of the product of its singular values."""
    _want_matrices("det", A, True)
    packed, pivots, _ = _core._lu_factor(A)
    differentiated = A.requires_grad or _core._level_of(A)
    if differentiated and bool((values_of(_singular(packed)) != 0).any()):
        u, s, v = _core._svd(A)
        with no_grad():
            sign = det(u) * det(v)
        return sign.round() * s.prod(-1)
    return _parity(pivots, A.dtype) * packed.diagonal(0, -2, -1).prod(-1)


def slogdet(A: Tensor) -> Slogdet:  # noqa: N803
    """(sign, logabsdet): the determinant is sign exp(logabsdet); of a singular matrix 0 and -inf."""
    _want_matrices("slogdet", A, True)
    packed, pivots, _ = _core._lu_factor(A)
    pivot = packed.diagonal(0, -2, -1)
    return Slogdet(_parity(pivots, A.dtype) * pivot.detach().sign().prod(-1), pivot.abs().log().sum(-1))


def logdet(A: Tensor) -> Tensor:  # noqa: N803
    """log(det(A)); NaN where that is negative."""
    sign, value = slogdet(A)
    return _core.where(sign < 0, math.nan, value)


# ---- symmetric matrices that are not definite ----


_GROWTH = (1 + math.sqrt(17)) / 8  # bounds the growth of elements (Bunch, Kaufman 1977)


def _exchange(a: Tensor, i: int, k: int, first: int) -> None:
    """Exchanges rows and columns i and k of the symmetric trailing part of a."""
    for at, to in ((a[first:, i], a[first:, k]), (a[i, first:], a[k, first:])):
        kept = at.clone()
        at.copy_(to)
        to.copy_(kept)


def _choose_pivot(a: Tensor, k: int) -> tuple[int, int] | None:
    """The size of the pivot of step k and the row that is exchanged with its last; None: column k is 0 already."""
    column = a[k:, k].abs().tolist()
    below = max(column[1:], default=0.0)
    if max(column[0], below) == 0 or math.isnan(column[0]):
        return None
    if column[0] >= _GROWTH * below:
        return 1, k
    at = k + 1 + column[1:].index(below)
    row = a[at, k:].abs().tolist()
    most = max(x for i, x in enumerate(row) if i != at - k)
    if column[0] >= _GROWTH * below * (below / most):
        return 1, k
    return (1, at) if row[at - k] >= _GROWTH * most else (2, at)


def _factor_symmetric(a: Tensor) -> tuple[Tensor, list[int], int]:
    """LD, pivots and info of one matrix, by the Bunch-Kaufman method as LAPACK's sytrf stores it (lower)."""
    a = a.tril() + a.tril(-1).mT
    n, k, info = a.size(0), 0, 0
    packed, pivots = _core.zeros_like(a), list(range(1, n + 1))
    while k < n:
        chosen = _choose_pivot(a, k)
        size, row = chosen or (1, k)
        info = info or (0 if chosen else k + 1)
        end, last = k + size, k + size - 1
        if row != last:
            _exchange(a, row, last, k)
        pivots[k:end] = [row + 1] if size == 1 else [-(row + 1)] * 2
        block, below = a[k:end, k:end], a[end:, k:end]
        rows = _core._solve(block, below.mT)[0].mT if chosen and below.numel() else below
        packed[k:end, k:end], packed[end:, k:end] = block.tril(), rows
        if chosen and below.numel():
            a[end:, end:] -= rows @ below.mT
        k = end
    return packed, pivots, info


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:  # noqa: N803
    """(LD, pivots, info): A = P L D L^T P^T of symmetric matrices, whose lower triangle is read, as LAPACK's sytrf
    gives it.  D has blocks of 1 x 1 and 2 x 2; of the latter both pivots are negative.  info is 0, or the first block
    that is 0.  One matrix after another, with values that are read; no gradient."""
    _want_matrices("ldl_factor", A, True)
    matrices = A.detach().reshape(math.prod(A.shape[:-2]), *A.shape[-2:])
    found = [_factor_symmetric(a) for a in matrices]
    packed = _core.stack([f[0] for f in found]).reshape(A.shape) if found else A.detach().clone()
    pivots, info = (_core.tensor([f[i] for f in found], dtype=_core.int32, device=A.device) for i in (1, 2))
    pivots, info = pivots.reshape(A.shape[:-1]), info.reshape(A.shape[:-2])
    if check_errors:
        _refuse("ldl_factor_ex", info, "is singular: block {} of D is 0")
    return LDLFactorEx(packed, pivots, info)


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDLFactor:  # noqa: N803
    """``ldl_factor_ex`` without info.  LinAlgError: a block of D is 0."""
    packed, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    _refuse("ldl_factor", info, "is singular: block {} of D is 0")
    return LDLFactor(packed, pivots)


def _ldl_order(pivots: Tensor) -> Tensor:
    """Column c < N: where the rows of column c of L come from, once the exchanges behind it are made; column N: the
    same of the matrix; column N + 1: 1 where a block of 2 x 2 begins : (..., N) -> (..., N, N + 2)"""
    n, found = pivots.size(-1), []
    for row in pivots.reshape(math.prod(pivots.shape[:-1]), n).tolist():
        columns, begins, k = [list(range(n)) for _ in range(n + 1)], [0] * n, 0
        while k < n:
            begins[k] = int(row[k] < 0)
            last, to = k + begins[k], abs(row[k]) - 1
            for c in (*columns[:k], columns[n]):
                c[last], c[to] = c[to], c[last]
            k = last + 1
        found.append([*columns, begins])
    whole = _core.tensor(found, dtype=_core.int64, device=pivots.device)
    return whole.reshape(*pivots.shape[:-1], n + 2, n).mT


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:  # noqa: N803
    """X with A X = B from the factors of ``ldl_factor``."""
    _want_matrices("ldl_solve", LD, True)
    n = LD.size(-1)
    if B.ndim < 2 or B.size(-2) != n:
        raise RuntimeError(f"[linalg.ldl_solve] B needs {n} rows: {tuple(LD.shape)}, {tuple(B.shape)}")
    rows = of_values(_ldl_order, pivots)
    beside = LD.diagonal(-1, -2, -1) * rows[..., : max(n - 1, 0), n + 1]
    lower = LD.gather(-2, rows[..., :n]).tril(-1) - beside.diag_embed(-1)
    blocks = LD.diagonal(0, -2, -1).diag_embed() + beside.diag_embed(-1) + beside.diag_embed(1)
    batch = broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    order = rows[..., n, None].expand(*batch, n, B.size(-1))
    y = _core._solve_triangular(lower, B.expand(*batch, *B.shape[-2:]).gather(-2, order), False, True)
    x = _core._solve_triangular(lower.mT, _core._solve(blocks, y)[0], True, True)
    return x.gather(-2, order.argsort(-2))


# ---- QR ----


def qr(A: Tensor, mode: str = "reduced") -> QR:  # noqa: N803
    """(Q, R) with A = Q R: "reduced", "complete" (Q is square), "r" (only R; Q is empty)."""
    _want_matrices("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"[linalg.qr] mode {mode!r}: 'reduced', 'complete' and 'r' are known")
    m, n = A.shape[-2:]
    if mode == "complete" and m > n:
        if A.requires_grad and _core.is_grad_enabled():
            raise RuntimeError("[linalg.qr] mode 'complete' of a tall matrix has no gradient: use 'reduced'")
        q, r = _core._qr(_core.cat([A, A.new_zeros((*A.shape[:-1], m - n))], -1))
        return QR(q, r[..., :n])
    q, r = _core._qr(A)
    return QR(q.new_empty(0) if mode == "r" else q, r)


def reflected(A: Tensor, tau: Tensor, x: Tensor, transpose: bool) -> Tensor:  # noqa: N803
    """Q x or Q^T x, Q the product of the reflections of ``householder_product``."""
    k = tau.size(-1)
    v = A[..., :k].tril(-1) + _core.eye(A.size(-2), k, dtype=A.dtype, device=A.device)
    for i in range(k) if transpose else reversed(range(k)):
        column = v[..., i : i + 1]
        x = x - tau[..., i, None, None] * column @ (column.mT @ x)
    return x


def householder_product(A: Tensor, tau: Tensor) -> Tensor:  # noqa: N803
    """The first columns of the product of the reflections I - tau_i v_i v_i^T, v_i column i of A below the diagonal and
    1 on it : (..., M, N), (..., K) -> (..., M, N)"""
    _want_matrices("householder_product", A)
    m, n = A.shape[-2:]
    k = tau.size(-1)
    if not m >= n >= k:
        raise RuntimeError(f"[linalg.householder_product] needs M >= N >= K: {tuple(A.shape)}, {tuple(tau.shape)}")
    q = _core.eye(m, n, dtype=A.dtype, device=A.device).expand(A.shape)
    return reflected(A, tau, q, False) if k else _constant(q, A)


# ---- eigenvalues and singular values ----


def _finite(name: str, values: Tensor) -> None:
    bad = values.detach().isnan()
    _refuse(
        name,
        bad.any(-1).to(_core.int32) if values.size(-1) else values.new_zeros(values.shape[:-1]),
        "has elements that are infinite or NaN",
    )


def _triangle(A: Tensor, UPLO: str) -> Tensor:  # noqa: N803
    """A with this triangle as its lower one."""
    _want_matrices("eigh", A, True)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"[linalg.eigh] UPLO is 'L' or 'U': {UPLO!r}")
    return A if UPLO.upper() == "L" else A.mT


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:  # noqa: N803
    """(eigenvalues, eigenvectors) of symmetric matrices, the values ascending, the vectors columns.  UPLO: the triangle
    that is read.  By Jacobi's rotations; more than 64 rows by LAPACK where it is found (the extra chainrule[lapack], or
    the system's), on one thread; without it they take long."""
    values, vectors = _core._eigh(_triangle(A, UPLO))
    _finite("eigh", values)
    return Eigh(values, vectors)


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """The eigenvalues of symmetric matrices, ascending."""
    values = _core._eigvalsh(_triangle(A, UPLO))
    _finite("eigh", values)
    return values


def _completed(q: Tensor) -> Tensor:
    """Orthonormal columns and more of them, until the matrix is square; those have no gradient."""
    with no_grad():
        more = qr(q.detach(), "complete").Q[..., q.size(-1) :]
    return _core.cat([q, more], -1)


def eig(A: Tensor) -> Any:  # noqa: N803
    """NotImplementedError: eigenvalues of matrices that are not symmetric are complex numbers, which come later."""
    _want_matrices("eig", A, True)
    raise NotImplementedError(
        f"[linalg.eig] gives complex numbers, which come later: use eigh where the matrices are symmetric, or"
        f" numpy.linalg.eig on A.numpy() for values without gradients: {tuple(A.shape)}"
    )


def eigvals(A: Tensor) -> Any:  # noqa: N803
    """NotImplementedError, as ``eig``."""
    return eig(A)


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:  # noqa: N803
    """(U, S, Vh) with A = U diag(S) Vh, S descending.  full_matrices: U and Vh are square; the columns and rows that A
    does not determine have no gradient.  By Jacobi's rotations; more than 64 columns as in ``eigh``."""
    _want_matrices("svd", A)
    u, s, v = _core._svd(A)
    _finite("svd", s)
    if full_matrices:
        u, v = (_completed(q) if q.size(-2) > q.size(-1) else q for q in (u, v))
    return SVD(u, s, v.mT)


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:  # noqa: N803
    """The singular values, descending."""
    _want_matrices("svd", A)
    s = _core._svdvals(A)
    _finite("svd", s)
    return s


def _tolerance(A: Tensor, largest: Tensor, atol: Any, rtol: Any) -> Tensor:  # noqa: N803
    """max(atol, rtol largest); rtol when absent: max(M, N) epsilon, or 0 beside a positive atol."""
    eps = _epsilon(A.dtype) * max(A.shape[-2:])
    absolute = _core.as_tensor(0.0 if atol is None else atol, dtype=largest.dtype, device=largest.device)
    if rtol is None:
        relative = _core.where(absolute > 0, 0.0, eps).to(largest.dtype)
    else:
        relative = _core.as_tensor(rtol, dtype=largest.dtype, device=largest.device)
    return _core.maximum(absolute, relative * largest)


def _epsilon(dtype: _core.dtype) -> float:
    return finfo(dtype).eps


def matrix_rank(  # noqa: N803
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values exceed max(atol, rtol largest) : (..., M, N) -> (...) int64"""
    with no_grad():
        s = eigvalsh(A).abs() if hermitian else svdvals(A)
        if not s.size(-1):
            return _core.zeros(s.shape[:-1], dtype=_core.int64, device=A.device)
        bound = _tolerance(A, s.amax(-1), tol if tol is not None else atol, 0.0 if tol is not None else rtol)
        return (s > bound[..., None]).sum(-1)


def pinv(
    A: Tensor,  # noqa: N803
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """The pseudoinverse; singular values up to max(atol, rtol largest) count as 0.  rcond: an older name of rtol."""
    _want_matrices("pinv", A, hermitian)
    if not A.numel():
        return A.mT.clone()
    y: Tensor = _Pinv.apply(A, hermitian, atol, rcond if rtol is None else rtol)
    return y


class _Pinv(Function):
    """A^+ of matrices of a rank that does not change: its derivatives need no vectors, which equal singular values do
    not have (Golub, Pereyra 1973)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(A: Tensor, hermitian: bool, atol: Any, rtol: Any) -> Tensor:  # noqa: N803
        if hermitian:
            s, v = eigh(A)
            u = v
        else:
            u, s, v = _core._svd(A)
            _finite("pinv", s)
        kept = s.abs() > _tolerance(A, s.abs().amax(-1), atol, rtol)[..., None]
        inverse = _core.where(kept, 1 / _core.where(kept, s, 1.0), 0.0)
        return (v * inverse[..., None, :]) @ u.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, p = ctx.saved_tensors
        gp, pg = g.mT @ p @ p.mT, p.mT @ p @ g.mT
        return gp - a @ (p @ gp) + pg - (pg @ p) @ a - p.mT @ g @ p.mT, None, None, None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, *others: Any) -> Any:
        a, p = ctx.saved_tensors
        pt, tp = p @ p.mT @ t.mT, t.mT @ p.mT @ p
        return pt - (pt @ a) @ p + tp - p @ (a @ tp) - p @ t @ p


def cond(A: Tensor, p: Order = None) -> Tensor:  # noqa: N803
    """The condition number in the norm ``p``: of singular values with None, 2 and -2, else |A| |A^-1|, infinite where A
    is singular."""
    _want_matrices("cond", A, p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    inverse, info = inv_ex(A)
    value = matrix_norm(A, p) * matrix_norm(inverse, p)
    return _core.where(info == 0, value, math.inf)


# ---- least squares ----


def _by_qr(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
    """The solution for matrices of full rank, and R's diagonal."""
    tall = A.size(-2) >= A.size(-1)
    q, r = _core._qr(A if tall else A.mT)
    x = (
        _core._solve_triangular(r, q.mT @ B, True, False)
        if tall
        else q @ _core._solve_triangular(r.mT, B, False, False)
    )
    return x, r.detach().diagonal(0, -2, -1).abs()


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Lstsq:  # noqa: N803
    """(solution, residuals, rank, singular_values): X with the least |A X - B|, of these the one with the least |X|.

    Driver "gels", and the default where R's diagonal shows full rank, use QR; "gelsd" and "gelss", and rank-deficient
    matrices, use singular values.  residuals: with "gels", "gelsd" and "gelss" the sums of squares of each column where
    M > N and A has full rank, else empty; rank: empty with "gels"; singular_values: with "gelsd" and "gelss"."""
    _want_matrices("lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"[linalg.lstsq] driver {driver!r}: 'gels', 'gelsy', 'gelsd' and 'gelss' are known")
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    right = B[..., None] if vector else B
    if right.ndim < 2 or right.size(-2) != A.size(-2):
        raise RuntimeError(f"[linalg.lstsq] the rows of A and B differ: {tuple(A.shape)}, {tuple(B.shape)}")
    m, n = A.shape[-2:]
    limit = _epsilon(A.dtype) * max(m, n) if rcond is None else rcond
    empty = A.new_zeros(0)
    values, rank = empty, _core.zeros(0, dtype=_core.int64, device=A.device)
    by_values = driver in ("gelsd", "gelss") or not min(m, n)
    if not by_values:
        x, sizes = _by_qr(A, right)
        by_values = driver != "gels" and bool(values_of(sizes <= limit * sizes.amax(-1, keepdim=True)).any())
        rank = rank if driver == "gels" else _core.full(A.shape[:-2], min(m, n), dtype=_core.int64, device=A.device)
    if by_values:
        rank = matrix_rank(A, rtol=limit)
        x = pinv(A, rtol=limit) @ right
    if driver in ("gelsd", "gelss"):
        values = svdvals(A)
    full = driver == "gels" or (driver in ("gelsd", "gelss") and bool(values_of(rank == n).all()))
    residuals = (A @ x - right).square().sum(-2) if m > n and full else empty
    if vector and residuals is not empty:
        residuals = residuals[..., 0] if B.ndim > 1 else residuals
    return Lstsq(x[..., 0] if vector else x, residuals, rank, values)


# ---- functions of matrices ----


def matrix_power(A: Tensor, n: int) -> Tensor:  # noqa: N803
    """A^n by repeated squaring; n < 0: of the inverse."""
    _want_matrices("matrix_power", A, True)
    if n < 0:
        return matrix_power(inv(A), -n)
    power: Tensor | None = None
    square = A
    while n:
        if n & 1:
            power = square if power is None else power @ square
        n >>= 1
        if n:
            square = square @ square
    return _constant(_eye_like(A), A) if power is None else power.clone() if power is A else power


# Coefficients of the Pade approximant [13/13] of exp, and the 1-norm up to which its backward error is below 2^-53
# (Higham, The scaling and squaring method for the matrix exponential revisited, 2005).
_PADE = [
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
]  # fmt: skip
_MOST = 5.371920351148152


def matrix_exp(A: Tensor) -> Tensor:  # noqa: N803
    """e^A = (e^(A / 2^s))^(2^s), by a Pade approximant of degree 13; each matrix has its own s."""
    _want_matrices("matrix_exp", A, True)
    if not A.numel():
        return A.clone()
    sizes = A.detach().abs().sum(-2).amax(-1)
    counts = _core.where(sizes > _MOST, (sizes / _MOST).log2().ceil(), 0.0)
    counts = _core.where(counts.isfinite(), counts, 0.0)
    most = int(counts.max().item())
    a = A / (2.0**counts)[..., None, None] if most else A
    b, eye = [c / _PADE[0] for c in _PADE], _eye_like(A)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    y, _ = _core._solve(even - odd, even + odd)
    for k in range(most):
        y = _core.where((counts > k)[..., None, None], y @ y, y)
    return y


def _chain_product(chain: Sequence[Tensor], cut: Sequence[Sequence[int]], i: int, j: int) -> Tensor:
    """chain[i] ... chain[j], each part cut in two behind cut[i][j]."""
    if i == j:
        return chain[i]
    return _chain_product(chain, cut, i, cut[i][j]) @ _chain_product(chain, cut, cut[i][j] + 1, j)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the order with the fewest multiplications; the first and the last may be vectors."""
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(f"[linalg.multi_dot] needs at least 2 tensors: {len(chain)}")
    row, column = chain[0].ndim == 1, chain[-1].ndim == 1
    if row:
        chain[0] = chain[0][None, :]
    if column:
        chain[-1] = chain[-1][:, None]
    for i, t in enumerate(chain):
        if t.ndim != 2:
            raise RuntimeError(f"[linalg.multi_dot] tensor {i} must be a matrix: {tuple(tensors[i].shape)}")
        if i and chain[i - 1].size(1) != t.size(0):
            raise RuntimeError(
                f"[linalg.multi_dot] tensors {i - 1} and {i} do not fit: {tuple(chain[i - 1].shape)}, {tuple(t.shape)}"
            )
    sizes = [chain[0].size(0)] + [t.size(1) for t in chain]
    n = len(chain)
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    y = _chain_product(chain, cut, 0, n - 1)
    return y[0, 0] if row and column else y[0] if row else y[:, 0] if column else y


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:  # noqa: N803
    """The inverse of A seen as a matrix, its first ``ind`` axes the rows: ``tensordot(tensorinv(A), A, ind)`` is I."""
    if ind <= 0:
        raise RuntimeError(f"[linalg.tensorinv] ind must be above 0: {ind}")
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(f"[linalg.tensorinv] {rows} rows and {columns} columns: {tuple(A.shape)}, ind={ind}")
    return inv(A.reshape(rows, columns)).reshape(*A.shape[ind:], *A.shape[:ind])


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:  # noqa: N803
    """X with ``tensordot(A, X, X.ndim)`` = B; dims: axes of A that move to the end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))  # noqa: N806
    columns = A.shape[B.ndim :]
    if math.prod(columns) != B.numel() or A.numel() != B.numel() ** 2:
        raise RuntimeError(f"[linalg.tensorsolve] A is not a square matrix for B: {tuple(A.shape)}, {tuple(B.shape)}")
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(*columns)


# ---- norms and products ----


def vector_norm(
    x: Tensor, ord: float = 2, dim: Axes = None, keepdim: bool = False, *, dtype: _core.dtype | None = None
) -> Tensor:
    """sum(|x|^ord)^(1/ord) over the axes ``dim``, all when absent."""
    return _core.norm(x, ord, dim, keepdim, dtype)


def matrix_norm(
    A: Tensor,  # noqa: N803
    ord: Order = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: _core.dtype | None = None,
) -> Tensor:
    """Of matrices in the axes ``dim``: "fro", "nuc" (the sum of singular values), 2 and -2 (the largest and the
    smallest of them), 1 and -1 (sums of a column), inf and -inf (sums of a row)."""
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"[linalg.matrix_norm] dim must name 2 axes, not {dim}")
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise RuntimeError(f"[linalg.matrix_norm] ord {ord!r}: 'fro', 'nuc', 1, 2, inf and their negatives are known")
    if A.ndim < 2:
        raise RuntimeError(f"[linalg.matrix_norm] needs matrices, tensors with at least 2 axes: {tuple(A.shape)}")
    x = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return _core.norm(x, 2, tuple(dim), keepdim)
    rows, columns = (d % A.ndim for d in dim)
    if rows == columns:
        raise RuntimeError(f"[linalg.matrix_norm] dim names one axis twice: {tuple(dim)}")
    if ord in ("nuc", 2, -2):
        s = svdvals(x.movedim((rows, columns), (-2, -1)))
        y = s.sum(-1) if ord == "nuc" or (ord == 2 and not s.size(-1)) else s.amax(-1) if ord == 2 else s.amin(-1)
        return y.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keepdim else y
    size = float(ord)
    inner, outer = (rows, columns) if abs(size) == 1 else (columns, rows)
    sums = x.abs().sum(inner, keepdim=True)
    if size > 0 and not sums.size(outer):
        most = sums.sum(outer, keepdim=True)  # 0
    else:
        most = sums.amax(outer, keepdim=True) if size > 0 else sums.amin(outer, keepdim=True)
    return most if keepdim else most.squeeze((rows, columns))


def norm(
    A: Tensor,  # noqa: N803
    ord: Order = None,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: _core.dtype | None = None,
) -> Tensor:
    """A vector's or a matrix's norm, by the number of axes; the 2-norm of all elements without ``ord``."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(f"[linalg.norm] ord={ord!r} without dim needs a vector or a matrix: {tuple(A.shape)}")
    axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"[linalg.norm] ord={ord!r} is a norm of matrices: dim names {len(axes)} axes")
    return vector_norm(A, ord, axes, keepdim, dtype=dtype)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross products along an axis of size 3."""
    if input.ndim != other.ndim:
        raise RuntimeError(f"[linalg.cross] {input.ndim} and {other.ndim} axes: both need as many")
    return _core.cross(input, other, dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """sum(x y) along an axis."""
    return (x * y).sum(dim)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:  # noqa: N803
    """The powers 0 ... N - 1 of the elements of vectors : (..., M) -> (..., M, N)"""
    x = x if x.ndim else x[None]
    count = x.size(-1) if N is None else N
    if count <= 1:
        raise RuntimeError(f"[linalg.vander] N must be above 1: {count}")
    powers = x[..., None].expand(*x.shape, count - 1)
    return _core.cat([_core.ones_like(x)[..., None], powers.cumprod(-1)], -1)


def _takes_out(f: Any) -> Any:
    """f with ``out=``: a tensor, or as many as there are results, which get the shapes of the results."""

    @wraps(f)
    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        y = f(*args, **kwargs)
        if out is None:
            return y
        if isinstance(y, Tensor):
            return _core.clone(y, out=out)
        if not isinstance(out, tuple | list) or len(out) != len(y):
            raise TypeError(f"{f.__name__}(): argument 'out' must be one Tensor for each of the {len(y)} results")
        return type(y)(*(_core.clone(part, out=to) for part, to in zip(y, out, strict=True)))

    return run


for _name in set(__all__) - {"LinAlgError", "diagonal", "eig", "eigvals", "logdet", "matmul", "matrix_exp", "vander"}:
    globals()[_name] = _takes_out(globals()[_name])
