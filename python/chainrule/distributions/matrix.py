"""Distributions of matrices: Wishart's, and LKJ's of correlations."""

from __future__ import annotations

import math

from .. import _core
from .._core import Tensor
from .._dtypes import broadcast_shapes, finfo
from ..special import mvlgamma
from . import constraints
from ._linalg import cholesky, from_precision, inverse_lower, log_det_half, solve_lower
from ._sampling import standard_gamma
from .distribution import Distribution, ExponentialFamily, Number, Shape, derived, scalars, together
from .gamma import Beta

__all__ = ["LKJCholesky", "Wishart"]


def mvdigamma(a: Tensor, p: int) -> Tensor:
    """The derivative of ``mvlgamma``: the sum over i < p of digamma(a - i / 2)"""
    return (a[..., None] - _core.arange(p, dtype=a.dtype, device=a.device) / 2).digamma().sum(-1)


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1)


class Wishart(ExponentialFamily):
    """The sum of df products z z^T, z normal with mean 0 and covariance V: matrices X (P, P) with a density
    proportional to det(X)^((df - P - 1) / 2) exp(-tr(V^-1 X) / 2).  One of covariance_matrix (V),
    precision_matrix (its inverse) and scale_tril (its lower factor) is given; df > P - 1."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True
    df: Tensor

    def __init__(
        self,
        df: Number,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        chosen = [(name, m) for name, m in given.items() if m is not None]
        if len(chosen) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = chosen
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        nu = df if isinstance(df, Tensor) else _core.tensor(float(df), dtype=matrix.dtype, device=matrix.device)
        batch = broadcast_shapes(matrix.shape[:-2], nu.shape)
        self.df = nu.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        p = matrix.shape[-1]
        if bool((self.df <= p - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        super().__init__(batch, matrix.shape[-2:], validate_args)
        if name == "scale_tril":
            self._lower = matrix
        else:
            self._lower = cholesky(matrix) if name == "covariance_matrix" else from_precision(matrix)

    @derived
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of V."""
        return self._lower.expand(self._batch_shape + self._event_shape)

    @derived
    def covariance_matrix(self) -> Tensor:
        """V"""
        return (self._lower @ self._lower.transpose(-2, -1)).expand(self._batch_shape + self._event_shape)

    @derived
    def precision_matrix(self) -> Tensor:
        """The inverse of V."""
        inverse = inverse_lower(self._lower)
        return (inverse.transpose(-2, -1) @ inverse).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN where df <= P + 1."""
        n = self.df - self._event_shape[0] - 1
        return _core.where(n > 0, n, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        d = _diagonal(v)
        return self.df[..., None, None] * (v * v + d[..., :, None] * d[..., None, :])

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Bartlett's: (L A)(L A)^T, A lower triangular with standard normal numbers and roots of chi-squared ones."""
        p, shape = self._event_shape[0], self._extended_shape(sample_shape)
        half = (self.df[..., None] - _core.arange(p, dtype=self.df.dtype, device=self.df.device)) / 2
        roots = (2 * standard_gamma(half.expand(shape[:-1]))).clamp(min=finfo(half.dtype).tiny).sqrt()
        normal = _core.randn(shape, dtype=self._lower.dtype, device=self._lower.device).tril(-1)
        root = self._lower @ (normal + _core.diag_embed(roots))
        return root @ root.transpose(-2, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        p, nu = self._event_shape[0], self.df
        lower = cholesky(self._checked(value))
        batch = broadcast_shapes(lower.shape[:-2], self._batch_shape)
        z = solve_lower(self._lower.expand((*batch, p, p)), lower.expand((*batch, p, p)))
        constant = nu * (p * math.log(2) / 2 + log_det_half(self._lower)) + mvlgamma(nu / 2, p)
        return (nu - p - 1) * log_det_half(lower) - (z * z).sum((-2, -1)) / 2 - constant

    def entropy(self) -> Tensor:
        p, nu = self._event_shape[0], self.df
        scale = (p + 1) * (p * math.log(2) / 2 + log_det_half(self._lower))
        h = scale + mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * mvdigamma(nu / 2, p) + nu * p / 2
        return h.expand(self._batch_shape)


class LKJCholesky(Distribution):
    """Lower factors L of correlation matrices (dim, dim), with a density of L L^T proportional to
    det(L L^T)^(concentration - 1): Lewandowski, Kurowicka and Joe (2009).  Samples are drawn row by row
    (their onion method), without gradients."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Tensor

    def __init__(self, dim: int, concentration: Number = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = together(concentration)
        batch = () if scalars(concentration) else self.concentration.shape
        super().__init__(batch, (dim, dim), validate_args)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eta, n = self.concentration.detach()[..., None], self.dim
        row = _core.arange(n, dtype=eta.dtype, device=eta.device)
        k = row.clamp(min=1)  # numbers below the diagonal; row 0 has none, and its radius is not used
        radius = Beta(k / 2, (eta + (n - 1 - k) / 2).expand((*self._batch_shape, n)), False)
        squared = radius.sample(tuple(shape[: len(shape) - 2 - len(self._batch_shape)]))
        direction = _core.randn(shape, dtype=eta.dtype, device=eta.device).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True).clamp(min=finfo(eta.dtype).tiny)
        lower = squared.sqrt()[..., None] * direction
        rest = (1 - (lower * lower).sum(-1)).clamp(min=finfo(eta.dtype).tiny)
        return lower + _core.diag_embed(rest.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        eta, n = self.concentration, self.dim
        rows = _core.arange(1, n, dtype=eta.dtype, device=eta.device)
        power = 2 * (eta[..., None] - 1) + n - 1 - rows
        angles = (power * _diagonal(self._checked(value))[..., 1:].log()).sum(-1)
        a = eta + (n - 1) / 2
        return angles - (n - 1) / 2 * math.log(math.pi) - mvlgamma(a - 0.5, n - 1) + (n - 1) * a.lgamma()
