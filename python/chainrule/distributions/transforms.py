"""Invertible functions with the logarithm of the determinant of their Jacobian, for
``TransformedDistribution``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import Size, Tensor
from .._dtypes import finfo
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Number, Shape, sum_last

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """y = f(x): a subclass has ``_call``, ``_inverse`` and ``log_abs_det_jacobian``, and the sets
    ``domain`` and ``codomain``.  cache_size 1: the last y is kept, so that its inverse is the very x."""

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Tensor, Tensor] | None = None

    @property
    def event_dim(self) -> int:
        """How many axes at the end the function takes at once."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse as a transform."""
        return _Inverse(self)

    @property
    def sign(self) -> Any:
        """The sign of the derivative, of a monotone function of one number."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same with another cache_size."""
        if cache_size == self._cache_size:
            return self
        from copy import copy

        new = copy(self)
        new._cache_size, new._cached = cache_size, None
        return new

    def __call__(self, x: Tensor) -> Tensor:
        if self._cached is not None and self._cached[0] is x:
            return self._cached[1]
        y = self._call(x)
        if self._cache_size:
            self._cached = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cached is not None and self._cached[1] is y:
            return self._cached[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det(dy / dx)|"""
        raise NotImplementedError

    def forward_shape(self, shape: Shape) -> Size:
        """The shape of y for an x of ``shape``."""
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """The shape of x for a y of ``shape``."""
        return Size(shape)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _Plain(Transform):
    """One without parameters: two of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = Transform.__hash__


class _Inverse(Transform):
    """The inverse of another transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.bijective, self.domain, self.codomain = transform.bijective, transform.codomain, transform.domain

    @property
    def inv(self) -> Transform:
        return self._inv

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self._inv.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """``parts`` one after the other, the first one first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)
        self.bijective = all(p.bijective for p in parts)

    @property
    def domain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        result: Constraint = self.parts[0].domain
        dims = self.parts[-1].codomain.event_dim
        for p in reversed(self.parts):
            dims = max(dims + p.domain.event_dim - p.codomain.event_dim, p.domain.event_dim)
        return constraints.independent(result, dims - result.event_dim) if dims > result.event_dim else result

    @property
    def codomain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        result: Constraint = self.parts[-1].codomain
        dims = self.parts[0].domain.event_dim
        for p in self.parts:
            dims = max(dims + p.codomain.event_dim - p.domain.event_dim, p.codomain.event_dim)
        return constraints.independent(result, dims - result.event_dim) if dims > result.event_dim else result

    @property
    def sign(self) -> Any:
        return math.prod((p.sign for p in self.parts), start=1)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if cache_size == self._cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for p in self.parts:
            x = p(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for p in reversed(self.parts):
            y = p._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return _core.zeros_like(x)
        values = [x]
        for p in self.parts[:-1]:
            values.append(p(values[-1]))
        values.append(y)
        dims, total = self.domain.event_dim, None
        for p, a, b in zip(self.parts, values, values[1:], strict=False):
            term = sum_last(p.log_abs_det_jacobian(a, b), dims - p.domain.event_dim)
            total = term if total is None else total + term
            dims += p.codomain.event_dim - p.domain.event_dim
        assert total is not None
        return total

    def forward_shape(self, shape: Shape) -> Size:
        for p in self.parts:
            shape = p.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        for p in reversed(self.parts):
            shape = p.inverse_shape(shape)
        return Size(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"ComposeTransform({', '.join(map(repr, self.parts))})"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform of which ``reinterpreted_batch_ndims`` more axes make one event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The last axes, of shape in_shape, as out_shape."""

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    @staticmethod
    def _exchanged(shape: Shape, old: Size, new: Size) -> Size:
        n = len(shape) - len(old)
        if n < 0:
            raise ValueError("Too few dimensions on input")
        if Size(shape[n:]) != old:
            raise ValueError(f"Shape mismatch: expected {tuple(shape[n:])} but got {tuple(old)}")
        return Size((*shape[:n], *new))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _core.zeros(x.shape[: x.dim() - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Shape) -> Size:
        return self._exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self._exchanged(shape, self.out_shape, self.in_shape)


class ExpTransform(_Plain):
    """exp(x)"""

    bijective, sign, codomain = True, 1, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x^exponent, x > 0"""

    bijective, domain, codomain = True, constraints.positive, constraints.positive

    def __init__(self, exponent: Number, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else _core.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = Transform.__hash__


class SigmoidTransform(_Plain):
    """1 / (1 + exp(-x))"""

    bijective, sign, codomain = True, 1, constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = finfo(x.dtype)
        return x.sigmoid().clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = finfo(y.dtype)
        y = y.clamp(info.tiny, 1 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _core.logsigmoid(x) + _core.logsigmoid(-x)


class SoftplusTransform(_Plain):
    """log(1 + exp(x))"""

    bijective, sign, codomain = True, 1, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return _core.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _core.logsigmoid(x)


class TanhTransform(_Plain):
    """tanh(x)"""

    bijective, sign, codomain = True, 1, constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - _core.softplus(-2 * x))


class AbsTransform(_Plain):
    """|x|; the inverse gives the positive one"""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale x; event_dim: how many axes are one event"""

    bijective = True

    def __init__(self, loc: Number, scale: Number, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        self.domain = self.codomain = (
            constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        )

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale if isinstance(self.scale, Tensor) else _core.full_like(x, self.scale)
        n = self._event_dim
        return sum_last(scale.abs().log().expand(x.shape) if n else scale.abs().log() + _core.zeros_like(x), n)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False

        def same(a: Number, b: Number) -> bool:
            return bool((a == b).all()) if isinstance(a, Tensor) else bool(_core.tensor(a == b).all())

        return same(self.loc, other.loc) and same(self.scale, other.scale)

    __hash__ = Transform.__hash__


class SoftmaxTransform(_Plain):
    """exp(x) / sum(exp(x)), with log as a one-sided inverse"""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """N numbers to a point of the simplex with N + 1 coordinates: coordinate k takes the part
    sigmoid(x_k - log(N - k)) of what those before it left."""

    bijective, domain, codomain = True, constraints.real_vector, constraints.simplex

    @staticmethod
    def _offset(n: int, like: Tensor) -> Tensor:
        return _core.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        z = (x - self._offset(x.size(-1), x)).sigmoid()
        left = (1 - z).cumprod(-1)
        one = _core.ones_like(z[..., :1])
        return _core.cat([z, one], -1) * _core.cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return head.log() - left.log() + self._offset(head.size(-1), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x.size(-1), x)
        return (-x + _core.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """The lower triangle of a matrix, with exp of the diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """L L^T, L the result of ``LowerCholeskyTransform``."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.transpose(-2, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        from ._linalg import cholesky

        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(_Plain):
    """N (N - 1) / 2 numbers to the Cholesky factor of a correlation matrix: with z = tanh(x) in the strict
    lower triangle, L_ij = z_ij sqrt(product of 1 - z_ik^2, k < j), and the diagonal makes rows of length 1."""

    bijective, domain, codomain = True, constraints.real_vector, constraints.corr_cholesky

    @staticmethod
    def _filled(x: Tensor) -> Tensor:
        """The strict lower triangle of a matrix, row by row."""
        n = int((1 + math.isqrt(1 + 8 * x.size(-1))) // 2)
        if n * (n - 1) // 2 != x.size(-1):
            raise ValueError("Input is not a flattened lower-diagonal number")
        rows = [
            _core.cat(
                [
                    x[..., i * (i - 1) // 2 : i * (i + 1) // 2],
                    _core.zeros_like(x[..., :1]).expand((*x.shape[:-1], n - i)),
                ],
                -1,
            )
            for i in range(n)
        ]
        return _core.stack(rows, -2)

    def _call(self, x: Tensor) -> Tensor:
        z = self._filled(x.tanh().clamp(-1 + finfo(x.dtype).eps, 1 - finfo(x.dtype).eps))
        z = z + _core.eye(z.size(-1), dtype=z.dtype, device=z.device)
        left = (1 - (z * z).tril(-1)).sqrt().cumprod(-1)
        return z * _core.cat([_core.ones_like(left[..., :1]), left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        left = _core.cat([_core.ones_like(left[..., :1]), left[..., :-1]], -1).clamp(min=finfo(y.dtype).tiny)
        n = y.size(-1)
        z = y / left.sqrt()
        return _core.cat([z[..., i, :i] for i in range(1, n)], -1).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        n = y.size(-1)
        squares = 1 - (y * y).cumsum(-1).tril(-2)
        stick = squares.log().tril(-2).flatten(-2).sum(-1) if n > 2 else _core.zeros_like(y[..., 0, 0])
        return 0.5 * stick + -2 * (x + _core.softplus(-2 * x) - math.log(2)).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = int((1 + math.isqrt(1 + 8 * shape[-1])) // 2)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Shape) -> Size:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Parts(Transform):
    """Several transforms, each for a piece of an axis."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _cut(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        raise NotImplementedError

    def _each(self, f: Callable[..., Tensor], *values: Tensor) -> list[Tensor]:
        return [f(t, *pieces) for t, *pieces in zip(self.transforms, *(self._cut(v) for v in values), strict=True)]

    def _call(self, x: Tensor) -> Tensor:
        return self._join(self._each(lambda t, a: t(a), x), self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join(self._each(lambda t, b: t.inv(b), y), self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join(self._each(lambda t, a, b: t.log_abs_det_jacobian(a, b), x, y), self.dim)


class StackTransform(_Parts):
    """tseq[i] for index i of the axis ``dim``"""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim

    def _cut(self, x: Tensor) -> list[Tensor]:
        return list(x.unbind(self.dim))

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        return _core.stack(parts, dim)

    @property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CatTransform(_Parts):
    """tseq[i] for the next lengths[i] elements of the axis ``dim``"""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim
        self.lengths = [1] * len(tseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"{len(self.transforms)} transforms need as many lengths, got {len(self.lengths)}")

    def _cut(self, x: Tensor) -> list[Tensor]:
        if x.size(self.dim) != sum(self.lengths):
            raise ValueError(f"axis {self.dim} of {tuple(x.shape)} must have {sum(self.lengths)} elements")
        return list(x.split(self.lengths, self.dim))

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        return _core.cat(parts, dim)

    @property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution."""

    bijective, sign, codomain = True, 1, constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        support: Constraint = self.distribution.support
        return support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
