"""Losses as functions. A ``reduction`` is "mean", "sum" or "none"."""

from __future__ import annotations

import warnings
from typing import Any

from ... import _core
from ..._core import Tensor
from ...autograd import Function
from ._mixed import full

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that PyTorch's old arguments ask for, where one of them is given."""
    if size_average is None and reduce is None:
        return reduction
    old = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{old}' instead.", stacklevel=3
    )
    return old


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _warn_of_shapes(input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}): they"
            " broadcast, which is rarely meant.",
            stacklevel=3,
        )


def _weighted(loss: Tensor, weight: Tensor | None) -> Tensor:
    return loss if weight is None else loss * weight


def _elementwise(loss: Tensor, input: Tensor, weight: Tensor | None, reduction: str, of_weights: bool) -> Tensor:
    """The loss, each element times its weight.  of_weights: the mean divides by the sum of the weights."""
    if weight is not None and weight.shape != input.shape:
        raise ValueError(f"Weights and input must have the same size, got {weight.size()} and {input.size()}")
    if weight is not None and of_weights and reduction == "mean":
        return (loss * weight).sum() / weight.sum()
    return _reduce(_weighted(loss, weight), reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(x - y)^2; with ``weight`` the mean is sum(w (x - y)^2) / sum(w)"""
    reduction = _reduction(size_average, reduce, reduction)
    _warn_of_shapes(input, target)
    return _core._named(_elementwise((input - target).square(), input, weight, reduction, True), "mse_loss")


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """abs(x - y); with ``weight`` the mean is sum(w abs(x - y)) / sum(w)"""
    reduction = _reduction(size_average, reduce, reduction)
    _warn_of_shapes(input, target)
    return _elementwise((input - target).abs(), input, weight, reduction, True)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """z^2 / 2 where z = abs(x - y) < delta, else delta (z - delta / 2)"""
    _warn_of_shapes(input, target)
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta: {delta}")
    z = (input - target).abs()
    loss = _core.where(z < delta, 0.5 * z.square(), delta * (z - 0.5 * delta))
    return _core._named(_elementwise(loss, input, weight, reduction, False), "huber_loss")


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """z^2 / (2 beta) where z = abs(x - y) < beta, else z - beta / 2"""
    reduction = _reduction(size_average, reduce, reduction)
    _warn_of_shapes(input, target)
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta: {beta}")
    z = (input - target).abs()
    loss = _core.where(z < beta, z.square() * (0.5 / beta), z - 0.5 * beta) if beta else z
    return _core._named(_reduce(loss, reduction), "smooth_l1_loss")


class _BinaryCrossEntropy(Function):
    """-(y log x + (1 - y) log(1 - x)), logarithms at least -100.  The gradient is (x - y) / (x (1 -
    x)) with at least 1e-12 below, where the logarithms are cut off as well: a prediction that is
    sure and wrong goes back."""

    _pure = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return (y - 1) * (-x).log1p().clamp(min=-100) - y * x.log().clamp(min=-100)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        dy = ctx.needs_input_grad[1]
        return grad * (x - y) / ((1 - x) * x).clamp(min=1e-12), (
            grad * ((-x).log1p().clamp(min=-100) - x.log().clamp(min=-100)) if dy else None
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight (y log x + (1 - y) log(1 - x)) of chances x in [0, 1]; logarithms are at least -100.
    RuntimeError: a chance outside.  ValueError: shapes differ."""
    reduction = _reduction(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated."
        )
    if input.numel() and not bool(((input >= 0).logical_and(input <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    loss = _weighted(_BinaryCrossEntropy.apply(input, target), weight)
    return _core._named(_reduce(loss, reduction), "binary_cross_entropy")


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-weight (pos_weight y log s + (1 - y) log(1 - s)), s = sigmoid(x), without overflow.
    ValueError: shapes differ."""
    reduction = _reduction(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    hits = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = _weighted((1 - target) * input - input.logsigmoid() * hits, weight)
    return _core._named(_reduce(loss, reduction), "binary_cross_entropy_with_logits")


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """y (log y - x) of logarithms x and chances y, or their logarithms with ``log_target``.
    reduction="batchmean": the sum over the first size, as the definition has it."""
    reduction = _reduction(size_average, reduce, reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        some = target > 0
        loss = _core.where(some, target * _core.where(some, target, 1.0).log(), target * 0) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.size(0) if input.ndim else loss
    return _reduce(loss, reduction)


def _rows_of_classes(input: Tensor) -> Tensor:
    """The axis of classes last : (C) or (N, C, ...) -> (..., C)"""
    if not input.ndim:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    return input if input.ndim <= 2 else input.movedim(1, -1)


def _check_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    shape = input.shape[:0] if input.ndim == 1 else (*input.shape[:1], *input.shape[2:])
    if tuple(target.shape) != tuple(shape):
        raise ValueError(f"Expected target size {list(shape)}, got {list(target.shape)} for input {list(input.shape)}")
    if weight is not None and tuple(weight.shape) != (input.size(min(1, input.ndim - 1)),):
        raise RuntimeError(
            "weight tensor should be defined either for all classes or no classes but got weight tensor of shape:"
            f" {list(weight.shape)}"
        )


def _picked(
    logs: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> Tensor:
    """-(1 - smoothing) w[y] logs[y] - smoothing / C sum(w logs), 0 where y is ``ignore_index``; the
    mean is over the weights : (..., C), (...) -> () or (...)"""
    ignored = target == ignore_index
    at = target.masked_fill(ignored, 0)
    loss = -logs.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    scale = (
        _core.ones(*at.shape, dtype=logs.dtype, device=logs.device)
        if weight is None
        else weight.index_select(0, at.flatten()).reshape(at.shape)
    )
    scale = scale.masked_fill(ignored, 0)
    loss = loss * scale
    if smoothing:
        spread = -_weighted(logs, weight).sum(-1) / logs.size(-1)
        loss = (1 - smoothing) * loss + smoothing * spread
    loss = loss.masked_fill(ignored, 0)
    return loss.sum() / scale.sum() if reduction == "mean" else _reduce(loss, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight[y] x[y] of logarithms x : (N, C, ...), (N, ...) of classes or (C), () -> () or (N,
    ...).  The mean is over the weights. IndexError: a class outside 0 ... C - 1 that is not
    ``ignore_index``."""
    reduction = _reduction(size_average, reduce, reduction)
    _check_classes(input, target, weight)
    loss = _picked(_rows_of_classes(input), target, weight, ignore_index, reduction, 0.0)
    return _core._named(loss, "nll_loss")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-weight[y] log softmax(x)[y] : logits (N, C, ...) and classes (N, ...), or (C) and () -> ()
    or (N, ...).  The mean is over the weights. A target of the logits' shape holds the chances of
    all classes instead: -sum(weight y log softmax(x)). label_smoothing: this part of the target is
    spread over all classes.  IndexError: a class outside 0 ... C - 1 that is not
    ``ignore_index``."""
    reduction = _reduction(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    rows = _rows_of_classes(input)
    if target.shape == input.shape and target.is_floating_point():
        classes = rows.size(-1)
        rows = full(rows)
        wanted = _rows_of_classes(target)
        if label_smoothing:
            wanted = wanted * (1 - label_smoothing) + label_smoothing / classes
        loss = -(_weighted(rows.log_softmax(-1), weight) * wanted).sum(-1)
        return loss.sum() / max(1, loss.numel()) if reduction == "mean" else _reduce(loss, reduction)
    _check_classes(input, target, weight)
    if weight is None:
        return _core._cross_entropy(rows, target, ignore_index, label_smoothing, reduction)
    loss = _picked(full(rows).log_softmax(-1), target, weight, ignore_index, reduction, label_smoothing)
    return _core._named(loss, "nll_loss")


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """``cross_entropy`` of the logits input linear_weight^T + linear_bias : (N, D), (C, D), (N) -> () or (N).
    Without bias and weights, no tensor of yours holds the logits, and their gradient takes no memory."""
    ignored = -100 if ignore_index is None else ignore_index
    classes = not target.is_floating_point() and target.shape == input.shape[:-1]
    if linear_bias is None and weight is None and classes and input.ndim == 2 and 0 <= label_smoothing <= 1:
        return _core._linear_cross_entropy(input, linear_weight, target, ignored, label_smoothing, reduction)
    logits = _core._linear(input, linear_weight, linear_bias)
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )
