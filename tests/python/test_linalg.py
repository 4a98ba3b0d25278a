"""``chainrule.linalg``: values and gradients of first and second order against PyTorch, backward errors, bits for any
number of threads, and what is refused."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import chainrule as cr
import numpy as np
import pytest
from chainrule import func, linalg
from conftest import BUILD

SIZES = [
    (0, ()),
    (1, ()),
    (2, (3,)),
    (3, (2, 3)),
    (5, ()),
    (8, (3,)),
    (17, ()),
    (48, ()),
    (49, ()),
    (97, ()),
    (150, ()),
]
SHAPES = [(5, 3), (3, 5), (4, 4), (2, 7, 2), (2, 2, 6), (1, 1), (2, 4, 4), (0, 3), (3, 0)]
BOTH = [np.float64, np.float32]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def definite(*shape: int) -> Any:
    a = drawn(*shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def regular(*shape: int) -> Any:
    return drawn(*shape) + 3 * math.sqrt(shape[-1]) * np.eye(shape[-1])


def flat(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def close(got: Any, want: Any, tolerance: float, what: object = "") -> None:
    g, w = (np.asarray(t.detach().numpy()) for t in (got, want))
    assert g.shape == w.shape, (what, g.shape, w.shape)
    size = max(1.0, float(np.abs(w).max(initial=0)))
    assert np.abs(g - w).max(initial=0) <= tolerance * size, (what, np.abs(g - w).max())


# ---- values

SQUARE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cholesky": (lambda L, a, b: L.cholesky(a), definite),
    "cholesky upper": (lambda L, a, b: L.cholesky(a, upper=True), definite),
    "lu_factor": (lambda L, a, b: L.lu_factor(a), drawn),
    "solve": (lambda L, a, b: L.solve(a, b), regular),
    "solve from the right": (lambda L, a, b: L.solve(a, b.mT, left=False), regular),
    "solve a vector": (lambda L, a, b: L.solve(a, b[..., 0]), regular),
    "lu_solve": (lambda L, a, b: L.lu_solve(*L.lu_factor(a), b), regular),
    "lu_solve transposed": (lambda L, a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True), regular),
    "lu_solve from the right": (lambda L, a, b: L.lu_solve(*L.lu_factor(a), b.mT, left=False), regular),
    "inv": (lambda L, a, b: L.inv(a), regular),
    "det": (lambda L, a, b: L.det(a / 30), regular),
    "slogdet": (lambda L, a, b: L.slogdet(a), drawn),
    "upper": (lambda L, a, b: L.solve_triangular(a, b, upper=True), regular),
    "lower from the right": (lambda L, a, b: L.solve_triangular(a, b.mT, upper=False, left=False), regular),
    "lower, ones": (lambda L, a, b: L.solve_triangular(a / 40, b, upper=False, unitriangular=True), regular),
    "eigvalsh": (lambda L, a, b: L.eigvalsh(a), definite),
    "eigvalsh U": (lambda L, a, b: L.eigvalsh(a, UPLO="U"), drawn),
    "matrix_power": (lambda L, a, b: [L.matrix_power(a / 9, n) for n in (0, 1, 5, -3)], regular),
}


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(torch: Any, name: str, dtype: Any) -> None:
    call, make = SQUARE[name]
    for n, batch in SIZES:
        if name.startswith("eigvalsh") and n > 97:
            continue
        a, b = make(*batch, n, n).astype(dtype), drawn(*batch, n, 4).astype(dtype)
        found = flat(call(linalg, cr.tensor(a), cr.tensor(b)))
        wanted = flat(call(torch.linalg, torch.tensor(a), torch.tensor(b)))
        for got, want in zip(found, wanted, strict=True):
            close(got, want, 1e-10 if dtype == np.float64 else 2e-3, (name, n, batch))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices_inside_vmap(name: str, axis: int) -> None:
    call, make = SQUARE[name]
    a, b = cr.tensor(make(3, 2, 5, 5)), cr.tensor(drawn(3, 2, 5, 4))
    of: Callable[..., Any] = lambda a, b: tuple(flat(call(linalg, a, b)))
    for dims in ((axis, None), (axis, 0), (None, 0)):
        given = [x if d == 0 else x[0] if d is None else x.movedim(0, d) for x, d in zip((a, b), dims, strict=True)]
        found = func.vmap(of, in_dims=dims)(*given)
        loop = [of(a[i if dims[0] is not None else 0], b[i if dims[1] is not None else 0]) for i in range(3)]
        for k, got in enumerate(found):
            close(got, cr.stack([y[k] for y in loop]), 1e-12, (name, dims))


RECTANGULAR: dict[str, Callable[..., Any]] = {
    "qr": lambda L, a: L.qr(a),
    "qr complete": lambda L, a: L.qr(a, "complete"),
    "qr r": lambda L, a: L.qr(a, mode="r"),
    "lu": lambda L, a: L.lu(a),
    "svdvals": lambda L, a: L.svdvals(a),
    "pinv": lambda L, a: L.pinv(a),
    "pinv cut": lambda L, a: L.pinv(a, rtol=0.3),
    "nuclear": lambda L, a: L.matrix_norm(a, "nuc"),
    "matrix_rank": lambda L, a: L.matrix_rank(a),
    "matrix_rank cut": lambda L, a: L.matrix_rank(a, atol=1.0),
    "norms": lambda L, a: [
        L.matrix_norm(a, p, keepdim=k) for p in (1, -1, 2, -2, math.inf, "fro") for k in (False, True)
    ],
}


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", RECTANGULAR)
def test_rectangular_matrices(torch: Any, name: str, dtype: Any) -> None:
    for shape in [*SHAPES, (60, 50), (50, 61)]:
        if name == "norms" and 0 in shape:
            continue
        a = drawn(*shape).astype(dtype)
        found = flat(RECTANGULAR[name](linalg, cr.tensor(a)))
        for got, want in zip(found, flat(RECTANGULAR[name](torch.linalg, torch.tensor(a))), strict=True):
            close(got, want, 1e-10 if dtype == np.float64 else 5e-3, (name, shape))


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(torch: Any, driver: str | None) -> None:
    for shape in [(5, 3), (3, 5), (2, 6, 3), (4, 4)]:
        for low in (False, True):
            if low and driver == "gels":
                continue
            a, b = drawn(*shape), drawn(*shape[:-1], 2)
            if low:
                a[..., -1, :], a[..., :, -1] = 0, 0
            found = linalg.lstsq(cr.tensor(a), cr.tensor(b), driver=driver)
            wanted = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver=driver or "gelsy")
            if driver in (None, "gelsy"):  # whose solution is wrong in some batches (16 of 200) with PyTorch 2.13
                best = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver="gelsd")
                wanted = best.solution, wanted.residuals, best.rank, wanted.singular_values
            for got, want in zip(found, wanted, strict=True):
                close(got, want, 1e-10, (shape, driver, low))


def test_small_functions(torch: Any) -> None:
    a, b, c = drawn(4, 3), drawn(3, 7), drawn(7, 2)
    both = [(linalg, cr.tensor), (torch.linalg, torch.tensor)]
    calls: list[Callable[[Any, Any], Any]] = [
        lambda L, t: L.multi_dot([t(a), t(b), t(c)]),
        lambda L, t: L.multi_dot([t(a[0]), t(b), t(c[:, 0])]),
        lambda L, t: L.cross(t(a), t(a[::-1].copy())),
        lambda L, t: L.vander(t(b)),
        lambda L, t: L.vander(t(b), N=4),
        lambda L, t: L.vecdot(t(a), t(a)),
        lambda L, t: L.tensorinv(t(drawn(4, 6, 8, 3))),
        lambda L, t: L.tensorsolve(t(drawn(2, 3, 6)), t(drawn(2, 3))),
        lambda L, t: L.tensorsolve(t(drawn(3, 6, 2)), t(drawn(3, 2)), dims=(1,)),
        lambda L, t: L.norm(t(a)),
        lambda L, t: L.norm(t(a), 1),
        lambda L, t: L.norm(t(drawn(2, 3, 4)), "nuc", (0, 2), True),
        lambda L, t: L.norm(t(a[0]), 3),
        lambda L, t: L.cond(t(drawn(2, 4, 4))),
        lambda L, t: L.cond(t(drawn(2, 4, 4)), 1),
        lambda L, t: L.cond(t(drawn(2, 4, 4)), -2),
        lambda L, t: L.householder_product(t(drawn(2, 5, 3)), t(drawn(2, 3))),
        lambda L, t: L.pinv(t(definite(4, 4)), hermitian=True),
        lambda L, t: [L.matrix_exp(t(drawn(3, 5, 5) * s)) for s in (0.01, 1, 20)],
    ]
    for i, call in enumerate(calls):
        found, wanted = (flat(call(L, t)) for L, t in both)
        for got, want in zip(found, wanted, strict=True):
            close(got, want, 1e-10, i)


def test_vectors_are_orthonormal() -> None:
    """Factors multiply to the matrix, and vectors are orthonormal: also of repeated and of zero values."""
    low = drawn(9, 2) @ drawn(2, 6, seed=1)
    for a in (drawn(6, 4), drawn(4, 6), np.zeros((5, 3)), np.ones((4, 4)), np.eye(5), low, 1e-200 * drawn(4, 3)):
        u, s, vh = linalg.svd(cr.tensor(a))
        k = min(a.shape)
        close((u[:, :k] * s) @ vh[:k], cr.tensor(a), 1e-14, "product")
        for q in (u, vh):
            close(q @ q.mT, cr.eye(q.size(0), dtype=cr.float64), 1e-13, "orthonormal")
        assert bool((s.diff() <= 0).all())
        square = a @ a.T
        values, v = linalg.eigh(cr.tensor(square))
        close((v * values) @ v.mT, cr.tensor(square), 1e-13, "eigh")
        close(v.mT @ v, cr.eye(len(v), dtype=cr.float64), 1e-13, "eigh, orthonormal")


def test_backward_errors() -> None:
    """|A x - b| and |A - Q R| of matrices that are hard to solve: within 4 times of NumPy's."""
    hilbert = 1 / (np.arange(12)[:, None] + np.arange(12) + 1.0)
    for a in (hilbert, drawn(200, 200), drawn(60, 60) * np.logspace(0, -12, 60)):
        n, eps = len(a), np.finfo(float).eps
        b, size = drawn(n, 1), np.linalg.norm(a)

        def error(x: Any, a: Any = a, b: Any = b, size: Any = size) -> float:
            return float(np.linalg.norm(a @ x - b) / (size * np.linalg.norm(x)))

        x = linalg.solve(cr.tensor(a), cr.tensor(b)).numpy()
        assert error(x) <= 4 * error(np.linalg.solve(a, b)) + eps
        q, r = (t.numpy() for t in linalg.qr(cr.tensor(a)))
        theirs = np.linalg.qr(a)
        assert np.linalg.norm(q @ r - a) <= 4 * np.linalg.norm(theirs[0] @ theirs[1] - a) + eps * size


