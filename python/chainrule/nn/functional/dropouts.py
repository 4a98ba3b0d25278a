"""Dropout as functions: of elements, of whole channels, and with the mean and variance that SELU keeps."""

from __future__ import annotations

import math
import warnings

from ... import _core
from ..._core import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _into(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is 0 with the chance p, else divided by 1 - p; otherwise input.
    inplace is allowed and not needed."""
    _check(p)
    return _core._dropout(input, p) if training and p > 0 else input


def _kept_channels(x: Tensor, behind: int) -> Tensor:
    """Ones, one for each channel, with ``behind`` axes of size 1 behind the channels."""
    if x.ndim <= behind:
        raise RuntimeError(f"Feature dropout requires at least {behind + 1} dimensions in the input, got {x.ndim}")
    return _core.ones(*x.shape[: x.ndim - behind], *(1,) * behind, dtype=x.dtype, device=x.device)


def _drop_channels(x: Tensor, behind: int, p: float, training: bool, inplace: bool) -> Tensor:
    _check(p)
    if not training or p == 0:
        return x
    return _into(x, x * _core._dropout(_kept_channels(x, behind), p), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels : (N, C, L) or (C, L)"""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to"
            " provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional"
            " batch dimension."
        )
    return _drop_channels(input, 1, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels : (N, C, H, W).  As in PyTorch, three axes are (N, C, L), with a warning."""
    if input.ndim not in (3, 4):
        _warn_of_axes("dropout2d", "2", input.ndim)
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired"
            " - input is interpreted as shape (N, C, L); use dropout1d.",
            stacklevel=2,
        )
    return _drop_channels(input, input.ndim - 2, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels : (N, C, D, H, W) or (C, D, H, W)"""
    if input.ndim not in (4, 5):
        _warn_of_axes("dropout3d", "3", input.ndim)
    return _drop_channels(input, 3 if input.ndim == 4 else input.ndim - 2, p, training, inplace)


def _warn_of_axes(name: str, spatial: str, ndim: int) -> None:
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated; it is meant for {spatial} spatial axes, a"
        " channel axis and an optional batch axis.",
        stacklevel=3,
    )


def _alpha_dropout(x: Tensor, ones: Tensor, p: float, inplace: bool) -> Tensor:
    """a (x where kept, else -alpha) + b: -alpha is the least value of SELU, a and b keep mean 0 and variance 1."""
    if p == 1:
        return _into(x, x * 0, inplace)
    alpha = 1.7580993408473766
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    kept = ones.bernoulli(1 - p)
    return _into(x, x * (kept * a) + ((kept - 1) * (alpha * a) + alpha * a * p), inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """In training each element becomes the least value of SELU with the chance p; all are then
    scaled and shifted so that mean 0 and variance 1 stay (Klambauer et al. 2017)."""
    _check(p)
    return _alpha_dropout(input, _core.ones_like(input), p, inplace) if training and p > 0 else input


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels : (N, C, ...)"""
    _check(p)
    if not training or p == 0:
        return input
    return _alpha_dropout(input, _kept_channels(input, max(0, input.ndim - 2)), p, inplace)
