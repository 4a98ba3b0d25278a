"""The gamma distribution and those made of it."""

from __future__ import annotations

import math

from .. import _core
from .._core import Tensor
from .._dtypes import finfo
from ..special import gammainc
from . import constraints
from ._sampling import standard_gamma
from .distribution import Distribution, ExponentialFamily, Number, Shape, scalars, together

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]

from .transformed import TransformedDistribution
from .transforms import PowerTransform


class Gamma(ExponentialFamily):
    """rate^a x^(a - 1) exp(-rate x) / Gamma(a), a the concentration"""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Number, rate: Number, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = together(concentration, rate)
        super().__init__(() if scalars(concentration, rate) else self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """With implicit reparameterisation gradients (``_sampling.standard_gamma``)."""
        shape = self._extended_shape(sample_shape)
        x = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return _core.where(x < finfo(x.dtype).tiny, x.detach().clamp(min=finfo(x.dtype).tiny), x)

    def log_prob(self, value: Tensor) -> Tensor:
        a, value = self.concentration, self._checked(value)
        return _core.xlogy(a, self.rate) + _core.xlogy(a - 1, value) - self.rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        return gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of df squares of standard normal numbers: Gamma(df / 2, 1 / 2)"""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Number, validate_args: bool | None = None) -> None:
        half = 0.5 * df
        super().__init__(half, 0.5, validate_args=validate_args)
        if self._validate_args and not bool((self.concentration > 0).all()):
            raise ValueError(
                f"Expected parameter df (Tensor of shape {tuple(self.df.shape)}) of distribution {self!r} to satisfy"
                f" the constraint GreaterThan(lower_bound=0.0), but found invalid values:\n{self.df}"
            )

    def _members(self) -> list[str]:
        return ["concentration", "rate"]

    def expand(self, batch_shape: Shape, _instance: Chi2 | None = None) -> Chi2:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        new._batch_shape = _core.Size(batch_shape)
        return new

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2

    def __repr__(self) -> str:
        return f"Chi2(df: {self.df if self.df.numel() == 1 else self.df.size()})"


class InverseGamma(TransformedDistribution):
    """1 / x of Gamma(concentration, rate)"""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Number, rate: Number, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        power = PowerTransform(-_core.ones_like(base.rate))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The concentration of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Its rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        y = self.rate / (self.concentration - 1)
        return _core.where(self.concentration > 1, y, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return _core.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """Points x of the simplex with density proportional to the product of x_i^(a_i - 1), a the concentration"""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Gamma samples divided by their sum, from their logarithms: small concentrations do not underflow.  The
        gradient is that of the gamma samples through the quotient."""
        return standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)), log=True).softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        a = self.concentration
        return _core.xlogy(a - 1, self._checked(value)).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """Where all concentrations are below 1 the corner of the largest."""
        a = self.concentration
        peak = (a - 1).clamp(min=0)
        corner = _core.one_hot(a.argmax(-1), a.size(-1)).to(a.dtype)
        return _core.where((a < 1).all(-1, keepdim=True), corner, peak / peak.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        total, m = self.concentration.sum(-1, keepdim=True), self.mean
        return m * (1 - m) / (total + 1)

    def entropy(self) -> Tensor:
        a = self.concentration
        total, n = a.sum(-1), a.size(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (n - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b) on (0, 1), a concentration1, b concentration0"""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Number, concentration0: Number, validate_args: bool | None = None) -> None:
        a, b = together(concentration1, concentration0)
        self._dirichlet = Dirichlet(_core.stack([a, b], -1), validate_args=False)
        self.concentration1, self.concentration0 = a, b
        super().__init__(() if scalars(concentration1, concentration0) else a.shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Beta | None = None) -> Beta:
        new = super().expand(batch_shape, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return new

    concentration1: Tensor
    concentration0: Tensor

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """The share of the first of two gamma samples."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return self._dirichlet.log_prob(_core.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class FisherSnedecor(Distribution):
    """The quotient of two mean squares of normal numbers, of df1 and df2 degrees of freedom"""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Number, df2: Number, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = together(df1, df2)
        super().__init__(() if scalars(df1, df2) else self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return _core.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        y = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return _core.where(self.df1 > 2, y, math.nan)

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        y = 2 * n**2 * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4))
        return _core.where(n > 4, y, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x, y = (standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        tiny = finfo(x.dtype).tiny
        return (x / y.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        m, n, value = self.df1 / 2, self.df2 / 2, self._checked(value)
        ratio = self.df1 / self.df2
        constant = (m + n).lgamma() - m.lgamma() - n.lgamma() + m * ratio.log()
        return constant + (m - 1) * value.log() - (m + n) * (ratio * value).log1p()


class StudentT(Distribution):
    """Proportional to (1 + z^2 / df)^(-(df + 1) / 2), z = (x - loc) / scale"""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(self, df: Number, loc: Number = 0.0, scale: Number = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = together(df, loc, scale)
        super().__init__(() if scalars(df, loc, scale) else self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return _core.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        y = self.scale**2 * self.df / (self.df - 2)
        return _core.where(self.df > 2, y, _core.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = _core.randn(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = 2 * standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * z * (self.df / chi2.clamp(min=finfo(z.dtype).tiny)).sqrt()

    def _constant(self) -> Tensor:
        """log of the factor that makes the integral of the standard one 1"""
        return (0.5 * (self.df + 1)).lgamma() - (0.5 * self.df).lgamma() - 0.5 * (self.df * math.pi).log()

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        return self._constant() - self.scale.log() - 0.5 * (self.df + 1) * (z * z / self.df).log1p()

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        return self.scale.log() - self._constant() + half * (half.digamma() - (0.5 * self.df).digamma())
