"""Sets in which parameters and samples lie.

``constraint.check(value)`` is true where value lies in the set; ``event_dim`` axes at the end are
one element of it.  ``is_discrete``: the set is countable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import Tensor
from .._dtypes import finfo
from ._linalg import is_definite

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

Bound = float | Tensor


def _shown(x: object) -> str:
    return f"tensor of shape {tuple(x.shape)}" if isinstance(x, Tensor) and x.dim() else str(float(x))  # type: ignore[arg-type]


class Constraint:
    """The base class: a set with a test, ``check``."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Is each element of value, of event_dim axes, in the set?"""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters, so that it cannot be checked by itself."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        return _Dependent(
            is_discrete=self.is_discrete if is_discrete is None else is_discrete,
            event_dim=self.event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property of a distribution that is a set; on the class it is a dependent constraint."""

    def __init__(
        self, fget: Callable[[Any], Any] | None = None, *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        property.__init__(self, fget)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fget: Callable[[Any], Any]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fget, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Test(Constraint):
    """A set without parameters, by its test."""

    def __init__(
        self, name: str, test: Callable[[Tensor], Tensor], is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        self._name, self._test, self.is_discrete, self.event_dim = name, test, is_discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        return self._test(value)

    def __repr__(self) -> str:
        return f"{self._name}()"


class _Between(Constraint):
    """Numbers between two bounds; ``ends``: which of them belong to the set."""

    def __init__(
        self, name: str, low: Bound | None, high: Bound | None, ends: str = "[]", is_discrete: bool = False
    ) -> None:
        self._name, self.lower_bound, self.upper_bound, self._ends = name, low, high, ends
        self.is_discrete = is_discrete

    def check(self, value: Tensor) -> Tensor:
        inside = value % 1 == 0 if self.is_discrete else value == value
        if self.lower_bound is not None:
            inside = inside & (value >= self.lower_bound if self._ends[0] == "[" else value > self.lower_bound)
        if self.upper_bound is not None:
            inside = inside & (value <= self.upper_bound if self._ends[1] == "]" else value < self.upper_bound)
        return inside

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return f"{self._name}({', '.join(f'{k}={_shown(v)}' for k, v in bounds.items() if v is not None)})"


class _Independent(Constraint):
    """``count`` more axes belong to one element."""

    def __init__(self, base: Constraint, count: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base, count
        self.is_discrete, self.event_dim = base.is_discrete, base.event_dim + count

    def check(self, value: Tensor) -> Tensor:
        inside, n = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if inside.dim() < n:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {value.dim()}: {n} axes of {tuple(value.shape)}"
            )
        return inside.flatten(inside.dim() - n).all(-1) if n else inside

    def __repr__(self) -> str:
        return f"Independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Joined(Constraint):
    """Several sets side by side along an axis: ``lengths`` elements of each."""

    def __init__(self, parts: Sequence[Constraint], dim: int, lengths: Sequence[int] | None) -> None:
        self.cseq, self.dim, self.lengths = list(parts), dim, None if lengths is None else list(lengths)
        self.is_discrete = any(c.is_discrete for c in parts)
        self.event_dim = max(c.event_dim for c in parts)

    def check(self, value: Tensor) -> Tensor:
        if self.lengths is None:
            return _core.stack([c.check(value.select(self.dim, i)) for i, c in enumerate(self.cseq)], self.dim)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return _core.cat(
            [c.check(value.narrow(self.dim, at, n)) for c, at, n in zip(self.cseq, starts, self.lengths, strict=True)],
            self.dim,
        )

    def __repr__(self) -> str:
        return f"{'Stack' if self.lengths is None else 'Cat'}({self.cseq}, dim={self.dim})"


class _Multinomial(Constraint):
    """Counts that sum to at most upper_bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


def _close(a: Tensor, b: Tensor, tolerance: float) -> Tensor:
    return ((a - b).abs() < tolerance).flatten(-2).all(-1)


def _lower(x: Tensor) -> Tensor:
    return (x.tril() == x).flatten(-2).all(-1)


def _is_factor(x: Tensor) -> Tensor:
    return _lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1)


def _is_correlation(x: Tensor) -> Tensor:
    tolerance = finfo(x.dtype).eps * x.size(-1) * 10
    return _is_factor(x) & (((x * x).sum(-1) - 1).abs() < tolerance).all(-1)


