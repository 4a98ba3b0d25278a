"""Kullback-Leibler divergences: the integral of p log(p / q), by formulas for pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core
from .._core import Tensor
from ..special import mvlgamma
from ._linalg import log_det_half, solve_lower, solve_lower_vector
from ._sampling import EULER, LOG_2PI
from .continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Pareto,
    Uniform,
)
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    ContinuousBernoulli,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from .distribution import Distribution, sum_last
from .gamma import Beta, Dirichlet, Gamma
from .matrix import Wishart, mvdigamma
from .multivariate import LowRankMultivariateNormal, MultivariateNormal
from .transformed import Independent, TransformedDistribution

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]
F = TypeVar("F", bound=Formula)
_FORMULAS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """A decorator: the function is the divergence of a type_p from a type_q, and of their subclasses."""
    for name, t in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(t, type) or not issubclass(t, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {t}")

    def register(f: F) -> F:
        _FORMULAS[type_p, type_q] = f
        return f

    return register


def _formula(p: type, q: type) -> Formula | None:
    """Of the nearest superclasses, those of p first."""
    pairs = [(i, j) for i in p.__mro__ for j in q.__mro__ if (i, j) in _FORMULAS]
    return _FORMULAS[pairs[0]] if pairs else None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean of log p(x) - log q(x) for x from p, of the broadcast batch shape.  NotImplementedError: no
    formula is registered for the two classes."""
    f = _formula(type(p), type(q))
    if f is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return f(p, q)


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    """p has mass where q has none."""
    like = p.mean + q.mean
    return _core.full_like(like, math.inf)


