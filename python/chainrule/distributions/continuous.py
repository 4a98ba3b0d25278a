"""Distributions of one real number, by location and scale or by an inverse distribution function."""

from __future__ import annotations

import math

from .. import _core
from .._core import Tensor
from .._dtypes import finfo
from ..special import i0e, i1e
from . import constraints
from ._sampling import EULER, LOG_2PI, uniform_open
from .distribution import Distribution, ExponentialFamily, Number, Shape, scalars, together

__all__ = [
    "Cauchy",
    "Exponential",
    "GeneralizedPareto",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "Normal",
    "Pareto",
    "Uniform",
    "VonMises",
    "Weibull",
]

from .transformed import TransformedDistribution
from .transforms import AffineTransform, ExpTransform, PowerTransform, StickBreakingTransform


class _LocScale(Distribution):
    """loc + scale z"""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale = together(loc, scale)
        super().__init__(() if scalars(loc, scale) else self.loc.shape, validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        return (self._checked(value) - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_LocScale, ExponentialFamily):
    """exp(-z^2 / 2) / (scale sqrt(2 pi)), z = (x - loc) / scale"""

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        z = _core.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + z * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -0.5 * z * z - self.scale.log() - 0.5 * LOG_2PI

    def cdf(self, value: Tensor) -> Tensor:
        return _core.ndtr(self._standard(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * _core.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * LOG_2PI + self.scale.log()


class Laplace(_LocScale):
    """exp(-|x - loc| / scale) / (2 scale)"""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = uniform_open(self._extended_shape(sample_shape), self.loc) - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs()).clamp(min=finfo(u.dtype).eps - 1).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        u = value - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """1 / (pi scale (1 + z^2)), z = (x - loc) / scale; without mean and variance"""

    @property
    def mean(self) -> Tensor:
        return _core.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return _core.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        z = _core.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device).cauchy_()
        return self.loc + z * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._standard(value) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocScale):
    """exp(-z - exp(-z)) / scale, z = (x - loc) / scale: of the largest of many numbers"""

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = uniform_open(self._extended_shape(sample_shape), self.loc)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev**2

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class Uniform(Distribution):
    """1 / (high - low) on [low, high)"""

    has_rsample = True
    low: Tensor
    high: Tensor
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Number, high: Number, validate_args: bool | None = None) -> None:
        self.low, self.high = together(low, high)
        super().__init__(() if scalars(low, high) else self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self) -> constraints.Constraint:
        """[low, high]"""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = _core.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        inside = (self._checked(value) >= self.low) & (value < self.high)
        return _core.where(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """rate exp(-rate x)"""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Tensor

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = together(rate)
        super().__init__(() if scalars(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return _core.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _core.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * self._checked(value)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class LogNormal(TransformedDistribution):
    """exp of Normal(loc, scale)"""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        return (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """|x| of a distribution that is symmetric about 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base: type[_LocScale]

    def __init__(self, scale: Number, validate_args: bool | None = None) -> None:
        from .transforms import AbsTransform

        super().__init__(self._base(0.0, scale, False), AbsTransform(), validate_args=False)
        del self._validate_args
        (given,) = together(scale)
        Distribution.__init__(self, () if scalars(scale) else given.shape, (), validate_args)
        if self._validate_args and not bool((given > 0).all()):
            raise ValueError(
                f"Expected parameter scale ({type(given).__name__} of shape {tuple(given.shape)}) of distribution"
                f" {self!r} to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values:\n{given}"
            )

    @property
    def scale(self) -> Tensor:
        """The scale of the whole distribution."""
        scale: Tensor = self.base_dist.scale  # type: ignore[attr-defined]
        return scale

    @property
    def mode(self) -> Tensor:
        return _core.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        y = self.base_dist.log_prob(self._checked(value)) + math.log(2)
        return _core.where(value >= 0, y, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """|x| of Normal(0, scale)"""

    _base = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x| of Cauchy(0, scale)"""

    _base = Cauchy

    @property
    def mean(self) -> Tensor:
        return _core.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return _core.full_like(self.scale, math.inf)


class Pareto(TransformedDistribution):
    """alpha scale^alpha / x^(alpha + 1), x > scale"""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True
    alpha: Tensor

    def __init__(self, scale: Number, alpha: Number, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = together(scale, alpha)
        base = Exponential(self.alpha if not scalars(scale, alpha) else self.alpha.item(), validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """[scale, infinity)"""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """(1 + k z)^(-1 / k - 1) / scale, z = (x - loc) / scale, k the concentration; exp(-z) / scale for k = 0"""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(self, loc: Number, scale: Number, concentration: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = together(loc, scale, concentration)
        super().__init__(() if scalars(loc, scale, concentration) else self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """[loc, infinity), or up to loc - scale / k for k < 0"""
        k = self.concentration
        return constraints.interval(self.loc, _core.where(k < 0, self.loc - self.scale / self._safe(k), math.inf))

    @staticmethod
    def _safe(k: Tensor) -> Tensor:
        """k where it is not 0, so that neither a quotient nor its gradient is NaN."""
        return _core.where(k == 0, _core.ones_like(k), k)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        finite = k < 1
        return _core.where(finite, self.loc + self.scale / _core.where(finite, 1 - k, _core.ones_like(k)), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.concentration < 0.5
        k = _core.where(finite, self.concentration, _core.zeros_like(self.concentration))
        return _core.where(finite, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self._quantile(_core.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        k, z = self.concentration, (self._checked(value) - self.loc) / self.scale
        general = (1 + 1 / self._safe(k)) * (k * z).log1p()
        return -self.scale.log() - _core.where(k == 0, z, general)

    def _log_survival(self, value: Tensor) -> Tensor:
        k, z = self.concentration, (self._checked(value) - self.loc) / self.scale
        return -_core.where(k == 0, z, (k * z).log1p() / self._safe(k))

    def cdf(self, value: Tensor) -> Tensor:
        return -self._log_survival(value).expm1()

    def log_cdf(self, value: Tensor) -> Tensor:
        """log(cdf(value))"""
        return self.cdf(value).log()

    def _quantile(self, u: Tensor) -> Tensor:
        k, log = self.concentration, (-u).log1p()
        return self.loc + self.scale * _core.where(k == 0, -log, (-k * log).expm1() / self._safe(k))

    def icdf(self, value: Tensor) -> Tensor:
        return self._quantile(value)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class Weibull(TransformedDistribution):
    """k / scale (x / scale)^(k - 1) exp(-(x / scale)^k), k the concentration"""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Number, concentration: Number, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = together(scale, concentration)
        one = _core.ones_like(self.scale)
        base = Exponential(one if not scalars(scale, concentration) else 1.0, validate_args)
        parts = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def entropy(self) -> Tensor:
        k = self.concentration
        return EULER * (1 - k.reciprocal()) + (self.scale / k).log() + 1


class Kumaraswamy(TransformedDistribution):
    """a b x^(a - 1) (1 - x^a)^(b - 1) on (0, 1), a concentration1, b concentration0"""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Number, concentration0: Number, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = a, b = together(concentration1, concentration0)
        batch = () if scalars(concentration1, concentration0) else a.shape
        base = Uniform(_core.zeros_like(a).expand(batch), _core.ones_like(a).expand(batch), validate_args)
        parts = [
            PowerTransform(b.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(a.reciprocal()),
        ]
        super().__init__(base, parts, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        whole = 1 + n / a
        return (b.log() + whole.lgamma() + b.lgamma() - (whole + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        y = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return _core.where((a < 1) | (b < 1), math.nan, y)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * ((b + 1).digamma() + EULER) - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Stick breaking of a vector of Normal(loc, scale): points of the simplex of one coordinate more"""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means before stick breaking."""
        loc: Tensor = self.base_dist.base_dist.loc  # type: ignore[attr-defined]
        return loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations before stick breaking."""
        scale: Tensor = self.base_dist.base_dist.scale  # type: ignore[attr-defined]
        return scale


class VonMises(Distribution):
    """exp(concentration cos(x - loc)) / (2 pi I0(concentration)) on the circle"""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Number, concentration: Number, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = together(loc, concentration)
        super().__init__(() if scalars(loc, concentration) else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """1 - I1 / I0: of the circle"""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self.concentration
        return k * ((self._checked(value) - self.loc).cos() - 1) - LOG_2PI - i0e(k).log()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher 1979)."""
        from ..autograd import no_grad
        from ._sampling import _reject

        shape = self._extended_shape(sample_shape)
        with no_grad():
            k = self.concentration.expand(shape).reshape(-1)
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = _core.where(k < 1e-3, 1 / k + k, (1 + rho * rho) / (2 * rho))

            def attempt(k: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
                u = uniform_open((3, *k.shape), k)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
                return (u[2] - 0.5).sign() * f.clamp(-1, 1).acos(), taken

            x = _reject(attempt, k, r).reshape(shape)
            return (x + math.pi + self.loc) % (2 * math.pi) - math.pi
