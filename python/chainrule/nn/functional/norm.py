"""Normalization as functions."""

from __future__ import annotations

from collections.abc import Sequence

from ... import _core
from ..._core import Tensor
from ...autograd import no_grad

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]


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
    if eps is None:
        eps = 2.0**-52 if input.dtype is _core.float64 else 2.0**-23  # the distance from 1 to the next number
    if len(normalized_shape) == 1 and input.shape[-1:] == tuple(normalized_shape):
        return _core._rms_norm(input, eps, weight)
    rows, (w,) = _over_last(input, normalized_shape, weight)
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
    for what, of in (("weight", weight), ("bias", bias)):
        if of is not None and tuple(of.shape) != (input.size(1),):
            raise RuntimeError(
                f"Expected {what} to be a vector of size equal to the number of channels in input, but got"
                f" {list(of.shape)} for {list(input.shape)}"
            )
    return _core._group_norm(input, num_groups, eps, weight, bias)


def _update(running: Tensor | None, batch: Tensor, momentum: float) -> None:
    if running is not None:
        running.mul_(1 - momentum).add_(batch, alpha=momentum)


def _check_running(input: Tensor, **running: Tensor | None) -> None:
    for name, values in running.items():
        if values is not None and values.numel() != input.size(1):
            raise RuntimeError(f"{name} should contain {input.size(1)} elements not {values.numel()}")


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
    if input.ndim >= 2:
        _check_running(input, running_mean=running_mean, running_var=running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        return _core._batch_norm_with(input, running_mean, running_var, eps, weight, bias)
    count = input.numel() // max(1, input.size(1))
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    y, mean, var = _core._batch_norm(input, eps, weight, bias)
    if count and (running_mean is not None or running_var is not None):
        with no_grad():
            _update(running_mean, mean, momentum)
            _update(running_var, var * (count / (count - 1)), momentum)
    return y


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample to mean 0 and variance 1, then weight and bias by channel : (N, C, ...), (C) x 4 ->
    (N, C, ...) (Ulyanov et al. 2016). The running statistics, where given, go by ``momentum`` towards the means of the
    samples' statistics; without use_input_stats they are used."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c, count = len(input), input.size(1), input.numel() // max(1, len(input) * input.size(1))
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    _check_running(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    planes = input.reshape(1, n * c, *input.shape[2:])
    y, mean, var = _core._batch_norm(
        planes, eps, None if weight is None else weight.repeat(n), None if bias is None else bias.repeat(n)
    )
    if running_mean is not None or running_var is not None:
        with no_grad():
            _update(running_mean, mean.reshape(n, c).mean(0), momentum)
            _update(running_var, var.reshape(n, c).mean(0) * (count / max(1, count - 1)), momentum)
    return y.reshape(input.shape)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha / size s)^beta, s the sum of x^2 over ``size`` neighbouring channels : (N, C, ...) -> (N, C,
    ...) (Krizhevsky et al. 2012)"""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    squares = _core.pad(input.square().flatten(2), (0, 0, size // 2, (size - 1) // 2))
    mean = _core._avg_pool(squares, 2, (size, 1), 1, 0, False, True, 0).reshape(input.shape)
    return input / (mean * alpha + k).pow(beta)
