"""Samplers that reject: vectorised, on the default generator, on any device.  A round draws for all
elements that are still open; the same seed gives the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Generator, Tensor
from .._dtypes import finfo
from ..autograd import Function, no_grad
from ..special import shape_slope

Try = Callable[..., tuple[Tensor, Tensor]]  # parameters of the open elements -> candidates, which of them are taken


def _uniform(like: Tensor, generator: Generator | None) -> Tensor:
    return _core.rand(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def _normal(like: Tensor, generator: Generator | None) -> Tensor:
    return _core.randn(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def _reject(attempt: Try, *parameters: Tensor) -> Tensor:
    """Fills a flat tensor by rounds of attempt, each over the elements that no round before has filled."""
    value, taken = attempt(*parameters)
    open_ = (~taken).nonzero().flatten()
    while open_.numel():
        fresh, taken = attempt(*(p[open_] for p in parameters))
        value[open_] = fresh
        open_ = open_[(~taken).nonzero().flatten()]
    return value


def _log_gamma(shape: Tensor, generator: Generator | None = None) -> Tensor:
    """Logarithms of gamma samples of a flat tensor of shapes (Marsaglia and Tsang 2000): d v for d = a - 1/3,
    v = (1 + z / sqrt(9 d))^3, z normal.  Shapes below 1 are those of a + 1 times u^(1 / a)."""

    def attempt(d: Tensor) -> tuple[Tensor, Tensor]:
        z, u = _normal(d, generator), _uniform(d, generator)
        root = 1 + z / (3 * d.sqrt())
        v = root * root * root
        logv = _core.where(root > 0, v, 1.0).to(d.dtype).log()
        return d.log() + logv, (root > 0) & ((1 - u).log() < z * z / 2 + d - d * v + d * logv)

    small = shape < 1
    y = _reject(attempt, _core.where(small, shape + 1, shape) - 1 / 3)
    u = 1 - _uniform(y, generator)
    return _core.where(small, y + u.log() / shape, y)


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is _core.float64 else x.to(_core.float32)


class _StandardGamma(Function):
    """Gamma samples of rate 1, or their logarithms; the gradient moves a sample along its distribution function."""

    _pure = True

    @staticmethod
    def forward(ctx: Any, shape: Tensor, log: bool, generator: Generator | None) -> Tensor:
        wide = _wide(shape)
        y = _log_gamma(wide.reshape(-1), generator).reshape(shape.shape)
        least = finfo(wide.dtype).tiny
        ctx.save_for_backward(wide, y.exp().clamp(min=least))
        ctx.log = log
        return (y if log else y.exp()).to(shape.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        shape, x = ctx.saved_tensors
        slope = shape_slope(shape, x)
        return (grad * (slope / x if ctx.log else slope)).to(grad.dtype), None, None


def standard_gamma(shape: Tensor, log: bool = False, generator: Generator | None = None) -> Tensor:
    """Samples of Gamma(shape, 1), or their logarithms, with implicit reparameterisation gradients
    d x / d a = -(dP(a, x) / da) / f(x) (Figurnov et al. 2018; ``chainrule.special.shape_slope``)."""
    y: Tensor = _StandardGamma.apply(shape, log, generator)
    return y


def _hat(tail: Tensor, generator: Generator | None, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The candidate of transformed rejection: floor((2 a / us + b) u + shift), us and v."""
    u = _uniform(scale, generator) - 0.5
    v = 1 - _uniform(scale, generator)
    us = (0.5 - u.abs()).clamp(min=finfo(scale.dtype).eps / 4)
    return ((2 * tail / us + scale) * u + shift).floor(), us, v


def _large_poisson(rate: Tensor, generator: Generator | None) -> Tensor:
    """Transformed rejection with squeeze for rates from 10 (Hoermann 1993, algorithm PTRS)."""

    def attempt(m: Tensor) -> tuple[Tensor, Tensor]:
        b = 0.931 + 2.53 * m.sqrt()
        a = -0.059 + 0.02483 * b
        k, us, v = _hat(a, generator, b, m + 0.43)
        quick = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        good = (k >= 0) & ~((us < 0.013) & (v > us))
        n = k.clamp(min=0)
        log_hat = (v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b)).log()
        return k, quick | (good & (log_hat <= n * m.log() - m - _core.lgamma(n + 1)))

    return _reject(attempt, rate)


