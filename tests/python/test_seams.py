"""Values and derivatives to the third order beside mpmath: at 0 and near it, at the joints of piecewise fits, in the
tails.  The reference differences the function at high precision, with steps far below the distance to any seam."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import chainrule as cr
import pytest
from conftest import FULL

m: Any = pytest.importorskip("mpmath", reason="mpmath is not installed (tools/requirements-test.txt)")
F = cr.nn.functional
Real = Any  # of mpmath
Function = Callable[..., Real]

# order -> (multiples of the step, weights, divisor in powers of the step)
STENCIL = {
    0: ([(0, 1)], 1, 0),
    1: ([(-1, -1), (1, 1)], 2, 1),
    2: ([(-1, 1), (0, -2), (1, 1)], 1, 2),
    3: ([(-2, -1), (-1, 2), (1, -2), (2, 1)], 2, 3),
}
FROM_RESULT = {"tanh", "sigmoid"}  # in f32 their gradients read the result, whose rounding they inherit (ops.def, fast)
LIMITS = {cr.float64: (2.0**-1022, 1.7e308, 3e-8), cr.float32: (2.0**-126, 3.4e38, 1e-3)}  # smallest, largest, error


@cache
def derivative(f: Function, x: float, order: int) -> Real:
    terms, divisor, power = STENCIL[order]
    with m.workdps(digits(x, order)):
        h = (abs(m.mpf(x)) if x else 1) * m.mpf(10) ** -20
        return sum(k * f(x + i * h) for i, k in terms) / (divisor * h**power)


def digits(x: float, order: int) -> int:
    """Enough for what the differences cancel, and for an exp(-x) or exp(-x^2) beside 1."""
    size = abs(x)
    return int(
        60
        + 25 * order
        + (order + 1) * (abs(math.log10(size)) if size else 0)
        + (size * size if size <= 38 else min(size, 400))
    )


def sigmoid(x: Real) -> Real:
    return 1 / (1 + m.exp(-x))


def normal(x: Real) -> Real:
    return m.erfc(-x / m.sqrt(2)) / 2


ANY, POSITIVE, INSIDE, ABOVE_1 = (-math.inf, math.inf), (0.0, math.inf), (-1.0, 1.0), (1.0, math.inf)
# name -> function here, in mpmath, domain (open), farthest |x|
UNARY: dict[str, tuple[Any, Function, tuple[float, float], float]] = {
    "reciprocal": (cr.reciprocal, lambda x: 1 / x, POSITIVE, 1e20),
    "sqrt": (cr.sqrt, lambda x: m.sqrt(x), POSITIVE, 1e20),
    "rsqrt": (cr.rsqrt, lambda x: 1 / m.sqrt(x), POSITIVE, 1e20),
    "exp": (cr.exp, lambda x: m.exp(x), ANY, 800),
    "exp2": (cr.exp2, lambda x: m.mpf(2) ** x, ANY, 1100),
    "expm1": (cr.expm1, lambda x: m.expm1(x), ANY, 800),
    "log": (cr.log, lambda x: m.log(x), POSITIVE, 1e20),
    "log1p": (cr.log1p, lambda x: m.log1p(x), (-1.0, math.inf), 1e20),
    "logit": (cr.logit, lambda x: m.log(x / (1 - x)), (0.0, 1.0), 1),
    "sin": (cr.sin, lambda x: m.sin(x), ANY, 10),
    "tan": (cr.tan, lambda x: m.tan(x), ANY, 1.2),
    "asin": (cr.asin, lambda x: m.asin(x), INSIDE, 1),
    "acos": (cr.acos, lambda x: m.acos(x), INSIDE, 1),
    "atan": (cr.atan, lambda x: m.atan(x), ANY, 1e4),
    "sinh": (cr.sinh, lambda x: m.sinh(x), ANY, 800),
    "cosh": (cr.cosh, lambda x: m.cosh(x), ANY, 800),
    "tanh": (cr.tanh, lambda x: m.tanh(x), ANY, 800),
    "asinh": (cr.asinh, lambda x: m.asinh(x), ANY, 1e30),
    "acosh": (cr.acosh, lambda x: m.acosh(x), ABOVE_1, 1e30),
    "atanh": (cr.atanh, lambda x: m.atanh(x), INSIDE, 1),
    "sinc": (cr.sinc, lambda x: m.sinc(m.pi * x), ANY, 10),
    "erf": (cr.erf, lambda x: m.erf(x), ANY, 30),
    "erfc": (cr.erfc, lambda x: m.erfc(x), ANY, 30),
    "erfinv": (cr.erfinv, lambda x: m.erfinv(x), INSIDE, 0.9),
    "erfcx": (cr.special.erfcx, lambda x: m.exp(x * x) * m.erfc(x), ANY, 40),
    "ndtr": (cr.special.ndtr, normal, ANY, 40),
    "log_ndtr": (cr.special.log_ndtr, lambda x: m.log(normal(x)) if x < 0 else m.log1p(-normal(-x)), ANY, 40),
    "entr": (cr.special.entr, lambda x: -x * m.log(x), POSITIVE, 1e20),
    "i0": (cr.special.i0, lambda x: m.besseli(0, x), ANY, 700),
    "i1": (cr.special.i1, lambda x: m.besseli(1, x), ANY, 700),
    "i0e": (cr.special.i0e, lambda x: m.besseli(0, x) * m.exp(-abs(x)), POSITIVE, 700),
    "i1e": (cr.special.i1e, lambda x: m.besseli(1, x) * m.exp(-abs(x)), POSITIVE, 700),
    "sigmoid": (cr.sigmoid, sigmoid, ANY, 700),
    "softplus": (lambda x: F.softplus(x, threshold=1e4), lambda x: m.log1p(m.exp(x)), ANY, 700),
    "logsigmoid": (F.logsigmoid, lambda x: -m.log1p(m.exp(-x)), ANY, 700),
    "silu": (F.silu, lambda x: x * sigmoid(x), ANY, 700),
    "mish": (F.mish, lambda x: x * m.tanh(m.log1p(m.exp(x))), ANY, 100),
    "gelu": (F.gelu, lambda x: x * normal(x), ANY, 30),
    "gelu_tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x * sigmoid(2 * m.sqrt(2 / m.pi) * (x + m.mpf("0.044715") * x**3)),
        ANY,
        12,
    ),
    "elu": (F.elu, lambda x: x if x > 0 else m.expm1(x), ANY, 700),
    "selu": (
        F.selu,
        lambda x: m.mpf(1.0507009873554805) * (x if x > 0 else m.mpf(1.6732632423543772) * m.expm1(x)),
        ANY,
        700,
    ),
}
KINK = {"elu", "selu"}  # a derivative jumps at 0
SLOW = {"i0", "i1", "i0e", "i1e", "erfcx", "log_ndtr", "ndtr"}  # at a thousand digits
TINY = [1e-300, 1e-30, 1e-8, 1e-3]
NEAR = [0.1, 0.3, 0.70710678, 0.99, 1 - 1e-6, 1.0, 1 + 1e-6, 1.2, 1.7, 2 / math.pi, 2.0, 2.6, 3.7]
FAR = [7.0, 8 - 1e-6, 8.0, 8 + 1e-6, 9.0, 15.9, 20.0, 40.0, 88.0, 89.0, 100.0, 700.0, 710.0, 1e4, 1e8, 1e9, 1e20, 1e30]
MORE = [
    1e-200,
    1e-100,
    1e-16,
    1e-6,
    1e-40,
    1e-20,
    1e-12,
    1e-10,
    1e-7,
    1e-5,
    1e-4,
    0.01,
    0.03,
    0.42,
    0.425,
    0.6,
    0.75,
    0.9,
    1.41,
    1.5,
]
MORE += [2.2, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 10.3, 12.0, 16.0, 17.0, 25.0, 30.0, 37.0, 50.0, 80.0, 300.0, 500.0]
POINTS = [0.0, *TINY, *NEAR, *FAR, *(MORE if FULL else [])]


def orders(f: Any, *inputs: Any, wrt: Any) -> list[list[float]]:
    """f and its three derivatives at each point."""
    y = f(*inputs)
    found = [y.tolist()]
    for _ in range(3):
        if y.requires_grad:
            (y,) = cr.autograd.grad(y.sum(), wrt, create_graph=True)
        else:
            y = cr.zeros_like(wrt)
        found.append(y.tolist())
    return found


def verify(where: str, got: list[float], want: list[Real], x: float, dtype: Any, beside: float = 0.0) -> None:
    """Relative errors, but near a zero of the derivative; `beside` is allowed too, of derivatives."""
    least, most, error = LIMITS[dtype]
    for order in range(4):
        w = want[order]
        if abs(w) > most or not math.isfinite(got[0]):
            return  # beyond the dtype: and so are the higher orders
        slack = abs(x * want[order + 1]) if order < 3 else max(map(abs, want)) if 0.5 < abs(x) < 3 else 0
        allowed = error * abs(w) + error * 1e-4 * slack + 16 * least + (beside if order else 0)
        assert abs(m.mpf(got[order]) - w) <= allowed, f"{where}, derivative {order} at {x!r}: {got[order]!r}, not {w}"


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: Any) -> None:
    f, truth, (low, high), far = UNARY[name]
    least = LIMITS[dtype][0]
    far = far if FULL else min(far, 100)
    points = [p for p in POINTS if FULL or name not in SLOW or p != 1e-300]
    wanted = [
        s * p for p in points for s in (1, -1) if low < s * p < high and abs(p) <= far and (p or name not in KINK)
    ]
    if high == 1.0:
        wanted += [1 - 1e-6, 1 - 1e-9]
    x = cr.tensor(wanted, dtype=cr.float32 if max(wanted) > 1 else dtype).to(dtype)  # the references are shared
    x = x[(x.abs() >= least) | (x == 0) & (name not in KINK)]
    x = x[(x > low) & (x < high)].requires_grad_()
    for at, *got in zip(x.tolist(), *orders(f, x, wrt=x), strict=True):
        want = []
        for order in range(4):
            if at == 0 and name == "sinc":
                want.append([m.mpf(1), m.mpf(0), -(m.pi**2) / 3, m.mpf(0)][order])
                continue
            value = derivative(truth, at, order)
            want.append(m.mpf(0) if at == 0 and abs(value) < 1e-15 else value)
        if name in KINK and at > 0:
            want[2] = want[3] = m.mpf(0)
        if name in ("gelu", "gelu_tanh") and at < -3:
            got[0] = float(want[0])  # as PyTorch's: 1 + erf(x) cancels
        verify(f"{name} in {dtype}", got, want, at, dtype, 1e-6 if name in FROM_RESULT and dtype == cr.float32 else 0.0)


# lgamma, digamma and zeta have their derivatives in mpmath
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("shift, f", [(0, cr.lgamma), (1, cr.digamma)], ids=["lgamma", "digamma"])
def test_gamma(shift: int, f: Any, dtype: Any) -> None:
    points = [1e-3, 0.1, 0.5, 0.999, 1.0, 1.25, 1.5, 1.9, 2.0, 2.5, 3.0, 8.0, 1e4, 1e10]
    points += [-1e-3, -0.1, -0.5, -1.25, -1.5, -2.5, -7.5]
    if dtype == cr.float64:
        points += [1e-30, 1e-10, 1e17, 1e30, 1e100]
    x = cr.tensor(points, dtype=dtype, requires_grad=True)
    for at, *got in zip(x.tolist(), *orders(f, x, wrt=x), strict=True):
        with m.workdps(60):
            z = m.mpf(at)
            values = [m.log(abs(m.gamma(z))) if at < 1e3 else m.loggamma(z)] + [m.psi(n, z) for n in range(4)]
        if shift == 0 and at in (1.0, 2.0):
            values[0] = m.mpf(0)
        verify(f"{f.__name__} in {dtype}", got, values[shift : shift + 4], at, dtype)


# Along a direction (u, v) from (a, b), at points where arguments meet, vanish, or leave the range of a square.
PAIRS = [(0.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (1.0, 3.0), (3.0, 1.0), (2.0, 1e-3), (1e-3, 2.0), (5.0, 0.5)]
BINARY: dict[str, tuple[Any, Function, list[tuple[float, float]]]] = {
    "atan2": (cr.atan2, lambda a, b: m.atan2(a, b), [*PAIRS, (1e-25, 1e-25), (0.0, 1e-10), (1e-8, 1e-8), (1e8, 2e8)]),
    "hypot": (cr.hypot, lambda a, b: m.sqrt(a * a + b * b), [*PAIRS[1:5], (1e8, 2e8), (1e-8, 3e-8)]),
    "logaddexp": (cr.logaddexp, lambda a, b: m.log(m.exp(a) + m.exp(b)), [*PAIRS, (20.0, -20.0), (50.0, -30.0)]),
    "xlogy": (cr.xlogy, lambda a, b: a * m.log(b), PAIRS),
    "xlog1py": (cr.special.xlog1py, lambda a, b: a * m.log1p(b), PAIRS),
    "pow": (cr.pow, lambda a, b: a**b, [*PAIRS[1:], (0.1, 0.0), (2.0, 0.0), (1.0, 0.0), (3.0, 1.0), (2.0, 2.0)]),
}
UNIT = {"atan2", "hypot"}  # homogeneous: distances scale with the point


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: Any) -> None:
    f, truth, pairs = BINARY[name]
    for u, v in ((1, 0), (0, 1), (1, 2)):
        a, b = (cr.tensor(side, dtype=dtype) for side in zip(*pairs, strict=True))
        t = cr.zeros(len(pairs), dtype=dtype, requires_grad=True)
        found = orders(lambda t, a=a, b=b, u=u, v=v: f(a + u * t, b + v * t) if u else f(a, b + v * t), t, wrt=t)
        for p, q, *got in zip(a.tolist(), b.tolist(), *found, strict=True):
            if name == "pow" and p <= 0:
                continue
            scale = max(abs(p), abs(q)) if name in UNIT else 1.0
            small = min([abs(z) for z in (p, q) if z] + [scale])
            want = []
            for order in range(4):
                with m.workdps(int(300 + 20 * abs(math.log10(small)))):
                    h = m.mpf(small) * m.mpf(10) ** -40
                    terms, divisor, power = STENCIL[order]
                    at = [k * truth(m.mpf(p) + u * i * h, m.mpf(q) + v * i * h) for i, k in terms]
                    value = sum(at) / (divisor * h**power)
                    gone = abs(value) * m.mpf(small) ** order < m.mpf(10) ** -35 * abs(at[0])
                    want.append(m.mpf(0) if gone else value)
            size = max(abs(w) * m.mpf(scale) ** k for k, w in enumerate(want))
            for order in range(4):
                if abs(want[order]) > LIMITS[dtype][1]:
                    break
                slack = (size if name == "hypot" else size * 1e-6) / m.mpf(scale) ** order
                allowed = LIMITS[dtype][2] * (abs(want[order]) + slack)
                assert abs(m.mpf(got[order]) - want[order]) <= allowed, (
                    f"{name} in {dtype}, derivative {order} at ({p}, {q}) along ({u}, {v}): {got[order]}, "
                    f"not {want[order]}"
                )


def test_limits() -> None:
    """At infinities, derivatives of what has an asymptote are 0 (or those of the asymptote), not inf * 0."""
    for f, left, right in (
        (cr.tanh, 0, 0), (cr.sigmoid, 0, 0), (F.softplus, 0, 1), (F.logsigmoid, 1, 0), (cr.asinh, 0, 0),
        (cr.special.i0e, 0, 0), (cr.special.i1e, 0, 0), (F.elu, 0, 1), (lambda x: F.gelu(x, approximate="tanh"), 0, 1),
    ):  # fmt: skip
        x = cr.tensor([-math.inf, math.inf, math.nan], dtype=cr.float64, requires_grad=True)
        _, first, second, third = orders(f, x, wrt=x)
        assert first[:2] == [left, right], f
        assert second[:2] == third[:2] == [0, 0], f
    for f in (cr.tanh, cr.sigmoid, cr.sinc, cr.lgamma, cr.special.i0, cr.special.erfcx, F.mish, F.silu):
        x = cr.tensor([math.nan], requires_grad=True)
        assert all(math.isnan(v) for found in orders(f, x, wrt=x) for v in found), f
