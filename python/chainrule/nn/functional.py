"""``chainrule.nn.functional``: layers, activations and losses as functions.  The modules of ``chainrule.nn`` call them.

Letters in shapes: N and B batch, C channels or classes, T and S times, H heads, D head size, OC outputs.
A ``reduction`` is "mean", "sum" or "none".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor, one_hot, pad
from ..autograd import Function, no_grad

__all__ = [
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]


# ---- layers ----


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


def _attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """softmax(scale q k^T + mask) : (..., T, S); 0 for a query that sees no key."""
    scores = (query * scale) @ key.mT
    if mask is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is _core.bool else scores + mask
    blind = scores == -math.inf
    return scores.softmax(-1).masked_fill(blind, 0)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale q k^T + mask) v : (..., T, D), (..., S, D), (..., S, Dv) -> (..., T, Dv); scale
    is 1 / sqrt(D) when absent.  A query that sees no key gives 0. attn_mask: broadcasts to (..., T,
    S); bool, true where t sees s, or floats that are added to the scores.  is_causal: query t sees
    the keys <= t. enable_gqa: key and value have fewer heads (axis -3), each for several
    neighbouring heads of the query.  No matrix of all scores is kept but with dropout, D other than
    Dv, or more than four axes."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("[scaled_dot_product_attention] explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = (
            x.unsqueeze(-3).expand(*x.shape[:-2], query.size(-3) // x.size(-3), *x.shape[-2:]).flatten(-4, -3)
            for x in (key, value)
        )
    if is_causal and query.size(-2) != key.size(-2):  # the C library counts from the last query
        is_causal, attn_mask = (
            False,
            _core.ones(query.size(-2), key.size(-2), dtype=_core.bool, device=query.device).tril(),
        )
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2] and query.size(-1) == value.size(-1)
    if alike and dropout_p == 0 and scale != 0 and 2 <= query.ndim <= 4:
        axes = (1,) * (4 - query.ndim)
        q, k, v = (x.reshape(*axes, *x.shape) for x in (query, key, value))
        y = _core._attention(q, k, v, is_causal, scale, attn_mask)
        return y.squeeze(tuple(range(len(axes)))) if axes else y
    if is_causal:
        attn_mask = _core.ones(query.size(-2), key.size(-2), dtype=_core.bool, device=query.device).tril()
    return dropout(_attention_weights(query, key, attn_mask, scale), dropout_p) @ value


# ---- norms ----


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x weight + bias along axis 1 : (N, C, ...), (C) -> (N, C, ...)"""
    shape = (-1,) + (1,) * (x.ndim - 2)
    for what, of in (("weight", weight), ("bias", bias)):
        if of is not None and tuple(of.shape) != (x.size(1),):
            raise RuntimeError(
                f"Expected {what} to be a vector of size equal to the number of channels in input, but got"
                f" {list(of.shape)} for {list(x.shape)}"
            )
    if weight is not None:
        x = x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def _over_last(
    input: Tensor, normalized_shape: Sequence[int], *parameters: Tensor | None
) -> tuple[Tensor, list[Tensor | None]]:
    """The axes of ``normalized_shape`` as one, for input and parameters."""
    shape, n = tuple(normalized_shape), len(normalized_shape)
    if not n or tuple(input.shape[-n:]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but"
            f" got {list(input.shape)}"
        )
    for p in parameters:
        if p is not None and tuple(p.shape) != shape:
            raise RuntimeError(
                f"Expected weight and bias to be of the shape of normalized_shape, {list(shape)}, but got"
                f" {list(p.shape)}"
            )
    return input.flatten(-n), [None if p is None else p.flatten() for p in parameters]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) weight + bias over the last axes, those of ``normalized_shape``; the same shape."""
    if len(normalized_shape) == 1 and input.shape[-1:] == tuple(normalized_shape):
        return _core._layer_norm(input, eps, weight, bias)
    rows, (w, b) = _over_last(input, normalized_shape, weight, bias)
    return _core._layer_norm(rows, eps, w, b).reshape(input.shape)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) weight over the last axes, those of ``normalized_shape``; the same
    shape.  eps when absent: 2^-52 for float64, else 2^-23."""
    rows, (w,) = _over_last(input, normalized_shape, weight)
    if eps is None:
        eps = 2.0**-52 if input.dtype is _core.float64 else 2.0**-23  # the distance from 1 to the next number
    return _core._rms_norm(rows, eps, w).reshape(input.shape)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Each of ``num_groups`` groups of channels of each sample to mean 0 and variance 1, then
    weight and bias by channel : (N, C, ...), (C), (C) -> (N, C, ...)"""
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if num_groups < 1 or input.size(1) % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got {list(input.shape)} and"
            f" num_groups={num_groups}"
        )
    if input.numel() == num_groups:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    rows = input.reshape(len(input), num_groups, input.numel() // max(1, len(input) * num_groups))
    return _affine(_core._layer_norm(rows, eps).reshape(input.shape), weight, bias)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel to mean 0 and variance 1 over the batch, then weight and bias by channel : (N,
    C, ...), (C) x 4 -> (N, C, ...). In training the running statistics, where given, go by
    ``momentum`` towards those of the batch (the variance with N - 1); otherwise they are used.
    ValueError: one value a channel in training."""
    axes = [i for i in range(input.ndim) if i != 1]
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("Expected running_mean and running_var to be defined when training=False")
        scale = (running_var + eps).rsqrt()
        return _affine(_affine(input, None, -running_mean), scale if weight is None else scale * weight, bias)
    count = input.numel() // max(1, input.size(1))
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    with no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(input.mean(axes), alpha=momentum)
        if running_var is not None:
            running_var.mul_(1 - momentum).add_(input.var(axes), alpha=momentum)
    turned = input.transpose(0, 1)
    return _affine(_core._layer_norm(turned.flatten(1), eps).reshape(turned.shape).transpose(0, 1), weight, bias)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm_p(x), eps) along ``dim``; the same shape."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(norm(x1), eps) max(norm(x2), eps)) along ``dim``, which goes."""
    return (
        x1 / x1.norm(2, dim, keepdim=True).clamp(min=eps) * (x2 / x2.norm(2, dim, keepdim=True).clamp(min=eps))
    ).sum(dim)