def _steps(first: Tensor, ratio: Callable[[int], Tensor], generator: Generator | None) -> Tensor:
    """Inversion for counts whose chances are first, then each ratio(k) times the one before."""
    u = _uniform(first, generator)
    k, chance, below = _core.zeros_like(first), first, first
    least = finfo(first.dtype).eps / 100  # rounding may leave the sum below u: smaller chances do not count
    for i in range(1, 120):
        more = (u >= below) & (chance > least)
        if not bool(more.any()):
            break
        k = k + more.to(k.dtype)
        chance = chance * ratio(i)
        below = below + chance
    return k


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the rates ``input``, of its shape and dtype.  RuntimeError: a rate that is negative or NaN."""
    if bool((~(input >= 0)).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    with no_grad():
        rate = _wide(input).reshape(-1)
        large = rate >= 10
        y = _core.zeros_like(rate)
        for part, draw in ((large, _large_poisson), (~large, _small_poisson)):
            at = part.nonzero().flatten()
            if at.numel():
                y[at] = draw(rate[at], generator)
        return y.reshape(input.shape).to(input.dtype)


def _small_poisson(rate: Tensor, generator: Generator | None) -> Tensor:
    return _steps((-rate).exp(), lambda k: rate / k, generator)


def _large_binomial(n: Tensor, p: Tensor, generator: Generator | None) -> Tensor:
    """Transformed rejection for n p from 10, p at most 1/2 (Hoermann 1993, algorithm BTRS)."""

    def attempt(n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        spread = (n * p * (1 - p)).sqrt()
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        middle = n * p + 0.5
        k, us, v = _hat(a, generator, b, middle)
        quick = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        good = (k >= 0) & (k <= n)
        m, j = ((n + 1) * p).floor(), k.clamp(min=0).minimum(n)
        log_hat = (v * (2.83 + 5.1 / b) * spread / (a / (us * us) + b)).log()
        lg = _core.lgamma
        bound = (j - m) * (p / (1 - p)).log() + lg(m + 1) + lg(n - m + 1) - lg(j + 1) - lg(n - j + 1)
        return k, good & (quick | (log_hat <= bound))

    return _reject(attempt, n, p)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Binomial numbers: successes in ``count`` trials of chance ``prob``, of the shape and dtype of count.
    RuntimeError: shapes differ, or a chance outside of [0, 1]."""
    if bool((~((prob >= 0) & (prob <= 1))).any()):
        raise RuntimeError("binomial: expected 0 <= prob <= 1")
    if count.shape != prob.shape:
        raise RuntimeError(f"binomial: count {tuple(count.shape)} and prob {tuple(prob.shape)} must have one shape")
    with no_grad():
        n, p = _wide(count).reshape(-1), _wide(prob).reshape(-1)
        n, p = (n.to(p.dtype), p) if p.dtype is _core.float64 else (n, p.to(n.dtype))
        less = _core.minimum(p, 1 - p)
        large = n * less >= 10
        y = _core.zeros_like(n)
        at = large.nonzero().flatten()
        if at.numel():
            y[at] = _large_binomial(n[at], less[at], generator)
        at = (~large).nonzero().flatten()
        if at.numel():
            m, q = n[at], less[at]
            odds = q / (1 - q)
            y[at] = _steps(
                (m * (-q).log1p()).exp(), lambda k: odds * ((m - (k - 1)) / k).clamp(min=0), generator
            ).minimum(m)
        y = _core.where(p > 0.5, n - y, y)
        return y.reshape(count.shape).to(count.dtype)


def uniform_open(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers in the open interval (0, 1)."""
    u = _core.rand(shape, dtype=like.dtype, device=like.device)
    return u.clamp(min=finfo(like.dtype).tiny, max=1 - finfo(like.dtype).eps / 2)


LOG_2PI = math.log(2 * math.pi)
EULER = 0.57721566490153286060
