"""``chainrule.distributions.utils``: what distributions of a program's own are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from .. import _core
from .._core import Device, Size, Tensor
from ..autograd import enable_grad
from .discrete import _clamped
from .distribution import sum_last
from .distribution import together as broadcast_all

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

R = TypeVar("R")


def clamp_probs(probs: Tensor) -> Tensor:
    """Chances at least the spacing of the dtype's numbers away from 0 and 1."""
    return _clamped(probs)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log(p), or log(p / (1 - p)) of the chances of one of two values."""
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The softmax along the last axis, or the sigmoid for one of two values."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


class lazy_property(Generic[R]):  # noqa: N801, PyTorch's name
    """A method as an attribute that is computed when it is first read, with gradients recorded."""

    def __init__(self, wrapped: Callable[[Any], R]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance: Any, obj_type: Any = None) -> R:
        if instance is None:
            return self  # type: ignore[return-value]
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal, row by row : (..., N, N) -> (..., M)"""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = _core.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of ``tril_matrix_to_vec``, with zeros above the diagonal."""
    m, n = vec.shape[-1], 0
    while (count := sum(min(n, max(0, i + diag + 1)) for i in range(n))) < m:
        n += 1
    if count > m:
        raise ValueError(
            f"The size of last dimension is {m} which cannot be expressed as the lower triangular part of a square"
            " D x D matrix."
        )
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    rows, columns = _core.tril_indices(n, n, diag)
    mat[..., rows, columns] = vec
    return mat


def _standard_normal(shape: Sequence[int], dtype: _core.dtype, device: Device | str) -> Tensor:
    return _core.randn(Size(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    return sum_last(value, dim)
