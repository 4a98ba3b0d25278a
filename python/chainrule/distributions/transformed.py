"""Distributions made of others: transformed, and of independent axes."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Size, Tensor
from ..autograd import no_grad
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Shape, sum_last
from .transforms import ComposeTransform, Transform

__all__ = ["Independent", "TransformedDistribution"]


class Independent(Distribution):
    """``base_distribution`` of which the last ``reinterpreted_batch_ndims`` axes of the batch belong to the event."""

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape),"
                f" actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        n = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:n], Size(batch[n:]) + base_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Shape, _instance: Independent | None = None) -> Independent:
        inner = self.base_dist.expand(Size(batch_shape) + Size(self.event_shape[: self.reinterpreted_batch_ndims]))
        return Independent(inner, self.reinterpreted_batch_ndims, validate_args=False)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @property
    def support(self) -> Constraint:
        """The support of the base distribution, over the event."""
        support: Constraint = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(support, n) if n else support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of f(x), f the ``transforms`` one after the other, x of ``base_distribution``:
    log p(y) = log p(x) - log |det(dy / dx)|."""

    arg_constraints: dict[str, Constraint] = {}
    base_dist: Distribution

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list) and all(isinstance(t, Transform) for t in transforms):
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got"
                f" {tuple(shape)}."
            )
        after = whole.forward_shape(shape)
        expanded = whole.inverse_shape(after)  # a transform may have a batch of its own
        if expanded != shape:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_event])
        more = whole.domain.event_dim - base_event
        if more > 0:
            base_distribution = Independent(base_distribution, more, validate_args=False)
        self.base_dist = base_distribution
        event = max(whole.codomain.event_dim, base_event + whole.codomain.event_dim - whole.domain.event_dim)
        n = len(after) - event
        super().__init__(after[:n], after[n:], validate_args)

    def expand(self, batch_shape: Shape, _instance: TransformedDistribution | None = None) -> TransformedDistribution:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        new.__dict__.update(self.__dict__)
        shape = ComposeTransform(self.transforms).inverse_shape(Size(batch_shape) + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        for name in self._members():
            new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        new._batch_shape = Size(batch_shape)
        return new

    @property
    def support(self) -> Constraint:
        """The codomain of the last transform."""
        if not self.transforms:
            inner: Constraint = self.base_dist.support
            return inner
        support: Constraint = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        y, event, total = self._checked(value), len(self.event_shape), None
        for t in reversed(self.transforms):
            x = t.inv(y)
            event += t.domain.event_dim - t.codomain.event_dim
            term = sum_last(t.log_abs_det_jacobian(x, y), event - t.domain.event_dim)
            total = -term if total is None else total - term
            y = x
        inner = sum_last(self.base_dist.log_prob(y), event - len(self.base_dist.event_shape))
        return inner if total is None else total + inner

    def _monotone(self, value: Tensor) -> Tensor:
        """value, or 1 - value where the transforms fall"""
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        x = self._checked(value)
        for t in reversed(self.transforms):
            x = t.inv(x)
        if self.base_dist._validate_args:
            self.base_dist._validate_sample(x)
        return self._monotone(self.base_dist.cdf(x))

    def icdf(self, value: Tensor) -> Tensor:
        x = self.base_dist.icdf(self._monotone(value))
        for t in self.transforms:
            x = t(x)
        return x