# ---- gradients

GRADIENTS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "cholesky": (lambda L, a: L.cholesky(a), [definite(2, 4, 4)]),
    "cholesky of panels": (lambda L, a: L.cholesky(a), [definite(60, 60)]),
    "cholesky_ex upper": (lambda L, a: L.cholesky(a, upper=True), [definite(4, 4)]),
    "solve": (lambda L, a, b: L.solve(a, b), [regular(2, 4, 4), drawn(4, 3)]),
    "solve from the right": (lambda L, a, b: L.solve(a, b, left=False), [regular(4, 4), drawn(3, 4)]),
    "inv": (lambda L, a: L.inv(a), [regular(3, 5, 5)]),
    "det": (lambda L, a: L.det(a), [drawn(2, 4, 4)]),
    "slogdet": (lambda L, a: L.slogdet(a)[1], [drawn(2, 4, 4)]),
    "upper": (lambda L, a, b: L.solve_triangular(a, b, upper=True), [regular(2, 4, 4), drawn(2, 4, 3)]),
    "lower, ones": (
        lambda L, a, b: L.solve_triangular(a, b, upper=False, unitriangular=True),
        [drawn(4, 4), drawn(2, 4, 3)],
    ),
    "lu": (lambda L, a: L.lu(a)[1:], [drawn(2, 4, 4)]),
    "lu tall": (lambda L, a: L.lu(a)[1:], [drawn(6, 3)]),
    "lu wide": (lambda L, a: L.lu(a)[1:], [drawn(2, 3, 5)]),
    "qr": (lambda L, a: L.qr(a), [drawn(2, 5, 3)]),
    "qr wide": (lambda L, a: L.qr(a), [drawn(3, 5)]),
    "eigvalsh": (lambda L, a: L.eigvalsh(a), [definite(2, 4, 4)]),
    "eigh": (lambda L, a: [y**2 for y in L.eigh(a)], [definite(2, 4, 4)]),
    "svdvals": (lambda L, a: L.svdvals(a), [drawn(2, 5, 3)]),
    "svd": (lambda L, a: [y**2 for y in L.svd(a, full_matrices=False)], [drawn(2, 5, 3)]),
    "svd wide": (lambda L, a: [y**2 for y in L.svd(a, full_matrices=False)], [drawn(3, 4)]),
    "pinv": (lambda L, a: L.pinv(a), [drawn(5, 3)]),
    "pinv wide": (lambda L, a: L.pinv(a), [drawn(2, 3, 5)]),
    "pinv of symmetric": (lambda L, a: L.pinv(a + a.mT, hermitian=True), [drawn(2, 4, 4)]),
    "pinv, equal values": (lambda L, a, b: L.pinv(a @ b.mT), [np.linalg.qr(drawn(2, k, 2))[0] for k in (5, 4)]),
    "nuclear": (lambda L, a: L.matrix_norm(a, "nuc"), [drawn(3, 5)]),
    "matrix_exp": (lambda L, a: L.matrix_exp(a), [drawn(2, 4, 4)]),
    "matrix_exp, squared": (lambda L, a: L.matrix_exp(a), [4 * drawn(4, 4)]),
    "householder_product": (lambda L, a, t: L.householder_product(a, t), [drawn(5, 3), drawn(3)]),
    "tensorinv": (lambda L, a: L.tensorinv(a), [drawn(4, 6, 8, 3)]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(torch: Any, name: str) -> None:
    """Of first order by both ways, and of second order; PyTorch's of a composition that is as smooth."""
    call, arrays = GRADIENTS[name]

    def orders(xp: Any, L: Any, grad: Any, tensor: Any) -> list[Any]:  # noqa: N803
        x = [tensor(a, requires_grad=True) for a in arrays]

        def loss(ys: list[Any], seed: int) -> Any:
            return sum((y * tensor(drawn(*y.shape, seed=seed))).sum() for y in ys)

        plain = grad(loss(flat(call(L, *x)), 5), x)
        first = grad(loss(flat(call(L, *x)), 5), x, create_graph=True)
        return [*plain, *first, *grad(loss(list(first), 6), x)]

    found = orders(cr, linalg, cr.autograd.grad, cr.tensor)
    wanted = orders(torch, torch.linalg, torch.autograd.grad, torch.tensor)
    for i, (got, want) in enumerate(zip(found, wanted, strict=True)):
        close(got, want, 1e-7, (name, i))


@pytest.mark.parametrize("name", [n for n in GRADIENTS if n not in ("cholesky of panels", "tensorinv")])
def test_gradcheck(name: str) -> None:
    """Against differences; symmetric functions of a matrix and its transpose."""
    call, arrays = GRADIENTS[name]
    symmetric = arrays[0].shape[-1] == arrays[0].shape[-2] and name.startswith(("cholesky", "eig"))

    def checked(*x: Any) -> Any:
        y = call(linalg, (x[0] + x[0].mT) / 2, *x[1:]) if symmetric else call(linalg, *x)
        return sum((t * (i + 1)).sin().sum() for i, t in enumerate(flat(y)))

    x = [cr.tensor(a, requires_grad=True) for a in arrays]
    assert cr.autograd.gradcheck(checked, x)
    assert cr.autograd.gradgradcheck(checked, x)


def test_singular_determinant() -> None:
    """The gradient is the transposed adjugate, whose elements are determinants of submatrices."""
    for a in (np.diag([1.0, 2, 0]), np.diag([1.0, 0, 0]), np.zeros((3, 3)), np.arange(9.0).reshape(3, 3)):
        x = cr.tensor(a, requires_grad=True)
        linalg.det(x).backward()
        minors = [
            [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(3)] for i in range(3)
        ]
        close(x.grad, cr.tensor(minors, dtype=cr.float64), 1e-12, a)


def test_equal_values_have_finite_gradients() -> None:
    """The convention for vectors of equal values; the sum of equal values has its right gradient."""
    for call in (lambda a: linalg.eigh(a), lambda a: linalg.svd(a)):
        x = cr.eye(4, dtype=cr.float64).requires_grad_()
        cr.stack([y.square().sum() for y in call(x)]).sum().backward()
        assert x.grad is not None and bool(x.grad.isfinite().all())
    x = cr.eye(4, dtype=cr.float64).requires_grad_()
    linalg.matrix_norm(x, "nuc").backward()
    close(x.grad, cr.eye(4, dtype=cr.float64), 1e-15)
    for size in (0.0, 2.0):
        for p in (2, -2):  # equal values share
            x = (size * cr.eye(4, dtype=cr.float64)).requires_grad_()
            linalg.matrix_norm(x, p).backward()
            close(x.grad, cr.eye(4, dtype=cr.float64) / 4, 1e-15)


def test_pinv_inside_transforms() -> None:
    a, b = (cr.tensor(np.linalg.qr(drawn(3, k, 2))[0]) for k in (5, 4))  # rank 2, both values 1
    t = cr.tensor(drawn(3, 5, 2))
    value, pushed = func.vmap(lambda a, b, t: func.jvp(lambda a: linalg.pinv(a @ b.mT), (a,), (t,)))(a, b, t)
    moved = [linalg.pinv((a + h * t) @ b.mT, rtol=1e-9) for h in (1e-6, -1e-6)]
    close(value, linalg.pinv(a @ b.mT), 1e-14)
    close(pushed, (moved[0] - moved[1]) / 2e-6, 1e-8)
    of: Callable[..., Any] = lambda a, b: linalg.lstsq(a @ b.mT, t[0], driver="gelsd").solution.sum()
    each = func.vmap(func.grad(of))(a, b)
    x = a.clone().requires_grad_()
    cr.stack([of(x[i], b[i]) for i in range(3)]).sum().backward()
    close(each, x.grad, 1e-12)


def test_empty_matrices(torch: Any) -> None:
    """Norms of none are 0 where PyTorch's are; results that depend on no element have a gradient of zeros."""
    for shape in [(0, 0), (5, 0), (0, 5), (2, 0, 3)]:
        for p in (1, 2, math.inf, "nuc", "fro"):
            for keep in (False, True):
                found = linalg.matrix_norm(cr.tensor(np.zeros(shape)), p, keepdim=keep)
                close(found, torch.linalg.matrix_norm(torch.zeros(shape, dtype=torch.float64), p, keepdim=keep), 0)
    x = cr.tensor(drawn(3, 3)).requires_grad_()
    for y in (linalg.matrix_power(x, 0), linalg.householder_product(x, x.new_zeros(0)), linalg.pinv(x[:0])):
        (dx,) = cr.autograd.grad(y.sum(), x)
        assert dx is not None and dx.tolist() == [[0.0] * 3] * 3
    assert linalg.vander(cr.tensor(2.0), N=3).tolist() == [[1.0, 2.0, 4.0]]


# ---- bits


@pytest.mark.parametrize("dtype", [cr.float32, cr.float64])
def test_bits_for_any_number_of_threads(dtype: cr.dtype) -> None:
    before = cr.get_num_threads()

    def results() -> list[bytes]:
        found: list[Any] = []
        for n, batch in ((150, ()), (7, (400,)), (70, (3,)), (330, ())):  # over 64: by LAPACK where it is found
            a = cr.tensor(definite(*batch, n, n), dtype=dtype, requires_grad=True)
            b = cr.tensor(drawn(*batch, n, n), dtype=dtype)
            ys = [linalg.cholesky(a), linalg.solve(a, b), *linalg.qr(b + a), linalg.lu_factor(b)[0], linalg.inv(a)]
            if n < 150:
                ys += [*linalg.eigh(a), *linalg.svd(b)]
            cr.stack([y.sin().sum() for y in ys]).sum().backward()
            found += [*ys, a.grad]
        return [y.detach().numpy().tobytes() for y in found]

    try:
        cr.set_num_threads(1)
        wanted = results()
        for threads in (2, 4):
            cr.set_num_threads(threads)
            assert results() == wanted, threads
    finally:
        cr.set_num_threads(before)


@pytest.mark.parametrize("dtype", [cr.float32, cr.float64])
def test_small_matrices_have_the_same_bits_in_any_batch(dtype: cr.dtype) -> None:
    """Those of up to 32 rows run side by side; what is singular, indefinite or not finite disturbs no neighbour."""
    for m, n in ((1, 1), (2, 2), (3, 3), (8, 8), (17, 17), (32, 32), (33, 33), (7, 6), (5, 11), (16, 3)):
        a = cr.tensor(drawn(37, m, n), dtype=dtype)
        a[1], a[2, 0, 0], a[3], a[4, -1, -1] = 0.0, math.nan, cr.ones(m, n), math.inf
        a[5], a[6], a[7] = a[5] * 1e-30, a[6] * 1e30, a[7] * -0.0
        calls: list[Any] = [lambda x: cr._core._svd(x), lambda x: cr._core._lu_factor(x)]
        if m == n:
            a[8:20] = a[8:20] @ a[8:20].mT  # definite
            a[20] = cr.eye(n)
            calls += [lambda x: cr._core._eigh(x), lambda x: (linalg.cholesky_ex(x).L,)]
            calls += [lambda x, u=u, k=k: (linalg.solve_triangular(x, x[..., :k], upper=u, unitriangular=u),)
                      for u in (False, True) for k in (1, n)]  # fmt: skip
            calls += [lambda x: (linalg.solve_ex(x, x.mT).result,)]
        for call in calls:
            bits: Any = lambda ys: [np.where(np.isnan(y.numpy()), np.nan, y.numpy()) for y in ys]  # one kind of NaN
            together = bits(call(a))
            for i in range(37):
                alone = bits(call(a[i]))
                assert [y[i].tobytes() for y in together] == [y.tobytes() for y in alone], (m, n, i)
            some = bits(call(a[5:21]))
            assert [y[5:21].tobytes() for y in together] == [y.tobytes() for y in some]
            assert bool(np.isfinite(together[0][8:20]).all())


# ---- what is refused, and what is not


def test_errors_name_the_matrix() -> None:
    a = cr.eye(3).expand(2, 4, 3, 3).clone()
    a[1, 2, 1] = 0
    for call, name, what in (
        (linalg.inv, "inv", "singular: pivot 2"),
        (lambda m: linalg.solve(m, m), "solve", "singular: pivot 2"),
        (linalg.lu_factor, "lu_factor", "singular: pivot 2"),
        (linalg.cholesky, "cholesky", "positive-definite: its leading minor of order 2"),
    ):
        with pytest.raises(linalg.LinAlgError, match=rf"\[linalg.{name}\] matrix \(1, 2\) of the batch is .*{what}"):
            call(a)
    assert issubclass(linalg.LinAlgError, RuntimeError)  # as PyTorch's, and NumPy's is a ValueError
    assert issubclass(linalg.LinAlgError, ValueError)
    for info in (linalg.inv_ex(a).info, linalg.solve_ex(a, a).info, linalg.cholesky_ex(a).info):
        assert info.dtype == cr.int32 and info.tolist() == [[0, 0, 0, 0], [0, 0, 2, 0]]
    a[1, 2, 1, 1] = math.nan
    for spectral in (linalg.eigh, linalg.svd, linalg.svdvals, linalg.pinv):
        with pytest.raises(linalg.LinAlgError, match=r"matrix \(1, 2\) of the batch has elements"):
            spectral(a)
    with pytest.raises(linalg.LinAlgError, match=r"\(1, 2\)"):
        linalg.cholesky(a)
    assert bool(linalg.inv(a)[1, 2].isnan().any()) and bool(linalg.inv(a)[0].isfinite().all())


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: linalg.inv(cr.ones(2, 3)), r"\[linalg.inv\] needs square matrices: \(2, 3\)"),
        (lambda: linalg.cholesky(cr.ones(3)), r"\[linalg.cholesky\] needs matrices.*\(3,\)"),
        (lambda: linalg.det(cr.ones(2, 2, dtype=cr.int64)), r"\[linalg.det\] needs a float dtype"),
        (lambda: linalg.solve(cr.eye(3), cr.ones(2, 1)), r"rows differ"),
        (lambda: linalg.qr(cr.ones(2, 2), "full"), r"\[linalg.qr\] mode 'full'"),
        (lambda: linalg.qr(cr.ones(3, 2, requires_grad=True), "complete"), r"no gradient"),
        (lambda: linalg.multi_dot([cr.ones(2, 3), cr.ones(2, 3)]), r"tensors 0 and 1 do not fit"),
        (lambda: linalg.tensorinv(cr.ones(2, 3)), r"\[linalg.tensorinv\]"),
        (lambda: linalg.cross(cr.ones(3), cr.ones(1, 3)), r"\[linalg.cross\]"),
        (lambda: linalg.norm(cr.ones(2, 2, 2), 2), r"\[linalg.norm\]"),
        (lambda: linalg.eigh(cr.eye(2), UPLO="X"), r"\[linalg.eigh\] UPLO"),
        (lambda: linalg.eigvals(cr.eye(2)), r"\[linalg.eig\] gives complex numbers"),
        (lambda: linalg.ldl_factor(cr.zeros(2, 2)), r"\[linalg.ldl_factor\] the matrix is singular: block 1"),
        (lambda: linalg.ldl_solve(cr.eye(2), cr.tensor([1, 2]), cr.ones(3, 1)), r"\[linalg.ldl_solve\] B needs 2"),
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def test_half_precision_and_devices() -> None:
    """Half precision computes in float32; matrices of other devices go to the processor and come back."""
    a = cr.tensor(definite(4, 4), dtype=cr.float32)
    for dtype in (cr.float16, cr.bfloat16):
        y = linalg.cholesky(a.to(dtype))
        assert y.dtype == dtype
        assert bool((y == linalg.cholesky(a.to(dtype).float()).to(dtype)).all())
    x = a.to("ref").requires_grad_()
    y = linalg.inv(x)
    y.sum().backward()
    assert x.grad is not None and y.device == x.grad.device == cr.Device("ref")
    assert bool((y.to("cpu") == linalg.inv(a)).all())


