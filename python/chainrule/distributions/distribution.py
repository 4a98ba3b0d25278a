"""``Distribution``: the base class, and what its subclasses share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from .. import _core
from .._core import Size, Tensor
from .._dtypes import broadcast_tensors
from ..autograd import no_grad
from . import constraints
from .constraints import Constraint

__all__ = ["Distribution", "ExponentialFamily"]

Number = float | Tensor
Shape = Sequence[int]
T = TypeVar("T", bound="Distribution")
R = TypeVar("R")


class derived(Generic[R]):
    """A property that an attribute of the same name replaces: ``probs`` where ``logits`` were given."""

    def __init__(self, f: Callable[[Any], R]) -> None:
        self._f, self.__doc__ = f, f.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> R:
        return self if instance is None else self._f(instance)  # type: ignore[return-value]


def together(*values: Number) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype and device of the first tensor."""
    for v in values:
        if not isinstance(v, (Tensor, int, float)):
            raise ValueError(
                "Input arguments must all be instances of Number, Tensor or objects implementing __torch_function__,"
                f" got {type(v).__name__}."
            )
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = like.dtype if like is not None and like.is_floating_point() else _core.float32
    return broadcast_tensors(
        *(
            v
            if isinstance(v, Tensor)
            else _core.full((), v, dtype=dtype, device="cpu" if like is None else like.device)
            for v in values
        )
    )


def scalars(*values: object) -> bool:
    """Are all of them numbers, so that the distribution has no batch?"""
    return all(not isinstance(v, Tensor) for v in values)


def sum_last(x: Tensor, n: int) -> Tensor:
    """The sum over the last n axes."""
    return x.flatten(x.dim() - n).sum(-1) if n else x


class Distribution:
    """A family of distributions, one for each index of ``batch_shape``; a sample of one of them has
    ``event_shape``.  A result of ``sample(shape)`` is shape + batch_shape + event_shape.

    validate_args: are parameters and the arguments of ``log_prob``, ``cdf`` and ``icdf`` checked?
    ValueError: one is outside of its set.  Samples come from the default generator."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: Mapping[str, Constraint] = {}

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Are distributions checked that are made without ``validate_args``?"""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or name not in self.__dict__:
                continue
            value = getattr(self, name)
            with no_grad():
                good = bool(constraint.check(value).all())
            if not good:
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution"
                    f" {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Size:
        """The shape of the family."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample."""
        return self._event_shape

    @property
    def support(self) -> Any:
        """The set of the samples (``constraints``)."""
        raise NotImplementedError

    def _members(self) -> list[str]:
        """The names of the parameters that are tensors."""
        return [n for n in self.arg_constraints if isinstance(self.__dict__.get(n), Tensor)]

    def expand(self: T, batch_shape: Shape, _instance: T | None = None) -> T:
        """The same with its parameters expanded to ``batch_shape``."""
        new = type(self).__new__(type(self)) if _instance is None else _instance
        new.__dict__.update(self.__dict__)
        for name in self._members():
            value: Tensor = self.__dict__[name]
            n = self.arg_constraints[name].event_dim
            new.__dict__[name] = value.expand(Size(batch_shape) + Size(value.shape[value.dim() - n :]))
        new._batch_shape = Size(batch_shape)
        return new

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples without a gradient."""
        with no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples with gradients for the parameters, where ``has_rsample``."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``"""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or of the chance of value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The chance of a sample of at most value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of ``cdf``."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The mean of -log_prob, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy)"""
        return self.entropy().exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of the largest density or probability."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """sqrt(variance)"""
        return self.variance.sqrt()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first axis; expand: over the batch."""
        raise NotImplementedError

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        values = values.reshape((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        """sample_shape + batch_shape + event_shape"""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        n = value.dim() - len(self._event_shape)
        if n < 0 or Size(value.shape[n:]) != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape:"
                f" {tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        whole = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(whole), strict=False):
            if 1 not in (i, j) and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {tuple(whole)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if constraints.is_dependent(support):
            return
        with no_grad():
            good = bool(support.check(value).all())
        if not good:
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the"
                f" support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Tensor) -> Tensor:
        """value, after a check where arguments are checked."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def __repr__(self) -> str:
        shown = [(n, self.__dict__[n]) for n in self.arg_constraints if n in self.__dict__]
        return (
            type(self).__name__
            + "("
            + ", ".join(f"{n}: {v if not isinstance(v, Tensor) or v.numel() == 1 else v.size()}" for n, v in shown)
            + ")"
        )


class ExponentialFamily(Distribution):
    """A distribution of an exponential family."""
