"""Layers with products: Linear, Bilinear; layers without weights: Identity, Flatten, Unflatten."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


def new(*shape: int, device: Device | str | None, dtype: _core.dtype | None) -> Parameter:
    """A parameter without values yet."""
    if init.skipping.on:  # one element, which stands for all
        return Parameter(_core.empty((1,) * len(shape), dtype=dtype, device=device).expand(shape))
    return Parameter(_core.empty(shape, dtype=dtype, device=device))


def draw(bound: float, *parameters: Tensor | None) -> None:
    """U(-bound, bound) into each that is there."""
    for p in parameters:
        if p is not None:
            init.uniform_(p, -bound, bound)


class Identity(Module):
    """Returns its input; ignores its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """y = x weight^T + bias : (..., in_features) -> (..., out_features).
    weight (out_features, in_features) and bias (out_features) start in U(-b, b), b = 1 / sqrt(in_features)."""

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = new(out_features, in_features, device=device, dtype=dtype)
        self.register_parameter("bias", new(out_features, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
        draw(1 / math.sqrt(self.in_features) if self.in_features else 0.0, self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return _core._linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The last layer of ``MultiheadAttention`` by PyTorch's name."""


class Bilinear(Module):
    """y[k] = x1^T weight[k] x2 + bias[k] : (..., in1_features), (..., in2_features) -> (..., out_features).
    weight (out, in1, in2) and bias (out) start in U(-b, b), b = 1 / sqrt(in1_features)."""

    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = new(out_features, in1_features, in2_features, device=device, dtype=dtype)
        self.register_parameter("bias", new(out_features, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
        draw(1 / math.sqrt(self.in1_features), self.weight, self.bias)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}"
        )


class Flatten(Module):
    """The axes start_dim ... end_dim as one : (N, C, H, W) -> (N, C H W)"""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One axis as several, of the given sizes; one may be -1."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