def _is_square(x: Tensor) -> Tensor:
    return _core.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=_core.bool, device=x.device)


def _is_symmetric(x: Tensor) -> Tensor:
    return _is_square(x) if x.shape[-2] != x.shape[-1] else _close(x, x.transpose(-2, -1), 1e-6)


def _is_definite(x: Tensor) -> Tensor:
    return _is_symmetric(x) & is_definite(x) if x.shape[-2] == x.shape[-1] else _is_square(x)


def _is_semidefinite(x: Tensor) -> Tensor:
    """With a tolerance on the diagonal: the factor of x + t I exists."""
    if x.shape[-2] != x.shape[-1]:
        return _is_square(x)
    size = x.diagonal(0, -2, -1).abs().amax(-1)[..., None, None] + finfo(x.dtype).tiny
    raised = x + 10 * finfo(x.dtype).eps * x.size(-1) * size * _core.eye(x.size(-1), dtype=x.dtype, device=x.device)
    return _is_symmetric(x) & is_definite(raised)


def _is_one_hot(x: Tensor) -> Tensor:
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)


def _is_simplex(x: Tensor) -> Tensor:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


dependent = _Dependent()
boolean = _Test("Boolean", lambda x: (x == 0) | (x == 1), True)
one_hot = _Test("OneHot", _is_one_hot, True, 1)
real = _Test("Real", lambda x: x == x)
simplex = _Test("Simplex", _is_simplex, False, 1)
lower_triangular = _Test("LowerTriangular", _lower, False, 2)
lower_cholesky = _Test("LowerCholesky", _is_factor, False, 2)
corr_cholesky = _Test("CorrCholesky", _is_correlation, False, 2)
square = _Test("Square", _is_square, False, 2)
symmetric = _Test("Symmetric", _is_symmetric, False, 2)
positive_semidefinite = _Test("PositiveSemidefinite", _is_semidefinite, False, 2)
positive_definite = _Test("PositiveDefinite", _is_definite, False, 2)
real_vector: Constraint = _Independent(real, 1)
nonnegative_integer = _Between("IntegerGreaterThan", 0, None, is_discrete=True)
positive_integer = _Between("IntegerGreaterThan", 1, None, is_discrete=True)
positive = _Between("GreaterThan", 0.0, None, "(]")
nonnegative = _Between("GreaterThanEq", 0.0, None)
unit_interval = _Between("Interval", 0.0, 1.0)
multinomial = _Multinomial
independent = _Independent


def greater_than(lower_bound: Bound) -> Constraint:
    """(lower_bound, infinity)"""
    return _Between("GreaterThan", lower_bound, None, "(]")


def greater_than_eq(lower_bound: Bound) -> Constraint:
    """[lower_bound, infinity)"""
    return _Between("GreaterThanEq", lower_bound, None)


def less_than(upper_bound: Bound) -> Constraint:
    """(-infinity, upper_bound)"""
    return _Between("LessThan", None, upper_bound, "[)")


def interval(lower_bound: Bound, upper_bound: Bound) -> Constraint:
    """[lower_bound, upper_bound]"""
    return _Between("Interval", lower_bound, upper_bound)


def half_open_interval(lower_bound: Bound, upper_bound: Bound) -> Constraint:
    """[lower_bound, upper_bound)"""
    return _Between("HalfOpenInterval", lower_bound, upper_bound, "[)")


def integer_interval(lower_bound: Bound, upper_bound: Bound) -> Constraint:
    """The integers from lower_bound to upper_bound, both included."""
    return _Between("IntegerInterval", lower_bound, upper_bound, is_discrete=True)


def cat(cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> Constraint:
    """Sets side by side along ``dim``, of 1 or ``lengths`` elements each."""
    return _Joined(cseq, dim, [1] * len(cseq) if lengths is None else lengths)


def stack(cseq: Sequence[Constraint], dim: int = 0) -> Constraint:
    """Sets stacked along a new axis ``dim``."""
    return _Joined(cseq, dim, None)


def is_dependent(constraint: Constraint) -> bool:
    """Does the set depend on other parameters?"""
    return isinstance(constraint, _Dependent)
