"""Transforms from all real numbers into the set of a constraint: ``biject_to`` one to one, ``transform_to`` perhaps
with more numbers than the set needs, but as simple as can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


def _kind(constraint: Constraint) -> object:
    return getattr(constraint, "_name", type(constraint))


class ConstraintRegistry:
    """A table from kinds of constraints to functions that make a transform for one of them."""

    def __init__(self) -> None:
        self._table: dict[object, Factory] = {}

    def register(self, constraint: Constraint | type[Constraint], factory: Factory | None = None) -> Any:
        """Adds a kind: of a constraint, or a class of them.  Without factory: a decorator.  TypeError: neither."""
        if factory is None:
            return lambda f: self.register(constraint, f)
        if not isinstance(constraint, (Constraint, type)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._table[constraint if isinstance(constraint, type) else _kind(constraint)] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform into the set.  NotImplementedError: its kind is not in the table."""
        factory = self._table.get(_kind(constraint)) or self._table.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _from_below(c: Any) -> Transform:
    if isinstance(c.lower_bound, float) and c.lower_bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(c.lower_bound, 1)])


def _from_above(c: Any) -> Transform:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(c.upper_bound, -1)])


def _between(c: Any) -> Transform:
    low, high = c.lower_bound, c.upper_bound
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _fill(registry: ConstraintRegistry) -> None:
    """What both tables have."""

    def independent(c: Any) -> Transform:
        return transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)

    rows: list[tuple[Constraint | type[Constraint], Factory]] = [
        (constraints.real, lambda c: transforms.identity_transform),
        (constraints.positive, _from_below),
        (constraints.nonnegative, _from_below),
        (constraints.less_than(0.0), _from_above),
        (constraints.unit_interval, _between),
        (constraints.half_open_interval(0.0, 1.0), _between),
        (constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform()),
        (constraints.independent, independent),
    ]
    for constraint, factory in rows:
        registry.register(constraint, factory)


_fill(biject_to)
_fill(transform_to)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda c: transforms.PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda c: transforms.PositiveDefiniteTransform())
