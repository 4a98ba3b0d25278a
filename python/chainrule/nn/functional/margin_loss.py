"""Losses of pairs, triplets and labels as functions.  ``reduction``: as in ``loss``."""

from __future__ import annotations

from collections.abc import Callable

from ... import _core
from ..._core import Tensor
from ..._transformed import values_of
from .distance import pairwise_distance
from .loss import _reduce, _reduction, _weighted

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where y is 1, max(0, cos(x1, x2) - margin) where it is -1 : (N, C) x 2, (N)
    or (C) x 2, () -> () or (N)"""
    reduction = _reduction(size_average, reduce, reduction)
    if input1.shape != input2.shape or input1.ndim not in (1, 2) or tuple(target.shape) != tuple(input1.shape[:-1]):
        raise RuntimeError(
            f"1D target tensor expects 2D input tensors, but found sizes {list(input1.shape)}, {list(input2.shape)} and"
            f" {list(target.shape)}"
        )
    cosine = (input1 * input2).sum(-1) / ((input1.square().sum(-1) + 1e-12) * (input2.square().sum(-1) + 1e-12)).sqrt()
    alike = _core.where(target == 1, 1 - cosine, 0.0)
    return _reduce(_core.where(target == -1, (cosine - margin).clamp(min=0), alike), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where y is 1, max(0, margin - x) where it is -1"""
    reduction = _reduction(size_average, reduce, reduction)
    return _reduce(
        _core.where(target != 1, (margin - input).clamp(min=0), 0.0) + _core.where(target != -1, input, 0.0), reduction
    )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """sum of w[y] max(0, margin - x[y] + x[i])^p over the classes i != y, divided by C : (N, C),
    (N) or (C), () or (1) -> () or the target's shape. A scalar counts as one class."""
    reduction = _reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if input.ndim > 2 or (input.ndim and not input.size(-1)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    rows = input.reshape(-1, input.size(-1) if input.ndim else 1)
    if target.ndim > 1 or target.numel() != rows.size(0):
        raise ValueError(f"inconsistent target size, expected {rows.size(0)} but got {list(target.shape)}")
    if weight is not None and tuple(weight.shape) != (rows.size(1),):
        raise RuntimeError(f"inconsistent weight size, expected {rows.size(1)} but got {list(weight.shape)}")
    at = target.reshape(-1, 1)
    gap = (margin - rows.gather(-1, at) + rows).clamp(min=0)
    gap = gap.square() if p == 2 else gap
    if weight is not None:
        gap = gap * weight.index_select(0, target.flatten()).reshape(at.shape)
    own = _core.arange(rows.size(-1), device=input.device) == at
    return _reduce((gap.masked_fill(own, 0).sum(-1) / rows.size(-1)).reshape(target.shape), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - y (x1 - x2)); y is 1 where x1 should be the larger, -1 where x2 should"""
    reduction = _reduction(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1:"
            f" {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduce((margin - target * (input1 - input2)).clamp(min=0), reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + e^(-y x)), y 1 or -1"""
    reduction = _reduction(size_average, reduce, reduction)
    return _reduce(-(target * input).logsigmoid(), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-mean over the C classes of weight (y log s + (1 - y) log(1 - s)), s = sigmoid(x) : (N, C) x 2 -> () or (N)"""
    reduction = _reduction(size_average, reduce, reduction)
    if target.size() != input.size():  # PyTorch broadcasts; its documentation wants one shape
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    loss = -(target * input.logsigmoid() + (1 - target) * (-input).logsigmoid())
    return _reduce(_weighted(loss, weight).mean(-1), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """sum of max(0, 1 - x[j] + x[i]) over the true classes j and the false classes i, divided by C :
    (N, C) x 2 -> () or (N), or (C) x 2 -> ().  A row of targets lists the true classes up to the first -1."""
    reduction = _reduction(size_average, reduce, reduction)
    if input.ndim > 2 or (input.ndim and not input.size(-1)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    rows, named = (
        input.reshape(-1, input.size(-1) if input.ndim else 1),
        target.reshape(-1, input.size(-1) if input.ndim else 1),
    )
    if bool(values_of((named >= rows.size(1)).logical_or(named < -1)).any()):
        raise RuntimeError("argument #2 'target' is out of range")
    listed = (named < 0).long().cumsum(1) == 0  # before the first -1
    at = named.masked_fill(~listed, 0)
    true = _core.zeros(*rows.shape, dtype=_core.int64, device=input.device).scatter_add(1, at, listed.long()) > 0
    gaps = (1 - rows.gather(1, at).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)  # (N, j, i)
    kept = gaps.masked_fill(~listed.unsqueeze(2).logical_and(~true.unsqueeze(1)), 0)
    return _reduce((kept.sum((1, 2)) / rows.size(1)).reshape(input.shape[:-1]), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin), d the ``pairwise_distance``, with ``swap`` the smaller of
    d(a, n) and d(p, n) : (N, D) x 3 -> () or (N), or (D) x 3 (Balntas et al. 2016)"""
    reduction = _reduction(size_average, reduce, reduction)
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda x, y: pairwise_distance(x, y, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with a distance of one's own: of (N, D) x 2 -> (N)."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got:"
            f" anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return _reduce((margin + near - far).clamp(min=0), reduction)
