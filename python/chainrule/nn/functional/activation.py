"""Activations: the formulas are those of the functions of chainrule; ``inplace`` writes into the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _core
from ..._core import Tensor

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "geglu",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu_",
    "relu6",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "swiglu",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


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


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) up: a gated linear unit (Shazeer 2020) : shapes broadcast"""
    return _core._swiglu(gate, up)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    """gelu(gate) up (Shazeer 2020) : shapes broadcast"""
    return _core._geglu(gate, up)


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


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _core.dtype | None = None) -> Tensor:
    """e^x / sum(e^x) along ``dim``; x is cast to ``dtype`` first"""
    return input.softmax(_axis(dim, input.ndim), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _core.dtype | None = None
) -> Tensor:
    """x - log(sum(e^x)) along ``dim``; x is cast to ``dtype`` first"""
    return input.log_softmax(_axis(dim, input.ndim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _core.dtype | None = None) -> Tensor:
    """softmax of -x"""
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((x + g) / tau) along ``dim``, g drawn from Gumbel(0, 1): a smooth sample of a class
    (Jang et al. 2017).  hard: one-hot, with the gradient of the smooth sample.  eps changes nothing."""
    gumbels = -_core.empty_like(logits).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.detach().max(dim, keepdim=True)[1]
    return _core.zeros_like(soft).scatter(dim, chosen, 1.0) - soft.detach() + soft


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x where x > 0, else a x, a drawn from U(lower, upper) for each element in training and
    (lower + upper) / 2 in use (Xu et al. 2015)"""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = _core.empty_like(input, requires_grad=False).uniform_(lower, upper)
    y = input * slope.masked_fill(input > 0, 1)
    return input.copy_(y) if inplace else y


def _written(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        y: Tensor = globals()[name](input, *args, **kwargs, inplace=True)
        return y

    function.__name__ = function.__qualname__ = f"{name}_"
    function.__doc__ = f"``{name}`` in place."
    return function


relu_, leaky_relu_, elu_, selu_, celu_, hardtanh_, threshold_, rrelu_ = (
    _written(name) for name in ("relu", "leaky_relu", "elu", "selu", "celu", "hardtanh", "threshold", "rrelu")
)