def test_old_names() -> None:
    """Those of torch and the methods of tensors that the drop-in adds."""
    import chainrule.torch as torch

    a = cr.tensor(definite(4, 4))
    assert bool((torch.inverse(a) == linalg.inv(a)).all())
    assert bool((getattr(a, "det")() == linalg.det(a)).all())  # noqa: B009
    u, s, v = torch.svd(a[:, :3])
    close((u * s) @ v.mT, a[:, :3], 1e-12)
    assert bool((torch.cholesky(a, upper=True) == linalg.cholesky(a).mT).all())
    b = cr.tensor(drawn(4, 2))
    close(torch.triangular_solve(b, a, upper=False).solution, linalg.solve_triangular(a, b, upper=False), 0)
    close(torch.lu_solve(b, *linalg.lu_factor(a)), linalg.solve(a, b), 1e-12)
    close(torch.cholesky_solve(b, torch.cholesky(a)), linalg.solve(a, b), 1e-12)
    assert torch.linalg.LinAlgError is linalg.LinAlgError is torch._C._LinAlgError


@pytest.mark.parametrize("kind", ["indefinite", "no diagonal", "definite", "low rank"])
def test_ldl(torch: Any, kind: str) -> None:
    for n, batch in [(0, ()), (1, (2,)), (2, ()), (3, (2, 2)), (5, (3,)), (17, ()), (41, (2,))]:
        a = drawn(*batch, n, n)
        a = a + np.swapaxes(a, -1, -2)
        if kind == "no diagonal" and n > 1:
            a[..., np.arange(n), np.arange(n)] = 0
        if kind == "definite":
            a = definite(*batch, n, n)
        if kind == "low rank":
            a = np.ones_like(a)
        x = cr.tensor(np.tril(a) + np.triu(np.full_like(a, 7.0), 1))  # the upper triangle is not read
        found, wanted = linalg.ldl_factor_ex(x), torch.linalg.ldl_factor_ex(torch.tensor(a))
        assert found.pivots.tolist() == wanted.pivots.tolist() and found.info.tolist() == wanted.info.tolist()
        close(found.LD, wanted.LD.tril(), 1e-10, (kind, n))
        if kind == "low rank":
            assert bool((found.info == (2 if n > 1 else 0)).all())
            continue
        b = cr.tensor(drawn(2, 2, n, 3))
        y = linalg.ldl_solve(found.LD, found.pivots, b) if batch != (3,) else linalg.ldl_solve(*found[:2], b[0, :1])
        close(cr.tensor(a) @ y, b if batch != (3,) else b[0, :1].expand(3, n, 3), 1e-8, (kind, n))
    each = func.vmap(linalg.ldl_solve)(*linalg.ldl_factor(cr.tensor(definite(3, 4, 4))), cr.tensor(drawn(3, 4, 2)))
    close(each, linalg.solve(cr.tensor(definite(3, 4, 4)), cr.tensor(drawn(3, 4, 2))), 1e-10)
    factors, pivots = linalg.ldl_factor(cr.tensor(drawn(4, 4) + drawn(4, 4).T))
    inputs = factors.requires_grad_(), cr.tensor(drawn(4, 2)).requires_grad_()
    assert cr.autograd.gradcheck(lambda d, b: linalg.ldl_solve(d, pivots, b), inputs)


