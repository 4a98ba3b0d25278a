"""Distributions of counts and choices, and their relaxations."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from .. import _core
from .._core import Size, Tensor
from .._dtypes import broadcast_shapes, broadcast_tensors, finfo
from ..autograd import no_grad
from . import constraints
from ._sampling import binomial, poisson, standard_gamma, uniform_open
from .distribution import Distribution, ExponentialFamily, Number, Shape, derived, scalars, together

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "ContinuousBernoulli",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]

from .transformed import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform

V = TypeVar("V", bound="_Choices")


def _clamped(probs: Tensor) -> Tensor:
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def _log1p_exp(x: Tensor) -> Tensor:
    """log(1 + exp(x))"""
    return -_core.logsigmoid(-x)


def _cross_entropy(logits: Tensor, value: Tensor) -> Tensor:
    """-value log(p) - (1 - value) log(1 - p), p = sigmoid(logits)"""
    return _log1p_exp(logits) - value * logits


class _Coin(Distribution):
    """One chance, given as ``probs`` or as ``logits`` = log(probs / (1 - probs))."""

    def _set(self, probs: Number | None, logits: Number | None, *others: Number) -> bool:
        """Keeps the one that is given and returns whether all are numbers; others broadcast with it."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        assert given is not None
        values = together(given, *others)
        self.__dict__[name], self._others = values[0], values[1:]
        return scalars(given, *others)

    @derived
    def probs(self) -> Tensor:
        """The chance."""
        logits: Tensor = self.logits
        return logits.sigmoid()

    @derived
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        p = _clamped(self.probs)
        return p.log() - (-p).log1p()

    @property
    def _param(self) -> Tensor:
        value: Tensor = self.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        return value

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape


class Bernoulli(_Coin, ExponentialFamily):
    """1 with the chance ``probs``, else 0"""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Number | None = None, logits: Number | None = None, validate_args: bool | None = None
    ) -> None:
        batch = () if self._set(probs, logits) else self._param.shape
        super().__init__(batch, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        p = self.probs
        return _core.where(p == 0.5, math.nan, (p >= 0.5).to(p.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return self.probs.expand(self._extended_shape(sample_shape)).bernoulli()

    def log_prob(self, value: Tensor) -> Tensor:
        return -_cross_entropy(self.logits, self._checked(value))

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(_core.arange(2, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(_Coin):
    """The number of failures before the first success: (1 - p)^k p, k = 0, 1 ..."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Number | None = None, logits: Number | None = None, validate_args: bool | None = None
    ) -> None:
        batch = () if self._set(probs, logits) else self._param.shape
        super().__init__(batch, validate_args=validate_args)
        if self._validate_args and "probs" in self.__dict__ and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be"
                f" positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return _core.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            u = uniform_open(self._extended_shape(sample_shape), self._param)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        p, value = self.probs, self._checked(value)
        off = (p == 1) & (value == 0)
        return _core.where(off, 0.0, value * (-_core.where(off, 0.0, p)).log1p()) + p.log()

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs) / self.probs


class Binomial(_Coin):
    """The number of successes in total_count trials"""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self,
        total_count: int | Tensor = 1,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        numbers = self._set(probs, logits, total_count)
        (self.total_count,) = self._others
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(() if numbers else self._param.shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """0 ... total_count"""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        n, value, logits = self.total_count, self._checked(value), self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits - n * _log1p_exp(logits)

    def entropy(self) -> Tensor:
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(_core.arange(1 + n, dtype=self._param.dtype, device=self._param.device), expand)


class NegativeBinomial(_Coin):
    """The number of successes of chance ``probs`` before total_count failures"""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self,
        total_count: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        numbers = self._set(probs, logits, total_count)
        (self.total_count,) = self._others
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(() if numbers else self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """A Poisson number whose rate is a gamma sample."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return poisson(standard_gamma(self.total_count.expand(shape)) * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        n, value, logits = self.total_count, self._checked(value), self.logits
        chance = n * _core.logsigmoid(-logits) + value * _core.logsigmoid(logits)
        both = n + value
        ways = (1 + value).lgamma() + n.lgamma() - both.lgamma()
        return chance - _core.where(both == 0, 0.0, ways)


class Poisson(ExponentialFamily):
    """rate^k exp(-rate) / k!"""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = together(rate)
        super().__init__(() if scalars(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return _core.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


class ContinuousBernoulli(_Coin, ExponentialFamily):
    """C(p) p^x (1 - p)^(1 - x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).  lims: between them, near 1/2, series are
    used, because the formulas are 0 / 0 there"""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        batch = () if self._set(probs, logits) else self._param.shape
        super().__init__(batch, validate_args=validate_args)
        if "probs" in self.__dict__:
            self.__dict__["probs"] = _clamped(self.probs)
        self._lims = lims

    def _split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Is p apart from 1/2; p, or a number that is where it is not; p - 1/2"""
        p = self.probs
        apart = (p <= self._lims[0]) | (p > self._lims[1])
        return apart, _core.where(apart, p, self._lims[0]), p - 0.5

    def _log_norm(self) -> Tensor:
        """log C(p) = log(2 artanh(1 - 2 p) / (1 - 2 p))"""
        apart, p, x = self._split()
        exact = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        x = x * x
        return _core.where(apart, exact, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        apart, p, x = self._split()
        exact = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        return _core.where(apart, exact, 0.5 + (1 / 3 + 16 / 45 * x * x) * x)

    @property
    def variance(self) -> Tensor:
        apart, p, x = self._split()
        exact = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2
        x = x * x
        return _core.where(apart, exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(uniform_open(self._extended_shape(sample_shape), self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._log_norm() - _cross_entropy(self.logits, self._checked(value))

    def cdf(self, value: Tensor) -> Tensor:
        apart, p, _ = self._split()
        value = self._checked(value)
        y = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        return _core.where(value <= 0, 0.0, _core.where(value >= 1, 1.0, _core.where(apart, y, value)))

    def icdf(self, value: Tensor) -> Tensor:
        apart, p, _ = self._split()
        y = ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return _core.where(apart, y, value)

    def entropy(self) -> Tensor:
        log_q = (-self.probs).log1p()
        return self.mean * (log_q - self.probs.log()) - self._log_norm() - log_q


class Categorical(Distribution):
    """One of K positions: ``probs``, which need not sum to 1, or ``logits``, log of them : (..., K)"""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        for name, given in (("probs", probs), ("logits", logits)):
            if given is None:
                continue
            if given.dim() < 1:
                raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
            self.__dict__[name] = (
                given / given.sum(-1, keepdim=True) if name == "probs" else given - given.logsumexp(-1, keepdim=True)
            )
        self._num_events = self._param.size(-1)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @derived
    def probs(self) -> Tensor:
        """The chances, which sum to 1."""
        logits: Tensor = self.logits
        return logits.softmax(-1)

    @derived
    def logits(self) -> Tensor:
        """Their logarithms."""
        return _clamped(self.probs).log()

    @property
    def _param(self) -> Tensor:
        value: Tensor = self.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        return value

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.shape

    @property
    def support(self) -> constraints.Constraint:
        """0 ... K - 1"""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return _core.full(self._batch_shape, math.nan, dtype=self._param.dtype, device=self._param.device)

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = Size(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = rows.multinomial(max(shape.numel(), 1), True).transpose(0, 1)
            return drawn[: shape.numel()].reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        at = self._checked(value).long()[..., None]
        shape = broadcast_shapes(at.shape[:-1], self.logits.shape[:-1])
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, at.expand((*shape, 1)))[..., 0]

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self._param.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(_core.arange(self._num_events, device=self._param.device), expand)


class _Choices(Distribution):
    """A vector with an element for each position of a Categorical."""

    _categorical: Categorical

    def expand(self: V, batch_shape: Shape, _instance: V | None = None) -> V:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._categorical, new._batch_shape = self._categorical.expand(batch_shape), Size(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """The chances, which sum to 1."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(_Choices):
    """Categorical, with a 1 in the position that is drawn and zeros elsewhere"""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _hot(self, at: Tensor) -> Tensor:
        return _core.one_hot(at, self._event_shape[-1]).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = _core.eye(n, dtype=self._categorical._param.dtype, device=self._categorical._param.device)
        values = values.reshape((n, *[1] * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradient of the chances (Bengio et al. 2013)"""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(_Choices):
    """How often each of K positions is drawn in total_count draws"""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Counts that sum to at most total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        probs: Tensor = self.probs
        return probs * self.total_count

    @property
    def variance(self) -> Tensor:
        probs: Tensor = self.probs
        return self.total_count * probs * (1 - probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape, probs = Size(sample_shape), self._categorical._param
        with no_grad():
            drawn = self._categorical.sample(Size((self.total_count,)) + shape)
            counts = _core.zeros(self._extended_shape(shape), dtype=probs.dtype, device=probs.device)
            at = drawn.reshape((self.total_count, -1)).transpose(0, 1)
            ones = _core.ones(at.shape, dtype=probs.dtype, device=probs.device)
            return counts.reshape((-1, counts.size(-1))).scatter_add(-1, at, ones).reshape(counts.shape)

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_tensors(self.logits, self._checked(value))
        logits = _core.where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """n H(p) - log n! + the sum over positions and counts k of P(k) log k!"""
        n, probs = self.total_count, self.probs
        k = _core.arange(1, n + 1, dtype=probs.dtype, device=probs.device).reshape((n, *[1] * probs.dim()))
        chance = Binomial(n, probs=probs, validate_args=False).log_prob(k).exp()
        log_n = math.lgamma(n + 1)
        return n * self._categorical.entropy() - log_n + (chance * (k + 1).lgamma()).sum((0, -1))


class _LogitRelaxedBernoulli(_Coin):
    """The logits of RelaxedBernoulli: (logits + logistic noise) / temperature"""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        batch = () if self._set(probs, logits) else self._param.shape
        super().__init__(batch, validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u, p = _clamped(uniform_open(shape, self._param)), _clamped(self.probs.expand(shape))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        diff = self.logits - self._checked(value) * self.temperature
        log_t = self.temperature.log() if isinstance(self.temperature, Tensor) else math.log(self.temperature)
        return log_t + diff - 2 * _log1p_exp(diff)


class _Relaxed(TransformedDistribution):
    has_rsample = True

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.base_dist, new._batch_shape = self.base_dist.expand(batch_shape), Size(batch_shape)
        return new

    @property
    def temperature(self) -> Number:
        """Small: samples lie near the corners."""
        value: Number = self.base_dist.temperature  # type: ignore[attr-defined]
        return value

    @property
    def logits(self) -> Tensor:
        """The logits of the distribution that is relaxed."""
        value: Tensor = self.base_dist.logits  # type: ignore[attr-defined]
        return value

    @property
    def probs(self) -> Tensor:
        """Its chances."""
        value: Tensor = self.base_dist.probs  # type: ignore[attr-defined]
        return value


class RelaxedBernoulli(_Relaxed):
    """Bernoulli with samples in (0, 1) that have gradients (Maddison et al. 2017)"""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = _LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(_Choices):
    """The logarithms of RelaxedOneHotCategorical: log_softmax((logits + Gumbel noise) / temperature)"""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = uniform_open(self._extended_shape(sample_shape), self._categorical._param)
        y: Tensor = (self.logits - (-u.log()).log()) / self.temperature
        return y.log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[-1]
        logits, value = broadcast_tensors(self.logits, self._checked(value))
        log_t = self.temperature.log() if isinstance(self.temperature, Tensor) else math.log(self.temperature)
        return math.lgamma(n) + (n - 1) * log_t + (logits - value * self.temperature).log_softmax(-1).sum(-1)


class RelaxedOneHotCategorical(_Relaxed):
    """OneHotCategorical with samples inside the simplex that have gradients (Jang et al. 2017)"""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
