"""Normal distributions of vectors, and mixtures."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Size, Tensor
from .._dtypes import broadcast_shapes
from ..autograd import no_grad
from . import constraints
from ._linalg import cholesky, from_precision, inverse_lower, log_det_half, solve_lower_vector
from ._sampling import LOG_2PI
from .discrete import Categorical
from .distribution import Distribution, Shape, derived

__all__ = ["LowRankMultivariateNormal", "MixtureSameFamily", "MultivariateNormal"]


def _squared(lower: Tensor, diff: Tensor) -> Tensor:
    """diff^T (L L^T)^-1 diff"""
    z = solve_lower_vector(lower, diff)
    return (z * z).sum(-1)


def _matvec(a: Tensor, x: Tensor) -> Tensor:
    return (a @ x[..., None])[..., 0]


class MultivariateNormal(Distribution):
    """loc + L z, z standard normal, L = scale_tril: its covariance is L L^T.  One of covariance_matrix,
    precision_matrix (the inverse) and scale_tril is given.  L of a covariance is computed column by column
    (``_linalg``), with gradients: for vectors of tens of elements."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
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
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        if name == "scale_tril":
            self._lower = matrix
        else:
            self._lower = cholesky(matrix) if name == "covariance_matrix" else from_precision(matrix)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> MultivariateNormal:
        return super().expand(batch_shape, _instance)

    @derived
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance."""
        return self._lower.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @derived
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        c = self._lower @ self._lower.transpose(-2, -1)
        return c.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @derived
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        inverse = inverse_lower(self._lower)
        p = inverse.transpose(-2, -1) @ inverse
        return p.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self._lower * self._lower).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        z = _core.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _matvec(self._lower, z)

    def log_prob(self, value: Tensor) -> Tensor:
        diff = self._checked(value) - self.loc
        n = self._event_shape[0]
        return -0.5 * (n * LOG_2PI + _squared(self._lower, diff)) - log_det_half(self._lower)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        return (0.5 * n * (1 + LOG_2PI) + log_det_half(self._lower)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """A normal distribution with the covariance W W^T + diag(D), W cov_factor (..., N, R), D cov_diag (..., N).  The
    determinant and the inverse come from the R x R matrix I + W^T D^-1 W (Woodbury)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n[0]} x m")
        if cov_diag.shape[-1:] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {tuple(n)}")
        batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch, *n))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *n))
        super().__init__(batch, n, validate_args)

    def _capacitance(self) -> Tensor:
        """The factor of I + W^T D^-1 W"""
        w = self.cov_factor
        weighted = w.transpose(-2, -1) / self.cov_diag[..., None, :]
        return cholesky(_core.eye(w.size(-1), dtype=w.dtype, device=w.device) + weighted @ w)

    @property
    def covariance_matrix(self) -> Tensor:
        """W W^T + diag(D)"""
        return self.cov_factor @ self.cov_factor.transpose(-2, -1) + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        from ._linalg import solve_lower

        half = solve_lower(self._capacitance(), self.cov_factor.transpose(-2, -1) / self.cov_diag[..., None, :])
        return self.cov_diag.reciprocal().diag_embed() - half.transpose(-2, -1) @ half

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor * self.cov_factor).sum(-1) + self.cov_diag

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        dtype, device = self.loc.dtype, self.loc.device
        w = _core.randn((*shape[:-1], self.cov_factor.size(-1)), dtype=dtype, device=device)
        d = _core.randn(shape, dtype=dtype, device=device)
        return self.loc + _matvec(self.cov_factor, w) + self.cov_diag.sqrt() * d

    def _log_det(self) -> Tensor:
        return 2 * log_det_half(self._capacitance()) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        diff = self._checked(value) - self.loc
        scaled = diff / self.cov_diag
        squared = (diff * scaled).sum(-1) - _squared(
            self._capacitance(), _matvec(self.cov_factor.transpose(-2, -1), scaled)
        )
        return -0.5 * (self._event_shape[0] * LOG_2PI + self._log_det() + squared)

    def entropy(self) -> Tensor:
        return 0.5 * (self._event_shape[0] * (1 + LOG_2PI) + self._log_det())


class _MixtureSupport(constraints.Constraint):
    """The support of the components, of a value without their axis."""

    def __init__(self, base: constraints.Constraint) -> None:
        self.base_constraint, self.is_discrete, self.event_dim = base, base.is_discrete, base.event_dim

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return inside.flatten(inside.dim() - self.event_dim - 1).all(-1) if inside.dim() else inside

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class MixtureSameFamily(Distribution):
    """One of the distributions along the last axis of component_distribution's batch, drawn by mixture_distribution"""

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        mixed, inner = mixture_distribution.batch_shape, component_distribution.batch_shape
        for a, b in zip(reversed(mixed), reversed(inner[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({tuple(mixed)}) is not compatible with"
                    f" `component_distribution.batch_shape`({tuple(inner)})"
                )
        count, given = mixture_distribution.logits.shape[-1], inner[-1] if inner else None
        if given is not None and count != given:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]`"
                f" ({given})"
            )
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(inner[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> MixtureSameFamily:
        count = self._component_distribution.batch_shape[-1]
        return MixtureSameFamily(
            self._mixture_distribution.expand(batch_shape),
            self._component_distribution.expand((*batch_shape, count)),
            validate_args=False,
        )

    @property
    def support(self) -> constraints.Constraint:
        """The support of the components."""
        return _MixtureSupport(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Draws the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last axis of the batch."""
        return self._component_distribution

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *[1] * self._event_ndims))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean variance and the variance of the means."""
        weights, inner = self._weights(), self._component_distribution
        spread = (inner.mean - self._pad(self.mean)) ** 2
        return (weights * (inner.variance + spread)).sum(-1 - self._event_ndims)

    def cdf(self, value: Tensor) -> Tensor:
        below = self._component_distribution.cdf(self._pad(self._checked(value)))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        inner = self._component_distribution.log_prob(self._pad(self._checked(value)))
        return (inner + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            shape = Size(sample_shape)
            at = self._mixture_distribution.expand(self._batch_shape).sample(shape)
            x = self._component_distribution.sample(shape)
            n = len(shape) + len(self._batch_shape)
            index = at.reshape((*at.shape, *[1] * (1 + self._event_ndims)))
            index = index.expand((*x.shape[:n], 1, *self._event_shape))
            return x.gather(n, index).squeeze(n)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution!r},\n  {self._component_distribution!r})"
