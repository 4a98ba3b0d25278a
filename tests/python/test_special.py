"""chainrule.special: beside SciPy in both float dtypes, gradients beside differences and PyTorch, and the functions
of more than one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import chainrule as cr
import numpy as np
import pytest
from chainrule import special

try:
    import scipy.special as _scipy
except ImportError:
    _scipy = None
try:
    import torch as _torch
except ImportError:
    _torch = None
scipy: Any = _scipy
torch: Any = _torch
needs_scipy = pytest.mark.skipif(scipy is None, reason="SciPy is not installed")
RNG = np.random.default_rng(7)


def log_range(low: float, high: float) -> np.ndarray:
    return 10 ** RNG.uniform(low, high, 2000)


def between(low: float, high: float) -> np.ndarray:
    return RNG.uniform(low, high, 2000)


SPECIAL = np.array([0.0, -0.0, 1.0, 2.0, math.inf, math.nan, 0.5, 1e-30, 1e30, 1e4])
SIGNED = np.concatenate([SPECIAL, [-1.0, -2.5, -1e4]])

# name, SciPy's name, arguments, error in steps of the dtype: relative, or of 1 where the result is smaller ("mixed")
ACCURACY: list[tuple[str, str, tuple[np.ndarray, ...], float, bool]] = [
    ("gammaln", "gammaln", (between(0, 3),), 5, True),
    ("gammaln", "gammaln", (between(3, 40),), 5, False),
    ("gammaln", "gammaln", (log_range(-20, 20),), 5, True),
    ("gammaln", "gammaln", (between(-20, 0),), 12, True),
    ("gammaln", "gammaln", (SIGNED,), 5, True),
    ("digamma", "psi", (between(0, 3),), 12, True),
    ("digamma", "psi", (log_range(-3, 15),), 12, True),
    ("digamma", "psi", (SIGNED,), 12, True),
    ("erfinv", "erfinv", (between(-1, 1),), 6, False),
    ("erfinv", "erfinv", (1 - log_range(-7, 0),), 6, False),
    ("erfinv", "erfinv", (SIGNED,), 6, False),
    ("ndtri", "ndtri", (log_range(-37, 0),), 6, False),
    ("ndtri", "ndtri", (SIGNED,), 6, False),
    ("ndtr", "ndtr", (between(-10, 10),), 3, True),
    ("log_ndtr", "log_ndtr", (between(-40, 8),), 6, True),
    ("log_ndtr", "log_ndtr", (SIGNED,), 6, True),
    ("erfcx", "erfcx", (between(0, 40),), 6, False),
    ("erfcx", "erfcx", (SPECIAL,), 6, False),
    ("i0", "i0", (between(-80, 80),), 12, False),
    ("i0e", "i0e", (between(-80, 80),), 12, False),
    ("i1", "i1", (between(-80, 80),), 16, False),
    ("i1e", "i1e", (between(-80, 80),), 16, False),
    *[(name, name, (SIGNED,), 12, False) for name in ("i0", "i0e", "i1", "i1e", "entr", "ndtr")],
    ("entr", "entr", (between(0, 4),), 4, False),
    ("zeta", "zeta", (between(1.01, 12), between(0.01, 20)), 8, False),
    ("xlog1py", "xlog1py", (between(0, 4), between(-0.99, 4)), 4, False),
]


@needs_scipy
@pytest.mark.parametrize(
    "name, theirs, arguments, steps, mixed", ACCURACY, ids=[f"{i}-{a[0]}" for i, a in enumerate(ACCURACY)]
)
def test_accuracy(name: str, theirs: str, arguments: tuple[np.ndarray, ...], steps: float, mixed: bool) -> None:
    for dtype in ("float64", "float32"):
        rounded = [a.astype(dtype) for a in arguments]
        got = np.array(getattr(special, name)(*[cr.tensor(a) for a in rounded]).tolist())
        with np.errstate(all="ignore"):
            want = getattr(scipy, theirs)(*[a.astype(float) for a in rounded]).astype(dtype).astype(float)
        if name == "gammaln":
            want[rounded[0] == -math.inf] = math.inf
        assert (np.isnan(got) == np.isnan(want)).all(), f"{name} {dtype}: {rounded[0][np.isnan(got) != np.isnan(want)]}"
        finite = np.isfinite(want)
        assert (got[~finite] == want[~finite])[~np.isnan(want[~finite])].all(), f"{name} {dtype}: {got[~finite]}"
        least = 1 if mixed else np.finfo(dtype).tiny
        error = np.abs(got - want)[finite] / np.maximum(np.abs(want[finite]), least) / np.finfo(dtype).eps
        worst = int(np.argmax(error))
        assert error[worst] <= steps, f"{name} {dtype} at {[a[finite][worst] for a in rounded]}: {error[worst]} steps"


GRADIENTS: list[tuple[str, Callable[..., Any], list[list[float]]]] = [
    ("gammaln", special.gammaln, [[0.3, 1.0, 2.0, 5.5, -0.7, -2.4]]),
    ("digamma", special.digamma, [[0.3, 1.0, 2.0, 5.5, -0.7, -2.4]]),
    ("erfinv", special.erfinv, [[-0.8, 0.1, 0.9]]),
    ("ndtri", special.ndtri, [[0.02, 0.4, 0.9]]),
    ("log_ndtr", special.log_ndtr, [[-12.0, -1.0, 0.5, 2.0]]),
    ("erfcx", special.erfcx, [[-1.0, 0.5, 3.0]]),
    ("i0", special.i0, [[-9.0, 0.0, 0.7, 7.0]]),
    ("i0e", special.i0e, [[-9.0, 0.7, 7.0]]),
    ("i1", special.i1, [[-9.0, 0.0, 0.7, 7.0]]),
    ("i1e", special.i1e, [[-9.0, 0.7, 7.0]]),
    ("entr", special.entr, [[0.2, 1.0, 3.0]]),
    ("xlog1py", special.xlog1py, [[0.2, 1.0, 3.0], [-0.5, 0.1, 2.0]]),
    ("polygamma", lambda x: special.polygamma(2, x), [[0.3, 1.0, 5.5]]),
    ("multigammaln", lambda x: special.multigammaln(x, 3), [[1.3, 2.0, 5.5]]),
]


@pytest.mark.parametrize("name, f, at", GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_gradients_of_both_orders(name: str, f: Callable[..., Any], at: list[list[float]]) -> None:
    x = [cr.tensor(a, dtype=cr.float64, requires_grad=True) for a in at]
    assert cr.autograd.gradcheck(f, x)
    assert cr.autograd.gradgradcheck(f, x)


@needs_scipy
def test_polygamma() -> None:
    x = np.array([-3.3, -0.6, 0.05, 0.5, 1.0, 3.7, 40.0])
    for n in range(6):
        got = special.polygamma(n, cr.tensor(x)).tolist()
        assert np.allclose(got, scipy.polygamma(n, x), rtol=1e-13), f"n = {n}: {got}"
    a = cr.tensor(1.7, dtype=cr.float64, requires_grad=True)
    y: Any = cr.lgamma(a)
    for n in range(4):  # derivatives of lgamma of higher orders
        (y,) = cr.autograd.grad(y, [a], create_graph=True)
        assert abs(y.item() - scipy.polygamma(n, 1.7)) < 1e-12 * abs(y.item()), n
    with pytest.raises(RuntimeError, match="negative n"):
        cr.polygamma(-1, a)


@needs_scipy
def test_incomplete_gamma() -> None:
    a, x = log_range(-2, 3)[:, None].repeat(4, 1), RNG.uniform(0.001, 0.999, (2000, 4))
    x = scipy.gammaincinv(a, x)
    a, x = a[x > 1e-200], x[x > 1e-200]
    for name in ("gammainc", "gammaincc"):
        for dtype, tolerance in (("float64", 1e-8), ("float32", 2e-5)):
            b, z = a.astype(dtype), x.astype(dtype)
            keep = z > 1e-37
            b, z = b[keep], z[keep]
            got = np.array(getattr(special, name)(cr.tensor(b), cr.tensor(z)).tolist())
            want = getattr(scipy, name)(b.astype(float), z.astype(float))
            error = np.abs(got - want) / np.maximum(want, 0.05)
            assert error.max() < tolerance, f"{name} {dtype} at {b[error.argmax()]}, {z[error.argmax()]}: {error.max()}"
    edges = [(0.0, 1.0), (1.0, 0.0), (1.0, math.inf), (2.0, math.nan), (1.0, -1.0), (-1.0, 1.0)]
    u, v = (cr.tensor([e[i] for e in edges], dtype=cr.float64) for i in range(2))
    for name in ("gammainc", "gammaincc"):
        got, want = getattr(special, name)(u, v).tolist(), getattr(scipy, name)(*np.array(edges).T)
        assert np.array_equal(got, want, equal_nan=True), f"{name}: {got}, {want}"
    p = [cr.tensor(t, dtype=cr.float64, requires_grad=True) for t in ([0.3, 2.0, 9.0], [0.1, 2.5, 8.0])]
    assert cr.autograd.gradcheck(special.gammainc, p, eps=1e-4, atol=1e-4)
    assert cr.autograd.gradcheck(special.gammaincc, p, eps=1e-4, atol=1e-4)


def test_names() -> None:
    if torch is None:
        pytest.skip("PyTorch is not installed")
    for name in special.__all__:
        assert hasattr(torch.special, name) or name in ("mvlgamma",), name
    with pytest.raises(RuntimeError, match=r"\(p-1\)/2"):
        cr.mvlgamma(cr.tensor([0.5]), 3)


def test_counts() -> None:
    cr.manual_seed(1)
    rates = cr.tensor([0.0, 0.5, 9.0, 50.0]).expand(20000, 4)
    drawn = cr.poisson(rates)
    assert np.allclose(drawn.mean(0).tolist(), [0, 0.5, 9, 50], rtol=0.02) and drawn.dtype is cr.float32
    trials = cr.binomial(cr.full((20000,), 40.0), cr.full((20000,), 0.6))
    assert abs(trials.mean().item() - 24) < 0.1 and abs(trials.var().item() - 9.6) < 0.4
    assert cr.binomial(cr.tensor([3.0, 0.0]), cr.tensor([1.0, 0.5])).tolist() == [3.0, 0.0]
    g = cr.Generator().manual_seed(4)
    first = cr.poisson(rates[:5], generator=g).tolist()
    assert first == cr.poisson(rates[:5], generator=cr.Generator().manual_seed(4)).tolist()
    assert cr.poisson(cr.empty(0)).shape == (0,) and cr.poisson(cr.ones(2, dtype=cr.float16)).dtype is cr.float16
    bad: list[Callable[[], Any]] = [
        lambda: cr.poisson(cr.tensor([-1.0])),
        lambda: cr.binomial(cr.ones(2), cr.tensor([0.5, 1.5])),
        lambda: cr.binomial(cr.ones(2), cr.ones(3)),
    ]
    for call in bad:
        with pytest.raises(RuntimeError):
            call()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_far_neighbours_change_nothing(name: str) -> None:
    """Numbers beyond the range of the vectors' reduction go through libm; those beside them do not."""
    f = getattr(cr, name)
    near = cr.linspace(-9.0, 9.0, 64)
    mixed = cr.stack([near, cr.full((64,), 3e7)], dim=1).reshape(-1)
    assert (f(mixed)[::2] == f(near)).all()
