"""Where the coefficients of src/dev/cpu/vmath.h, vmath_f64.h and of the special functions in
src/ops/ops.def come from: minimax fits (Lawson's reweighting of least squares on Chebyshev nodes) of
the remainders named below.  Needs numpy and mpmath; prints C arrays, lowest power first, and each
fit's largest relative error.  Not part of the build.   use: python tools/fit_vmath.py [part of a name]"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

Array = Any  # of np.longdouble
Function = Callable[[Any], Any]  # of an mpf

mp.mp.dps = 40


def nodes(lo: float, hi: float, n: int) -> Array:
    return (lo + hi) / 2 + (hi - lo) / 2 * np.cos(np.pi * (np.arange(n) + 0.5) / n).astype(np.longdouble)


def solve(matrix: Array, rhs: Array) -> Array:
    """Least squares by Householder QR in long double (numpy's own stops at double)."""
    a, b = matrix.copy(), rhs.copy()
    rows, cols = a.shape
    for j in range(cols):
        v = a[j:, j].copy()
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        v /= np.sqrt(v @ v)
        a[j:, j:] -= 2 * np.outer(v, v @ a[j:, j:])
        b[j:] -= 2 * v * (v @ b[j:])
    x = np.zeros(cols, np.longdouble)
    for j in reversed(range(cols)):
        x[j] = (b[j] - a[j, j + 1 :] @ x[j + 1 :]) / a[j, j]
    return x


def minimax(x: Array, y: Array, weight: Array, degree: int) -> Array:
    """Coefficients c of sum c_i x^i that make max |weight (sum - y)| small."""
    scale: Any = np.max(np.abs(x))
    powers = (
        np.stack([(x / scale) ** i for i in range(degree + 1)], 1)
        if degree >= 0
        else np.zeros((len(x), 0), np.longdouble)
    )
    lawson = np.ones(len(x), np.longdouble) / len(x)
    best, best_error = None, np.inf
    for _ in range(60):
        w = np.sqrt(lawson) * weight
        c = solve(powers * w[:, None], y * w)
        error = np.abs(weight * (powers @ c - y))
        if error.max() < best_error:
            best, best_error = c, error.max()
        lawson = lawson * error
        lawson /= lawson.sum()
    return best / scale ** np.arange(degree + 1, dtype=np.longdouble)


def fit(
    name: str,
    remainder: Function,
    lo: float,
    hi: float,
    degree: int,
    weight: Function,
    dtype: Any,
    variable: Function = lambda x: x,
) -> None:
    """remainder(x) ~ polynomial in variable(x); weight(x) turns its error into the relative error of the function."""
    x = nodes(lo, hi, 400)
    value = np.array([np.longdouble(mp.nstr(remainder(mp.mpf(float(v))), 30)) for v in x])
    x = x.astype(np.float64).astype(np.longdouble)
    w = np.array([np.longdouble(mp.nstr(weight(mp.mpf(float(v))), 30)) for v in x])
    u = np.array([np.longdouble(mp.nstr(variable(mp.mpf(float(v))), 30)) for v in x])
    fixed: list[Any] = []
    for i in range(degree + 1):  # round the lowest coefficient, refit the rest, and so on upwards
        rest = value - sum(c * u**k for k, c in enumerate(fixed)) if fixed else value
        c = minimax(u, rest / u**i, w * np.abs(u) ** i, degree - i)
        fixed.append(np.longdouble(dtype(c[0])))
    error: Any = np.max(np.abs(w * (sum(c * u**k for k, c in enumerate(fixed)) - value)))
    suffix = "f" if dtype is np.float32 else ""
    print(f"{name}: {float(error):.2e}")
    print("    " + ", ".join((f"{np.float64(c):.9e}" if suffix else f"{np.float64(c):.17e}") + suffix for c in fixed))


F, D = np.float32, np.float64
mpf, log, exp, sqrt = mp.mpf, mp.log, mp.exp, mp.sqrt


def safe(f: Function, at_zero: Any) -> Function:
    """f with its limit where it is 0 / 0, by evaluating a little aside."""
    return lambda x: f(x) if abs(x) > mpf(10) ** -12 else mpf(at_zero)


def near(b: Any) -> Any:
    """lgamma(b) / ((b - 1)(b - 2))"""
    for zero in (1, 2):
        if abs(b - zero) < mpf(10) ** -12:
            b = zero + mpf(10) ** -12
    return mp.loggamma(b) / ((b - 1) * (b - 2))


def stirling(w: Any) -> Any:
    """a times the remainder of Stirling's formula for lgamma(a), a = 1 / w"""
    a = 1 / w
    if w < 1e-4:
        return mpf(1) / 12 - w * w / 360
    return a * (mp.loggamma(a) - (a - mpf(1) / 2) * log(a) + a - log(2 * mp.pi) / 2)


def scaled_erfc(v: Any) -> Any:
    """erfc(x) exp(x^2) (1 + 2 x), v = (x - 3) / (x + 3)"""
    x = 3 * (1 + v) / (1 - v)
    if x < 50:
        return mp.erfc(x) * exp(x**2) * (1 + 2 * x)
    series = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x**2) ** k for k in range(8))
    return series / x / sqrt(mp.pi) * (1 + 2 * x)


def bessel_small(k: int) -> Function:
    """I0(2 sqrt(y)), or I1(2 sqrt(y)) / sqrt(y)"""
    return lambda y: mp.besseli(k, 2 * sqrt(y)) / sqrt(y) ** k if y > mpf(10) ** -20 else mpf(1)