def test_results_in_given_tensors() -> None:
    given: Any = linalg
    a = cr.tensor(definite(4, 4))
    out, more = cr.empty(0, dtype=cr.float64), cr.empty(2, 2, dtype=cr.float64)
    assert given.inv(a, out=out) is out and cr.equal(out, linalg.inv(a))
    found = given.qr(a, out=(out, more))
    assert isinstance(found, linalg.QR) and found.Q is out and cr.equal(more, linalg.qr(a).R)
    with pytest.raises(TypeError, match="one Tensor for each of the 2 results"):
        given.qr(a, out=out)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        given.det(a.requires_grad_(), out=out)


def test_reflections_and_parts_of_lu(torch: Any) -> None:
    import chainrule.torch as ours

    for shape in [(5, 3), (3, 5), (4, 4), (2, 6, 4), (0, 3), (3, 0), (1, 1)]:
        a = drawn(*shape)
        found, wanted = ours.geqrf(cr.tensor(a)), torch.geqrf(torch.tensor(a))
        for got, want in zip(found, wanted, strict=True):
            close(got, want, 1e-12, shape)
        for left in (True, False) if shape[-2] else ():
            for turned in (True, False):
                other = drawn(*shape[:-2], *((shape[-2], 2) if left else (2, shape[-2])))
                got = ours.ormqr(*found, cr.tensor(other), left, turned)
                close(got, torch.ormqr(*wanted, torch.tensor(other), left, turned), 1e-12, (shape, left, turned))
        factors = torch.lu(torch.tensor(a), get_infos=True)
        for got, want in zip(ours.lu(cr.tensor(a), get_infos=True), factors, strict=True):
            close(got, want, 1e-12, shape)
        for which in [(True, True), (True, False), (False, True)]:
            parts = ours.lu_unpack(*ours.lu(cr.tensor(a), get_infos=True)[:2], *which)
            for got, want in zip(parts, torch.lu_unpack(*factors[:2], *which), strict=True):
                close(got, want, 1e-12, (shape, which))
    a, tau = ours.geqrf(cr.tensor(drawn(4, 3)))
    inputs = [x.clone().requires_grad_() for x in (a, tau, cr.tensor(drawn(4, 2)))]
    assert cr.autograd.gradcheck(ours.ormqr, inputs)
    with pytest.raises(RuntimeError, match=r"\[ormqr\] the reflections are of 4 rows, and other of 3"):
        ours.ormqr(a, tau, cr.ones(3, 2))


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (2, 25, 20)])
def test_few_singular_values(shape: tuple[int, ...]) -> None:
    import chainrule.torch as ours

    cr.manual_seed(1)
    a = cr.tensor(drawn(*shape[:-1], 5) @ drawn(*shape[:-2], 5, shape[-1]))
    for found, whole in (
        (ours.svd_lowrank(a, q=7), a),
        (ours.pca_lowrank(a, q=7), a - a.mean(-2, keepdim=True)),
        (ours.svd_lowrank(a, q=7, M=a / 2), a / 2),
    ):
        u, s, v = found
        assert u.shape[-1] == v.shape[-1] == s.shape[-1] == 7
        close((u * s[..., None, :]) @ v.mT, whole, 1e-10, shape)
        close(s, linalg.svdvals(whole)[..., :7], 1e-10, shape)
        close(u.mT @ u, cr.eye(7, dtype=a.dtype).expand(*shape[:-2], 7, 7), 1e-10, shape)
    with pytest.raises(ValueError, match="greater than"):
        ours.pca_lowrank(a, q=41)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_lobpcg(largest: bool, weighted: bool) -> None:
    import chainrule.torch as ours

    sl = pytest.importorskip("scipy.linalg")
    cr.manual_seed(1)
    a, b = definite(2, 50, 50), definite(50, 50) / 50 if weighted else None
    e, x = ours.lobpcg(cr.tensor(a), 3, None if b is None else cr.tensor(b), largest=largest, tol=1e-9)
    exact = np.stack([sl.eigh(m, b, eigvals_only=True) for m in a])
    close(e, cr.tensor(exact[:, ::-1][:, :3].copy() if largest else exact[:, :3].copy()), 1e-9)
    bx = x if b is None else cr.tensor(b) @ x
    close(cr.tensor(a) @ x, bx * e[:, None], 1e-6)
    close(x.mT @ bx, cr.eye(3, dtype=cr.float64).expand(2, 3, 3), 1e-10)
    few = ours.lobpcg(cr.tensor(a), 3, X=x if b is None else None, niter=0 if b is None else 1, largest=largest)
    assert few[0].shape == (2, 3)
    with pytest.raises(ValueError, match="smaller than 3 x"):
        ours.lobpcg(cr.tensor(a), 20)