# ---- activations: the formulas are those of the functions of chainrule; inplace writes into input ----


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)"""
    return input.relu_() if inplace else input.relu()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)"""
    return input.relu6_() if inplace else input.relu6()


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope x"""
    return input.leaky_relu_(negative_slope) if inplace else input.leaky_relu(negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight x : (N, C, ...), (C) or (1) -> (N, C, ...)"""
    if weight.numel() > 1 and (input.ndim < 2 or input.size(1) != weight.numel()):
        raise RuntimeError(
            f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and"
            f" input {list(input.shape)}"
        )
    slope = weight.reshape((-1,) + (1,) * (input.ndim - 2) if input.ndim > 1 else (1,) * input.ndim)
    return _core.where(input > 0, input, slope * input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (e^x - 1)"""
    return input.elu_(alpha) if inplace else input.elu(alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al. 2017)"""
    return input.selu_() if inplace else input.selu()


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (e^(x / alpha) - 1)"""
    return input.celu_(alpha) if inplace else input.celu(alpha)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Phi(x), Phi the normal distribution; approximate="tanh": GPT-2's"""
    return input.gelu(approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)"""
    return input.silu_() if inplace else input.silu()


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))"""
    return input.mish_() if inplace else input.mish()


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta; x where beta x > threshold"""
    return input.softplus(beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + abs(x))"""
    return input.softsign()


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """min(max(x, min_val), max_val)"""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return input.hardtanh_(min_val, max_val) if inplace else input.hardtanh(min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6"""
    return input.hardsigmoid_() if inplace else input.hardsigmoid()


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)"""
    return input.hardswish_() if inplace else input.hardswish()


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value"""
    return input.masked_fill_(input <= threshold, value) if inplace else input.masked_fill(input <= threshold, value)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where abs(x) > lambd, else 0"""
    return input.masked_fill(input.abs() <= lambd, 0)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 where it is nearer"""
    if not lambd >= 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return input - input.clamp(-lambd, lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)"""
    return input - input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e^-x)"""
    return input.sigmoid()


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))"""
    return input.logsigmoid()


def tanh(input: Tensor) -> Tensor:
    """hyperbolic tangent"""
    return input.tanh()


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a sigmoid(b), a and b the halves of x along ``dim``"""
    if not input.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if input.size(dim) % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.size(dim)}")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def _axis(dim: int | None, ndim: int) -> int:
    """PyTorch's choice where no axis is named."""
    return dim if dim is not None else 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, dtype: _core.dtype | None = None) -> Tensor:
    """e^x / sum(e^x) along ``dim``; x is cast to ``dtype`` first"""
    return input.softmax(_axis(dim, input.ndim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, dtype: _core.dtype | None = None) -> Tensor:
    """x - log(sum(e^x)) along ``dim``; x is cast to ``dtype`` first"""
    return input.log_softmax(_axis(dim, input.ndim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, dtype: _core.dtype | None = None) -> Tensor:
    """softmax of -x"""
    return softmax(-input, dim, dtype)


# ---- losses ----


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


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(x - y)^2"""
    _warn_of_shapes(input, target)
    return _reduce(_weighted((input - target).square(), weight), reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """abs(x - y)"""
    _warn_of_shapes(input, target)
    return _reduce(_weighted((input - target).abs(), weight), reduction)


def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """z^2 / 2 where z = abs(x - y) < delta, else delta (z - delta / 2)"""
    _warn_of_shapes(input, target)
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta: {delta}")
    z = (input - target).abs()
    return _reduce(_weighted(_core.where(z < delta, 0.5 * z.square(), delta * (z - 0.5 * delta)), weight), reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """z^2 / (2 beta) where z = abs(x - y) < beta, else z - beta / 2"""
    _warn_of_shapes(input, target)
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta: {beta}")
    z = (input - target).abs()
    return _reduce(_core.where(z < beta, z.square() * (0.5 / beta), z - 0.5 * beta) if beta else z, reduction)


class _BinaryCrossEntropy(Function):
    """-(y log x + (1 - y) log(1 - x)), logarithms at least -100.  The gradient is (x - y) / (x (1 -
    x)) with at least 1e-12 below, where the logarithms are cut off as well: a prediction that is
    sure and wrong goes back."""

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
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-weight (y log x + (1 - y) log(1 - x)) of chances x in [0, 1]; logarithms are at least -100.
    RuntimeError: a chance outside.  ValueError: shapes differ."""
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated."
        )
    if input.numel() and not bool(((input >= 0).logical_and(input <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    return _reduce(_weighted(_BinaryCrossEntropy.apply(input, target), weight), reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-weight (pos_weight y log s + (1 - y) log(1 - s)), s = sigmoid(x), without overflow.
    ValueError: shapes differ."""
    if input.shape != target.shape:
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    hits = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    return _reduce(_weighted((1 - target) * input - input.logsigmoid() * hits, weight), reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """y (log y - x) of logarithms x and chances y, or their logarithms with ``log_target``.
    reduction="batchmean": the sum over the first size, as the definition has it."""
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
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """-weight[y] x[y] of logarithms x : (N, C, ...), (N, ...) of classes or (C), () -> () or (N,
    ...).  The mean is over the weights. IndexError: a class outside 0 ... C - 1 that is not
    ``ignore_index``."""
    _check_classes(input, target, weight)
    return _picked(_rows_of_classes(input), target, weight, ignore_index, reduction, 0.0)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-weight[y] log softmax(x)[y] : logits (N, C, ...) and classes (N, ...), or (C) and () -> ()
    or (N, ...).  The mean is over the weights. A target of the logits' shape holds the chances of
    all classes instead: -sum(weight y log softmax(x)). label_smoothing: this part of the target is
    spread over all classes.  IndexError: a class outside 0 ... C - 1 that is not
    ``ignore_index``."""
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    rows = _rows_of_classes(input)
    if target.shape == input.shape and target.is_floating_point():
        classes = rows.size(-1)
        wanted = _rows_of_classes(target)
        if label_smoothing:
            wanted = wanted * (1 - label_smoothing) + label_smoothing / classes
        loss = -(_weighted(rows.log_softmax(-1), weight) * wanted).sum(-1)
        return loss.sum() / max(1, loss.numel()) if reduction == "mean" else _reduce(loss, reduction)
    _check_classes(input, target, weight)
    if weight is None:
        return _core._cross_entropy(rows, target, ignore_index, label_smoothing, reduction)
    return _picked(rows.log_softmax(-1), target, weight, ignore_index, reduction, label_smoothing)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x1, x2) where y is 1, max(0, cos(x1, x2) - margin) where it is -1 : (N, C) x 2, (N)
    or (C) x 2, () -> () or (N)"""
    if input1.shape != input2.shape or input1.ndim not in (1, 2) or tuple(target.shape) != tuple(input1.shape[:-1]):
        raise RuntimeError(
            f"1D target tensor expects 2D input tensors, but found sizes {list(input1.shape)}, {list(input2.shape)} and"
            f" {list(target.shape)}"
        )
    cosine = (input1 * input2).sum(-1) / ((input1.square().sum(-1) + 1e-12) * (input2.square().sum(-1) + 1e-12)).sqrt()
    alike = _core.where(target == 1, 1 - cosine, 0.0)
    return _reduce(_core.where(target == -1, (cosine - margin).clamp(min=0), alike), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """x where y is 1, max(0, margin - x) where it is -1"""
    return _reduce(
        _core.where(target != 1, (margin - input).clamp(min=0), 0.0) + _core.where(target != -1, input, 0.0), reduction
    )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """sum of w[y] max(0, margin - x[y] + x[i])^p over the classes i != y, divided by C : (N, C),
    (N) or (C), () or (1) -> () or the target's shape. A scalar counts as one class."""
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
