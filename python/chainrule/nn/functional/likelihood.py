"""Negative logarithms of likelihoods as losses.  ``reduction``: as in ``loss``."""

from __future__ import annotations

import math

from ... import _core
from ..._core import Tensor
from ..._transformed import values_of
from .loss import _reduce, _reduction

__all__ = ["gaussian_nll_loss", "poisson_nll_loss"]


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """e^x - y x, x the logarithm of the rate, or x - y log(x + eps), x the rate, with
    ``log_input=False``. full: with Stirling's y log y - y + log(2 pi y) / 2 where y > 1."""
    reduction = _reduction(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        y = target.masked_fill(target <= 1, 1)
        stirling = y * y.log() - y + 0.5 * (2 * math.pi * y).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduce(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log v + (x - y)^2 / v) / 2, v = max(var, eps), which gets the gradient of var. var: a number, the shape of
    x, or that with the last size 1 or absent.  full: with log(2 pi) / 2.  ValueError: a negative variance."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * _core.ones_like(input)
    elif bool(values_of(var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or any(v not in (1, n) for v, n in zip(var.shape, input.shape, strict=True)):
            raise ValueError("var is of incorrect size")
    var = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (var.log() + (input - target).square() / var)
    return _reduce(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
