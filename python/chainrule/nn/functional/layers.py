"""Layers: linear maps and embeddings as functions."""

from __future__ import annotations

import math

from ... import _core
from ..._core import Tensor
from ..._transformed import values_of
from ...autograd import no_grad

__all__ = [
    "bilinear",
    "embedding",
    "embedding_bag",
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
    sparse: bool = False,
) -> Tensor:
    """weight[input] : (...) of ints, (V, C) -> (..., C). padding_idx: its row gets no gradient.
    max_norm: rows looked up that have a larger ``norm_type`` norm are scaled to it, in place.
    scale_grad_by_freq: a row's gradient is divided by how often it is looked up.  sparse:
    accepted; gradients are dense.  IndexError: an index outside 0 ... V - 1."""
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


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[Tensor, int]:
    """The bag of each index, and how many bags there are."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length"
                " sequences."
            )
        bags, length = input.shape
        return _core.arange(bags, device=input.device).repeat_interleave(length), bags
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.long()
    if starts.numel():
        first, last = int(values_of(starts[0]).abs().max()), int(values_of(starts[-1]).max())
        if first:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
                f" However, got {first}"
            )
        if last > input.numel():
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length({input.numel()}) but got offsets[-1] of {last}"
            )
    bags = len(starts) - include_last_offset
    if bags < 0:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    at = _core.arange(input.numel(), device=input.device)
    return _core.searchsorted(starts[:bags].contiguous(), at, right=True) - 1, bags


def _largest(rows: Tensor, bag: Tensor, bags: int, left_out: Tensor | None) -> Tensor:
    """The largest of each column in each bag, 0 in an empty one; of equal ones the first gets the
    gradient : (K, C), (K), (K, 1) -> (bags, C)"""
    count, width = rows.shape
    at = bag.unsqueeze(1).expand(count, width)
    with no_grad():
        most = _core.full((bags, width), -math.inf, dtype=rows.dtype, device=rows.device)
        given = rows if left_out is None else rows.masked_fill(left_out, -math.inf)
        most = most.scatter_reduce(0, at, given, "amax")
        index = _core.arange(count, device=rows.device).unsqueeze(1)
        index = index.expand(count, width).masked_fill(given != most.gather(0, at), count)
        index = index if left_out is None else index.masked_fill(left_out, count)
        first = _core.full((bags, width), count, dtype=_core.int64, device=rows.device)
        first = first.scatter_reduce(0, at, index, "amin")
        empty = first == count
    if not count:
        return rows.new_zeros(bags, width)
    return rows.gather(0, first.masked_fill(empty, 0)).masked_fill(empty, 0)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of weight[i] over each bag of indices : input (B, n), or (K) with the
    starts of the bags in offsets (B), and weight (V, C) -> (B, C). per_sample_weights: factors of the
    rows, with "sum" only. include_last_offset: the last offset is the end of the last bag.
    padding_idx: left out of its bag. Other arguments are those of ``embedding``."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and per_sample_weights.size() != input.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have"
            f" the same shape as the input ({list(input.shape)})"
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got"
            f" mode='{mode}')."
        )
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")
    bag, bags = _bags(input, offsets, include_last_offset)
    at, factors = input.flatten(), None if per_sample_weights is None else per_sample_weights.flatten()
    left_out = None
    if padding_idx is not None:
        if not -len(weight) <= padding_idx < len(weight):
            raise RuntimeError(f"padding_idx must be within num_embeddings: {padding_idx} of {len(weight)}")
        left_out = (at == padding_idx % len(weight)).unsqueeze(1)
    rows = embedding(at, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if mode == "max":
        return _largest(rows, bag, bags, left_out)
    rows = rows if factors is None else rows * factors.unsqueeze(1)
    rows = rows if left_out is None else rows.masked_fill(left_out, 0)
    total = rows.new_zeros(bags, rows.size(1)).index_add(0, bag, rows)
    if mode == "sum":
        return total
    counted = _core.ones_like(at) if left_out is None else left_out.logical_not().squeeze(1).long()
    counts = counted.new_zeros(bags, dtype=_core.int64).index_add(0, bag, counted.long())
    return total / counts.clamp(min=1).unsqueeze(1).to(total.dtype)
