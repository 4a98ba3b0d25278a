"""``chainrule.nn.utils.parametrizations``: weights by direction and length, of spectral norm 1, or orthogonal."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor, cat
from ...autograd import no_grad
from ...linalg import matrix_exp
from .. import functional as F
from ..module import Module
from ._orthogonal import cayley, householder, orthonormal, reflections
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _norm_except(weight: Tensor, dim: int) -> Tensor:
    """The norms over all axes but one, which stays; of all elements, (), where dim is -1."""
    if dim == -1:
        return weight.norm()
    return weight.norm(2, [i for i in range(weight.ndim) if i != dim % weight.ndim], keepdim=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """weight = g v / norm(v), the norm over all axes but ``dim``, or all with None; g and v are
    ``original0`` and ``original1`` (Salimans and Kingma 2016)"""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def old_names(state: dict[str, Any], prefix: str, *_: Any) -> None:
        for old, new in (("g", 0), ("v", 1)):
            if f"{prefix}{name}_{old}" in state:
                state[f"{prefix}parametrizations.{name}.original{new}"] = state.pop(f"{prefix}{name}_{old}")

    module._register_load_state_dict_pre_hook(old_names)
    return module


class _SpectralNorm(Module):
    """u and v come nearer to the first singular vectors with each call in training, by the power method."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            for axis, vector in enumerate(("_u", "_v")):
                start = matrix.new_empty(matrix.size(axis)).normal_(0, 1)
                self.register_buffer(vector, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, matrix: Tensor, times: int) -> None:
        for _ in range(times):
            self._u = F.normalize(matrix @ self._v, dim=0, eps=self.eps)
            self._v = F.normalize(matrix.mT @ self._u, dim=0, eps=self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        return weight / (self._u * (matrix @ self._v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def _output_axis(module: Module) -> int:
    """Where the weight of a layer has its outputs: second in transposed convolutions."""
    return 1 if type(module).__name__.startswith(("ConvTranspose", "ParametrizedConvTranspose")) else 0


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """weight / sigma, sigma the largest singular value of the weight as a matrix (dim, rest),
    estimated by the power method, with ``n_power_iterations`` a call in training (Miyato et al. 2018)"""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    axis = _output_axis(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))


class _Orthogonal(Module):
    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map, self.use_trivialization = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        x = x.mT if wide else x  # (..., n, k), n >= k
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            q = householder(x) * x.detach().diagonal(0, -2, -1).long().unsqueeze(-2).to(x.dtype)
        else:
            square = F.pad(x.tril(), (0, n - k))
            skew = square - square.mT
            q = (matrix_exp(skew) if self.orthogonal_map == "matrix_exp" else cayley(skew))[..., :k]
        if self.use_trivialization and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    @no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        wide = q.size(-2) < q.size(-1)
        tall = q.mT if wide else q
        if not self.use_trivialization:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when"
                    " use_trivialization=False."
                )
            found = reflections(orthonormal(tall))
            return found.mT if wide else found
        n, k = tall.shape[-2:]
        noise = tall.new_empty((*tall.shape[:-2], n, n - k)).normal_()
        self.base = orthonormal(cat([tall, noise], -1) if n > k else tall)
        start = q.new_zeros(q.shape)
        start.diagonal(0, -2, -1).fill_(-1.0)  # householder of this is I
        return start


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """A weight (..., n, k) with orthonormal columns, or rows where it is wide, by "matrix_exp" (of a
    skew-symmetric matrix; the default where it is square), "cayley" or "householder" (the default
    otherwise). use_trivialization: times a fixed orthogonal matrix, so that any can be assigned."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    chosen = orthogonal_map or ("matrix_exp" if weight.size(-2) == weight.size(-1) else "householder")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, chosen, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