def _xlogx(x: Tensor) -> Tensor:
    return _core.xlogy(x, x)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    a, b = p.probs, q.probs
    one = _core.where(a == 0, 0.0, a * (_core.logsigmoid(p.logits) - _core.logsigmoid(q.logits)))
    zero = _core.where(a == 1, 0.0, (1 - a) * (_core.logsigmoid(-p.logits) - _core.logsigmoid(-q.logits)))
    impossible = ((b == 0) & (a > 0)) | ((b == 1) & (a < 1))
    return _core.where(impossible, math.inf, one + zero)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _core.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = _core.where((q.probs == 0) & (p.probs > 0), math.inf, t)
    return _core.where((p.probs == 0) & (q.probs == q.probs), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return p.mean * (p.logits - q.logits) + p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    logs = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return logs + ((a - b) * (a.digamma() - total.digamma()[..., None])).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio, b = q.rate / p.rate, q.concentration
    return -b * ratio.log() + ratio + b.lgamma() + b * EULER - (1 + EULER)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio, shift = (p.scale / q.scale) ** 2, ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, a, b = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    shift = (a - b + (ratio + 1).lgamma()).exp()
    return -ratio.log() - a + b + ratio * EULER + shift - (1 + EULER)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio, scale = q.alpha / p.alpha, p.scale / q.scale
    kl = q.alpha * scale.log() - ratio.log() + ratio - 1
    return _core.where(p.scale < q.scale, math.inf, kl)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return _core.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    spread = width**2 / 12 + ((p.high + p.low - 2 * q.loc) / 2) ** 2
    return 0.5 * LOG_2PI + (q.scale / width).log() + 0.5 * spread / q.scale**2


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    kl = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return _core.where(p.low < 0, math.inf, kl)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return width.log() + 0.5 * (high + low) - width * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    a, width = q.concentration, p.high - p.low
    mean_log = (_xlogx(p.high) - _xlogx(p.low.clamp(min=0))) / width - 1
    kl = -width.log() - a * q.rate.log() + a.lgamma() - (a - 1) * mean_log + q.rate * (p.high + p.low) / 2
    return _core.where(p.low < 0, math.inf, kl)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b, width = q.concentration1, q.concentration0, p.high - p.low
    low, high = p.low.clamp(0, 1), p.high.clamp(0, 1)
    log_x = (_xlogx(high) - _xlogx(low)) / width - 1
    log_1x = (_xlogx(1 - low) - _xlogx(1 - high)) / width - 1
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    kl = -width.log() - (a - 1) * log_x - (b - 1) * log_1x + norm
    return _core.where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    kl = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()
    return _core.where((p.high >= 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    kl = (_xlogx(p.high) - _xlogx(p.low.clamp(min=0)) - width) / width * (q.alpha + 1) - (
        q.alpha * q.scale**q.alpha * width
    ).log()
    return _core.where(p.low < q.scale, math.inf, kl)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    rate, shift = p.rate * q.scale, q.loc / q.scale
    return rate.log() - 1 + shift.exp() * rate / (rate + 1) - shift + rate.reciprocal()


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Tensor:
    variance, square = q.scale**2, p.rate**2
    return 0.5 * (square * variance * 2 * math.pi).log() - 1 + (1 / square - q.loc / p.rate + q.loc**2 / 2) / variance


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    a, beta = p.concentration, p.rate * q.scale
    shift = q.loc / q.scale
    return (
        (a - 1) * a.digamma()
        - a.lgamma()
        - a
        + beta.log()
        + a / beta
        + shift.exp() * (1 + beta.reciprocal()) ** -a
        - shift
    )


@register_kl(Gamma, Normal)
def _gamma_normal(p: Gamma, q: Normal) -> Tensor:
    a, variance, square = p.concentration, q.scale**2, p.rate**2
    return (
        0.5 * (square * variance * 2 * math.pi).log()
        - a
        - a.lgamma()
        + (a - 1) * a.digamma()
        + (0.5 * (a * a + a) / square - q.loc * a / p.rate + 0.5 * q.loc**2) / variance
    )


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return (
        -p.entropy()
        - q.concentration * q.rate.log()
        + q.concentration.lgamma()
        - (q.concentration - 1) * log_mean
        + q.rate * p.mean
    )


@register_kl(Beta, Exponential)
def _beta_exponential(p: Beta, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Normal)
def _beta_normal(p: Beta, q: Normal) -> Tensor:
    return -p.entropy() + _normal_cross(p.mean, p.variance, q)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()


def _normal_cross(mean: Tensor, variance: Tensor, q: Normal) -> Tensor:
    """The mean of -log q(x) over an x of this mean and variance"""
    return 0.5 * LOG_2PI + q.scale.log() + 0.5 * (variance + (mean - q.loc) ** 2) / q.scale**2


@register_kl(ContinuousBernoulli, Normal)
def _continuous_bernoulli_normal(p: ContinuousBernoulli, q: Normal) -> Tensor:
    return -p.entropy() + _normal_cross(p.mean, p.variance, q)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Gumbel, Normal)
def _gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    return -p.entropy() + _normal_cross(p.mean, p.variance, q)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    return -p.entropy() + _normal_cross(p.mean, p.variance, q)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    shift, ratio = (p.loc - q.loc) / q.scale, (p.scale / q.scale) ** 2
    return -p.entropy() + shift + (-shift + 0.5 * ratio).exp() + q.scale.log()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    shift = p.loc - q.loc
    z = shift / p.scale
    apart = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z * z).exp() + shift * (z * math.sqrt(0.5)).erf()
    return -p.entropy() + (2 * q.scale).log() + apart / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    kl = (p.alpha / (p.scale * q.rate)).log() - p.alpha.reciprocal() - 1 + p.alpha * p.scale * q.rate / (p.alpha - 1)
    return _core.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    a = q.concentration
    log_mean = p.scale.log() + p.alpha.reciprocal()
    kl = -p.entropy() - a * q.rate.log() + a.lgamma() + (1 - a) * log_mean + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return _core.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    kl = -p.entropy() + _normal_cross(p.mean, p.variance, q)
    return _core.where(p.alpha <= 2, math.inf, kl)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


for _pair in (
    *[(Beta, q) for q in (Pareto, Uniform)],
    *[(ContinuousBernoulli, q) for q in (Pareto, Uniform)],
    *[(Exponential, q) for q in (Beta, ContinuousBernoulli, Pareto, Uniform)],
    *[(Gamma, q) for q in (Beta, ContinuousBernoulli, Pareto, Uniform)],
    *[(Gumbel, q) for q in (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)],
    *[(Laplace, q) for q in (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)],
    *[(Normal, q) for q in (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)],
    *[(Pareto, q) for q in (Beta, ContinuousBernoulli, Uniform)],
    *[(Poisson, q) for q in (Bernoulli, Binomial)],
):
    register_kl(*_pair)(_infinite)


def _gaussian_kl(p: Any, q: Any, lower_p: Tensor, lower_q: Tensor) -> Tensor:
    root = solve_lower(lower_q, lower_p)
    z = solve_lower_vector(lower_q, q.loc - p.loc)
    half = log_det_half(lower_q) - log_det_half(lower_p)
    squares = (root * root).sum((-2, -1)) + (z * z).sum(-1)
    return half + 0.5 * (squares - int(p.event_shape[0]))


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    return _gaussian_kl(p, q, p.scale_tril, q.scale_tril)


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n = int(p.event_shape[0])
    root = solve_lower(q.scale_tril, p.scale_tril)
    half = log_det_half(q.scale_tril) - log_det_half(p.scale_tril)
    constants = mvlgamma(q.df / 2, n) - mvlgamma(p.df / 2, n) + (p.df - q.df) / 2 * mvdigamma(p.df / 2, n)
    return q.df * half + p.df / 2 * ((root * root).sum((-2, -1)) - n) + constants


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
