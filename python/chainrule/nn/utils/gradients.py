"""Functions of the gradients, or of the values, of many parameters at once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from ... import _core
from ..._core import Tensor
from ...autograd import no_grad

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]

Tensors = Tensor | Iterable[Tensor]


def _gradients(parameters: Tensors) -> list[Tensor]:
    each = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in each if p.grad is not None]


@no_grad
def _joint_norm(tensors: list[Tensor], order: float, error_if_nonfinite: bool) -> float:
    norm = (
        _core._total_norm(tensors)
        if order == 2 or not tensors
        else _core.stack([t.norm(order) for t in tensors]).norm(order).item()
    )
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped."
        )
    return norm


def _like(norm: Tensor, tensors: list[Tensor]) -> Tensor:
    """The norm as a result: float64 where the tensors are, else float32."""
    if not tensors:
        return norm.to(_core.float32)
    return norm.to(tensors[0].device, _core.float64 if tensors[0].dtype is _core.float64 else _core.float32)


def get_total_norm(tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Tensor:
    """The norm of all elements as one vector : ().  RuntimeError: it is not finite, where that is asked."""
    each = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _like(_core.tensor(_joint_norm(each, norm_type, error_if_nonfinite), dtype=_core.float64), each)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales all gradients in place by min(1, max_norm / (norm + 1e-6)), norm that of all of them
    as one vector; returns the norm.  foreach changes nothing."""
    grads = _gradients(parameters)
    if norm_type == 2 and max_norm >= 0 and not error_if_nonfinite:
        return _like(_core._clip_grad_norm(grads, max_norm), grads)
    norm = _joint_norm(grads, norm_type, error_if_nonfinite)
    scale = max_norm / (norm + 1e-6)
    if not scale >= 1:  # also where it is NaN
        _core._scale_grads(grads, scale)
    return _like(_core.tensor(norm, dtype=_core.float64), grads)


@no_grad
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Puts all elements of the gradients within [-clip_value, clip_value].  foreach changes nothing."""
    for grad in _gradients(parameters):
        grad.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements, one tensor after the other."""
    return _core.cat([p.flatten() for p in parameters])


@no_grad
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes the elements of a vector into the tensors, one after the other."""
    at = 0
    for p in parameters:
        p.copy_(vec[at : at + p.numel()].view_as(p))
        at += p.numel()


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales all gradients in place by min(1, max_norm / (total_norm + 1e-6)).  foreach changes nothing."""
    grads = _gradients(parameters)
    scale = max_norm / (total_norm.item() + 1e-6)
    if not scale >= 1:
        _core._scale_grads(grads, scale)


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """``clip_grad_norm_``, by its old name."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
