"""``chainrule.nn.init``: initial values, written in place without a gradient.  Formulas and names
are PyTorch's; a seed gives the same weights on every device.

fan_in and fan_out of a weight (OC, C, ...): C and OC, times the sizes of the axes behind.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from .._core import Generator, Tensor
from ..autograd import no_grad

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


class _Skipping(threading.local):
    on = False


skipping = _Skipping()


@contextmanager
def without_values() -> Iterator[None]:
    """Modules made in this thread have parameters of their shapes without memory of their own, for
    values that take their places later; the initialisers do nothing."""
    skipping.on, before = True, skipping.on
    try:
        yield
    finally:
        skipping.on = before


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """U(a, b)"""
    if skipping.on:
        return tensor
    _core._init_uniform(tensor, a, b, generator)
    return tensor


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """N(mean, std^2)"""
    if skipping.on:
        return tensor
    _core._init_normal(tensor, mean, std, generator)
    return tensor


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """N(mean, std^2) within [a, b]: numbers outside are drawn again"""
    _core._init_trunc_normal(tensor, mean, std, a, b, generator)
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    if skipping.on:
        return tensor
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills the tensor with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills the tensor with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(_core.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor of a weight's standard deviation that keeps the deviation of signals through this function.
    param: the slope of "leaky_relu", 0.01 when absent."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    """fan_in, fan_out"""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)"""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """N(0, s^2), s = gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)"""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(max(1, _calculate_correct_fan(tensor, mode)))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """U(-b, b), b = gain sqrt(3 / fan) (He et al. 2015); a: the slope of "leaky_relu" """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """N(0, s^2), s = gain / sqrt(fan) (He et al. 2015); a: the slope of "leaky_relu" """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """gain times a matrix (OC, C ...) with orthonormal rows, or columns where it is tall (Saxe et al. 2013)"""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    _core._init_orthogonal(tensor, gain, generator)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The identity of a convolution (OC, C, ...), in each group: channel i of the output is channel i of the input."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    middle = tuple(n // 2 for n in tensor.shape[2:])
    out = tensor.size(0) // groups
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for i in range(min(out, tensor.size(1))):
                tensor[(group * out + i, i, *middle)] = 1
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """N(0, std^2), and zeros in a part ``sparsity`` of each column, at random rows (Martens 2010)"""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        normal_(tensor, 0, std, generator)
        for column in range(columns):
            tensor[_core.randperm(rows, generator=generator)[:zeros].to(tensor.device), column] = 0
    return tensor


_calculate_fan_in_and_fan_out = _fans  # PyTorch's name, which scripts use


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """fan_in or fan_out, by name"""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode == "fan_out"]


def _old(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function by its name without _, which warns."""
    name = function.__name__[:-1]

    def old(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"``{name}_``, by its old name."
    return old


uniform, normal, constant = _old(uniform_), _old(normal_), _old(constant_)
eye, dirac, sparse, orthogonal = _old(eye_), _old(dirac_), _old(sparse_), _old(orthogonal_)
xavier_uniform, xavier_normal = _old(xavier_uniform_), _old(xavier_normal_)
kaiming_uniform, kaiming_normal = _old(kaiming_uniform_), _old(kaiming_normal_)