def bessel_large(k: int) -> Function:
    """exp(-x) sqrt(x) I_k(x), x = 1 / w"""
    m = 4 * k * k

    def f(w: Any) -> Any:
        if w > 1e-5:
            return mp.besseli(k, 1 / w) * exp(-1 / w) / sqrt(w)
        return (1 - (m - 1) * w / 8 + (m - 1) * (m - 9) * w**2 / 128) / sqrt(2 * mp.pi)

    return f


def fit_bessel(n: str, k: int) -> None:
    small, large = bessel_small(k), bessel_large(k)
    fit(n + " to 8", small, 0, 16, 15, lambda y: 1 / small(y), D)
    fit(n + " from 8", large, 1e-9, 0.125, 19, lambda w: 1 / large(w), D, lambda w: 16 * w - 1)


half_ln2 = 0.3467
FITS: dict[str, Callable[[str], None]] = {
    "exp": lambda n: fit(
        n, safe(lambda r: (exp(r) - 1 - r) / r**2, 0.5), -half_ln2, half_ln2, 4, lambda r: r**2 / exp(r), F
    ),
    "exp2": lambda n: fit(n, safe(lambda r: (mpf(2) ** r - 1) / r, log(2)), -0.5, 0.5, 5, lambda r: r / mpf(2) ** r, F),
    "log": lambda n: fit(
        n,
        safe(lambda f: (log(1 + f) - f + f**2 / 2) / f**3, mpf(1) / 3),
        0.70710 - 1,
        1.41422 - 1,
        8,
        lambda f: f**3 / log(1 + f) if f else mpf(0),
        F,
    ),
    "tanh": lambda n: fit(
        n,
        safe(lambda x: (mp.tanh(x) / x - 1) / x**2, -mpf(1) / 3),
        1e-4,
        0.626,
        4,
        lambda x: x**3 / mp.tanh(x),
        F,
        lambda x: x**2,
    ),
    "erf small": lambda n: fit(
        n, lambda x: mp.erf(x) / x - 1, 1e-4, 1.001, 6, lambda x: x / mp.erf(x), F, lambda x: x**2
    ),
    "erf large": lambda n: fit(
        n, lambda x: log(mp.erfc(x)) / log(2) / x, 1.0, 3.95, 5, lambda x: x * log(2) * mp.erfc(x) / mp.erf(x), F
    ),
    "short exp2": lambda n: fit(
        n, safe(lambda r: (mpf(2) ** r - 1) / r, log(2)), -0.5, 0.5, 4, lambda r: r / mpf(2) ** r, F
    ),
    "sin": lambda n: fit(
        n, lambda x: (mp.sin(x) / x - 1) / x**2, 1e-4, 0.7855, 2, lambda x: x**3 / mp.sin(x), F, lambda x: x**2
    ),
    "cos": lambda n: fit(
        n, lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4, 1e-3, 0.7855, 2, lambda x: x**4 / mp.cos(x), F, lambda x: x**2
    ),
    "double exp": lambda n: fit(
        n, safe(lambda r: (exp(r) - 1 - r) / r**2, 0.5), -half_ln2, half_ln2, 7, lambda r: r**2 / exp(r), D
    ),
    "double log": lambda n: fit(
        n,
        lambda s: (log((1 + s) / (1 - s)) / s - 2) / s**2,
        1e-4,
        0.17158,
        4,
        lambda s: s**3 / log((1 + s) / (1 - s)),
        D,
        lambda s: s**2,
    ),
    "full exp": lambda n: fit(
        n, safe(lambda r: (exp(r) - 1 - r) / r**2, 0.5), -half_ln2, half_ln2, 9, lambda r: r**2 / exp(r), D
    ),
    "full log": lambda n: fit(
        n,
        lambda s: (log((1 + s) / (1 - s)) / s - 2) / s**2,
        1e-4,
        0.17158,
        6,
        lambda s: s**3 / log((1 + s) / (1 - s)),
        D,
        lambda s: s**2,
    ),
    "double atan": lambda n: fit(
        n, lambda x: (mp.atan(x) / x - 1) / x**2, 1e-4, 0.41422, 6, lambda x: x**3 / mp.atan(x), D, lambda x: x**2
    ),
    "double sin": lambda n: fit(
        n, lambda x: (mp.sin(x) / x - 1) / x**2, 1e-4, 0.7855, 4, lambda x: x**3 / mp.sin(x), D, lambda x: x**2
    ),
    "double cos": lambda n: fit(
        n, lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4, 1e-3, 0.7855, 3, lambda x: x**4 / mp.cos(x), D, lambda x: x**2
    ),
    "double erfc": lambda n: fit(
        n,
        lambda x: mp.erfc(x) * exp(x**2) * (1 + 2 * x),
        0,
        10.2,
        13,
        lambda x: 1 / (mp.erfc(x) * exp(x**2) * (1 + 2 * x)),
        D,
        lambda x: (x - 3) / (x + 3),
    ),
    "lgamma near 1 and 2": lambda n: fit(n, near, 1, 2.5, 15, lambda b: 1 / near(b), D, lambda b: (b - 1.58) / (b + 1)),
    "lgamma from 2.5": lambda n: fit(n, stirling, 1e-9, 0.4, 11, lambda w: w, D, lambda w: w * w),
    "erfcx": lambda n: fit(n, scaled_erfc, -1 + 1e-12, 1 - 1e-9, 22, lambda v: 1 / scaled_erfc(v), D),
    "bessel i0": lambda n: fit_bessel(n, 0),
    "bessel i1": lambda n: fit_bessel(n, 1),
}

if __name__ == "__main__":
    for name, run in FITS.items():
        if len(sys.argv) < 2 or sys.argv[1] in name:
            run(name)
