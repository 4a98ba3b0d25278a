"""``chainrule.special``: PyTorch's ``torch.special`` over the elementwise functions (docs/ops.md has
the formulas), and those that need more than one pass."""

from __future__ import annotations

import math
from typing import Any

from . import _core
from ._core import (
    Tensor,
    digamma,
    entr,
    erf,
    erfc,
    erfcx,
    erfinv,
    exp2,
    expm1,
    i0,
    i0e,
    i1,
    i1e,
    log1p,
    log_ndtr,
    log_softmax,
    logit,
    logsumexp,
    ndtr,
    ndtri,
    round,  # noqa: A004, as PyTorch's
    sigmoid,
    sinc,
    softmax,
    xlog1py,
    xlogy,
    zeta,
)
from ._core import lgamma as gammaln
from .autograd import Function

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]

psi = digamma
expit = sigmoid


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of ``digamma``: (-1)^(n + 1) n! zeta(n + 1, input), below 0 by reflection.
    RuntimeError: n < 0."""
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n: {n}")
    if n == 0:
        return digamma(input)
    x = input if input.is_floating_point() else input.to(_core.get_default_dtype())
    below = x < 0
    sign = (-1) ** (n + 1) * math.factorial(n)
    y = zeta(_core.full_like(x, n + 1), _core.where(below, 1 - x, x)) * sign
    return _core.where(below, (-1) ** n * y - _cotangent(n, _core.where(below, x - x.round(), 0.25)), y)


def _cotangent(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of pi cot(pi x): pi^(n + 1) P(cot(pi x)), P = c at first and then -(1 + c^2) P'."""
    p = [0, 1]
    for _ in range(n):
        slope = [k * p[k] for k in range(1, len(p))]
        p = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    c = 1 / (x * math.pi).tan()
    y = _core.full_like(x, p[-1])  # infinite at the poles
    for factor in reversed(p[:-1]):
        y = y * c + factor
    return y * math.pi ** (n + 1)


def multigammaln(a: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function: p (p - 1) / 4 log(pi) + sum of lgamma(a - i / 2), i < p.
    RuntimeError: an element of a is at most (p - 1) / 2."""
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    if bool((a <= (p - 1) / 2).any()):
        raise RuntimeError(f"mvlgamma: all elements must be greater than (p-1)/2: {(p - 1) / 2}")
    halves = _core.arange(p, dtype=a.dtype if a.is_floating_point() else _core.float32, device=a.device) / 2
    return gammaln(a[..., None] - halves).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


mvlgamma = multigammaln  # torch.mvlgamma


# ---- the incomplete gamma function

# Trapezoid nodes and weights of the double exponential rule for integrals over (0, infinity) of functions that fall
# like exp(-s): s = exp(v - exp(-v)) (Takahasi and Mori 1974).
_STEP = 8.1 / 80
_NODES = [(math.exp(v - math.exp(-v)), 1 + math.exp(-v)) for v in (-3.6 + _STEP * i for i in range(81))]


def gamma_tail(a: Tensor, x: Tensor, moment: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """A tail of the gamma distribution of shape a at x: whether it is the upper one, T, and M.

    With t = x exp(o s), o = 1 for the upper tail (x >= max(a, 1)) and -1 for the lower,
    x T = 1 / f(x) (integral of f(t) over the tail), T = integral of exp(o a s - x (exp(o s) - 1)) ds, s > 0, and
    M is T with the factor log(t) - digamma(a) in the integral (moment; otherwise zeros).  Errors are below 1e-9 of the
    results."""
    upper = (x >= a) & (x >= 1)
    side = _core.where(upper, 1.0, -1.0).to(x.dtype)
    root = x.sqrt()
    scale = 1 / ((x - a).abs() + root)  # how fast the integrand falls
    scale = _core.where(upper | (a >= 1), scale, 1 / a)
    middle = x.log() - digamma(a) if moment else x
    total, first = _core.zeros_like(x), _core.zeros_like(x)
    for s, weight in _NODES:
        t = side * s * scale
        mass = (a * t - x * t.expm1()).exp() * (_STEP * weight * s)
        total = total + mass
        if moment:
            first = first + mass * (middle + t)
    return upper, total * scale, first * scale


def shape_slope(a: Tensor, x: Tensor) -> Tensor:
    """d x / d a of a gamma sample x at a constant value of its distribution function,
    -(dP(a, x) / da) / f(x) (Figurnov et al. 2018): o x M in the words of ``gamma_tail``."""
    upper, _, first = gamma_tail(a, x, moment=True)
    return _core.where(upper, x, -x) * first


def _log_mass(a: Tensor, x: Tensor) -> Tensor:
    """log(x f(x)) = a log(x) - x - lgamma(a); for a >= 10 by Stirling's formula, whose terms do not cancel:
    -a (u - log(1 + u)) + log(a / 2 pi) / 2 - (1 / 12 - ...) / a, u = x / a - 1."""
    b = a.clamp(min=10)
    u, w = (x - b) / b, 1 / (b * b)
    stirling = 0.5 * (b / (2 * math.pi)).log() - b * (u - u.log1p()) - (1 / 12 - w * (1 / 360 - w / 1260)) / b
    return _core.where(a >= 10, stirling, a * x.log() - x - gammaln(a))


class _GammaInc(Function):
    """P(a, x), or 1 - P(a, x) where ``upper`` is set; gradients for both."""

    _pure = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, upper: bool) -> Tensor:
        ctx.save_for_backward(a, x)
        ctx.upper = upper
        inside = (x > 0) & (x < math.inf) & (a > 0)
        b, z = _core.where(inside, a, 1.0).to(x.dtype), _core.where(inside, x, 1.0).to(x.dtype)
        high, tail, _ = gamma_tail(b, z)
        tail = tail * _log_mass(b, z).exp()
        y = _core.where(high == upper, tail, 1 - tail)
        edge = _core.where((x < 0) | (a < 0) | x.isnan() | a.isnan(), math.nan, _core.where((x > 0) != upper, 1.0, 0.0))
        edge = _core.where(a == 0, _core.where(x > 0, float(not upper), math.nan), edge)
        return _core.where(inside, y, edge.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        a, x = ctx.saved_tensors
        dx = grad * (-1 if ctx.upper else 1) * _log_mass(a, x).exp() / x
        return -dx * shape_slope(a, x), dx, None


def _gammainc(a: Tensor, x: Tensor, upper: bool) -> Tensor:
    dtype = _core.result_type(a, x)
    both = _core.broadcast_to(a.to(dtype), (a + x).shape), _core.broadcast_to(x.to(dtype), (a + x).shape)
    y: Tensor = _GammaInc.apply(*both, upper)
    return y


def gammainc(input: Tensor, other: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function P(input, other), the distribution function of Gamma(input, 1);
    with gradients for both, errors below 1e-9."""
    return _gammainc(input, other, False)


def gammaincc(input: Tensor, other: Tensor) -> Tensor:
    """1 - ``gammainc``, exact where that is small."""
    return _gammainc(input, other, True)
