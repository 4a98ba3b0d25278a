"""Layers: linear maps, embeddings and dropout as functions."""

from __future__ import annotations

from ... import _core
from ..._core import Tensor
from ...autograd import no_grad

__all__ = [
    "bilinear",
    "dropout",
    "embedding",
    "linear",
]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input weight^T + bias : (..., C), (OC, C), (OC) -> (..., OC).  A weight (C) is one output: (..., C) -> (...)."""
    if weight.ndim != 1:
        return _core._linear(input, weight, bias)
    y = input @ weight
    return y if bias is None else y + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[k] = input1^T weight[k] input2 + bias[k] : (..., C1), (..., C2), (OC, C1, C2), (OC) -> (..., OC)"""
    out, c1, c2 = weight.shape
    left = linear(input1, weight.transpose(1, 2).reshape(out * c2, c1)).unflatten(-1, (out, c2))
    y = (left @ input2.unsqueeze(-1)).squeeze(-1)
    return y if bias is None else y + bias


def _lookups(weight: Tensor, input: Tensor) -> Tensor:
    """How often each row of the table is looked up : (V)"""
    ones = _core.ones(input.numel(), dtype=weight.dtype, device=weight.device)
    return _core.zeros(len(weight), dtype=weight.dtype, device=weight.device).scatter_add(0, input.flatten(), ones)


def _shrink_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales, in place, the rows that are looked up and have a norm above ``max_norm`` to this norm."""
    with no_grad():
        norm = weight.norm(norm_type, 1, keepdim=True)
        used = _lookups(weight, input).unsqueeze(1) > 0
        weight.mul_(_core.where((norm > max_norm).logical_and(used), max_norm / (norm + 1e-7), 1.0))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """weight[input] : (...) of ints, (V, C) -> (..., C). padding_idx: its row gets no gradient.
    max_norm: rows looked up that have a larger ``norm_type`` norm are scaled to it, in place.
    scale_grad_by_freq: a row's gradient is divided by how often it is looked up.  IndexError: an
    index outside 0 ... V - 1."""
    if padding_idx is not None and not -len(weight) <= padding_idx < len(weight):
        raise AssertionError(f"padding_idx must be within num_embeddings: {padding_idx} of {len(weight)}")
    if max_norm is not None:
        _shrink_rows(weight, input, max_norm, norm_type)
    y = _core._embedding(weight, input)
    if y.requires_grad and padding_idx is not None:
        padding = (input == padding_idx % len(weight)).unsqueeze(-1)
        y.register_hook(lambda g: g.masked_fill(padding, 0))
    if y.requires_grad and scale_grad_by_freq:
        share = _core._embedding(_lookups(weight, input).reciprocal().unsqueeze(1), input)
        y.register_hook(lambda g: g * share)
    return y


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is 0 with the chance p, else divided by 1 - p; otherwise input.
    inplace is allowed and not needed."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _core._dropout(input, p) if training and p > 0 else input