def spectra(n: int, m: int, seed: int) -> dict[str, Any]:
    """Matrices (m, n) that are hard for methods of values only."""
    g = np.random.default_rng(seed)
    x = g.standard_normal((m, n))
    band = [np.diag(10.0 ** -g.uniform(0, 200, size), k) for k, size in ((0, n), (1, n - 1))]
    return {
        "plain": x,
        "columns of all sizes": x * 10.0 ** g.integers(-12, 1, (1, n)),
        "rows of all sizes": x * 10.0 ** g.integers(-8, 1, (m, 1)),
        "low rank": x[:, :3] @ g.standard_normal((3, n)),
        "almost the identity": np.eye(m, n) + 1e-9 * x,
        "small integers": g.integers(-1, 2, (m, n)),
        "mostly zeros": g.random((m, n)) < 0.05,
        "zeros": np.zeros((m, n)),
        "ones": np.ones((m, n)),
        "graded": np.pad(band[0] + band[1], ((0, m - n), (0, 0))),
        "Hilbert": 1 / (np.arange(m)[:, None] + np.arange(n) + 1),
        "large": 1e30 * x,
        "small": 1e-30 * x,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_without_vectors(dtype: Any) -> None:
    """Eigenvalues and singular values of 17 to 64 rows and more, against LAPACK in double, which is off by 20 eps."""
    for seed, (n, m) in enumerate(((17, 17), (17, 40), (23, 24), (32, 33), (41, 41), (64, 70))):
        for name, a in spectra(n, m, seed).items():
            x = np.asarray(a, dtype)
            square = np.tril(x[:n]) + np.tril(x[:n], -1).T
            for got, want in (
                (linalg.svdvals(cr.tensor(x)), np.linalg.svd(x.astype(float), compute_uv=False)),
                (linalg.svdvals(cr.tensor(x.T.copy())), np.linalg.svd(x.astype(float), compute_uv=False)),
                (linalg.eigvalsh(cr.tensor(x[:n])), np.linalg.eigvalsh(square.astype(float))),
            ):
                off = np.abs(got.numpy().astype(float) - want).max() / max(np.abs(want).max(), 1e-300)
                assert off < 60 * np.finfo(dtype).eps, (name, n, m, off / np.finfo(dtype).eps)


def test_values_without_vectors_are_ops() -> None:
    """Gradients of both orders, forward mode, vmap; a bad matrix of a batch; equal bits beside others."""
    a = cr.tensor(definite(2, 18, 18)).requires_grad_()
    b = cr.tensor(drawn(2, 19, 17, seed=5)).requires_grad_()
    for values, full, x in (
        (linalg.eigvalsh, lambda x: linalg.eigh(x).eigenvalues, a),
        (linalg.svdvals, lambda x: linalg.svd(x, False).S, b),
        (lambda x: linalg.svdvals(x.mT), lambda x: linalg.svd(x, False).S, b),
    ):
        weights = cr.tensor(drawn(2, x.size(-1), seed=2))
        both = []
        for f in (values, full):
            (one,) = cr.autograd.grad((f(x).sqrt() * weights).sum(), [x], create_graph=True)
            assert one is not None
            (two,) = cr.autograd.grad(one.square().sum(), [x])
            tangent = func.jvp(f, (x.detach(),), (cr.tensor(drawn(*x.shape, seed=3)),))[1]
            both.append((one, two, tangent))
        for got, want in zip(*both, strict=True):
            close(got, want, 1e-8)
        y = x.detach()
        assert cr.equal(func.vmap(values)(y), values(y))
        assert all(cr.equal(values(y[i]), values(y)[i]) for i in range(2))
        bad = y.clone()
        bad[1, 4, 3] = math.inf
        with pytest.raises(linalg.LinAlgError, match=r"matrix \(1,\) of the batch"):
            values(bad)


LARGE = """
import chainrule as cr, json, sys
from chainrule import linalg
cr.manual_seed(1)
found = {}
for dtype in (cr.float64, cr.float32):
    for m, n in ((65, 65), (130, 70), (70, 101), (2, 80)):
        a = cr.randn(2, m, n, dtype=dtype)
        u, s, vh = linalg.svd(a, False)
        gaps = [(u * s[..., None, :]) @ vh - a, u.mT @ u - cr.eye(min(m, n), dtype=dtype)]
        gaps += [(s - linalg.svdvals(a)) / s.max()]
        if m == n:
            lower = a.tril()  # what is above is not read
            w, v = linalg.eigh(a)
            full = lower + a.tril(-1).mT
            only = linalg.eigvalsh(lower)
            gaps += [full @ v - v * w[..., None, :], v.mT @ v - cr.eye(n, dtype=dtype), (w - only) / w.abs().max()]
            assert bool((w.diff() >= 0).all()) and cr.equal(only, linalg.eigvalsh(a))
            s = cr.cat([s, w, only], -1)
        assert bool((s[..., : min(m, n)].diff() <= 0).all())
        found[f"{dtype} {m} {n}"] = [float(g.abs().max()) for g in gaps], s.double().flatten().tolist()
a[0, 1, 7] = float("nan")
try:
    linalg.svdvals(a)
except linalg.LinAlgError:
    print(json.dumps(found))
"""


def test_large_matrices_with_and_without_lapack() -> None:
    """Of more than 64 columns: by the library that is found, by none, and with a library that is none."""
    found = []
    for setting in (None, "off", sys.executable):
        environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
        environment.pop("CHAINRULE_LAPACK", None)
        environment |= {} if setting is None else {"CHAINRULE_LAPACK": setting}
        run = subprocess.run([sys.executable, "-c", LARGE], env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(run.stdout))
    for name, (gaps, values) in found[0].items():
        bound = 1e-12 if "64 " in name[:18] else 1e-4
        assert max(gaps) < bound, (name, gaps)
        assert max(found[1][name][0]) < bound and found[1] == found[2]
        assert max(abs(a - b) for a, b in zip(values, found[1][name][1], strict=True)) < bound * 10
