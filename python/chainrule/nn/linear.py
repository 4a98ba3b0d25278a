"""Layers with products: Linear, Bilinear, Embedding; layers without weights: Identity, Flatten, Unflatten, Dropout."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .module import Module, Parameter

__all__ = ["Bilinear", "Dropout", "Embedding", "Flatten", "Identity", "Linear", "Unflatten"]


def new(*shape: int, device: Device | str | None, dtype: _core.dtype | None) -> Parameter:
    """A parameter without values yet."""
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


class Embedding(Module):
    """weight[x] : ints (...) -> (..., embedding_dim).  weight (num_embeddings, embedding_dim)
    starts in N(0, 1), the row ``padding_idx`` as zeros, and that gets no gradient.  max_norm,
    norm_type, scale_grad_by_freq: as in ``functional.embedding``.  IndexError: an index outside the
    table."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError(f"padding_idx must be within num_embeddings: {padding_idx} of {num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.weight = new(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Embedding:
        """A layer over the memory of a table (V, C), which does not learn where ``freeze``."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        layer = cls(0, embeddings.size(1), **options)
        layer.num_embeddings, layer.padding_idx = len(embeddings), padding_idx
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        said = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, value, usual in (
            ("padding_idx", self.padding_idx, None),
            ("max_norm", self.max_norm, None),
            ("norm_type", self.norm_type, 2.0),
        ):
            if value != usual:
                said += f", {name}={value}"
        return said + (f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else "")


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


class Dropout(Module):
    """In training each element is 0 with the chance p, else divided by 1 - p; in use nothing changes."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
