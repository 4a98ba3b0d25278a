"""Layers whose weights have 8 or 4 bits: QuantizedLinear, QuantizedEmbedding."""

from __future__ import annotations

from typing import Any, Self

from .. import _core
from .._core import Device, Tensor
from .embedding import Embedding
from .linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["QuantizedEmbedding", "QuantizedLinear"]


class _Quantized(Module):
    """A matrix (rows, columns) as integers: ``codes`` (rows, columns) int8, or (rows, columns / 2) uint8 with two of 4
    bits in each, and ``scales`` (rows, columns / group) float16.  Both are buffers: they have no gradient."""

    codes: Tensor
    scales: Tensor

    def _take(self, codes: Tensor, scales: Tensor) -> None:
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)

    def _empty(self, rows: int, columns: int, bits: int, group: int, device: Device | str | None) -> None:
        name = type(self).__name__
        if bits not in (8, 4):
            raise ValueError(f"[{name}] bits must be 8 or 4, not {bits}")
        if group not in (32, 64, 96, 128) or columns % group:
            raise ValueError(f"[{name}] group must be 32, 64, 96 or 128, and divide {columns}, not {group}")
        zero, dtype = (0, _core.int8) if bits == 8 else (0x88, _core.uint8)
        codes = _core.full((rows, columns * bits // 8), zero, dtype=dtype, device=device)
        self._take(codes, _core.zeros(rows, columns // group, dtype=_core.float16, device=device))

    @property
    def bits(self) -> int:
        """8 or 4."""
        return 8 if self.codes.dtype is _core.int8 else 4

    @property
    def group(self) -> int:
        """Neighbours of a row that share a scale."""
        return self.codes.size(1) * 8 // self.bits // self.scales.size(1)

    def dequantize(self, dtype: _core.dtype | None = None) -> Tensor:
        """The matrix as a new tensor of floats."""
        return _core._dequantize(self.codes, self.scales, dtype or _core.float32)

    @property
    def weight(self) -> Tensor:
        """``dequantize()``: a new float32 tensor each time."""
        return self.dequantize()


class QuantizedLinear(_Quantized):
    """y = x weight^T + bias : (..., in_features) -> (..., out_features), with a weight of 8 or 4 bits that stays as it
    is.  Gradients reach the input and the bias.

    A new one has the weight 0; ``from_linear`` and ``load_state_dict`` give it values.
    ValueError: bits that are not 8 or 4, a group that is not 32, 64, 96 or 128 or does not divide in_features."""

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        bits: int = 8,
        group: int = 64,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._empty(out_features, in_features, bits, group, device)
        zeros = Parameter(_core.zeros(out_features, dtype=dtype, device=device)) if bias else None
        self.register_parameter("bias", zeros)

    @classmethod
    def of(cls, codes: Tensor, scales: Tensor, bias: Parameter | None) -> Self:
        """A layer over these codes and scales."""
        layer = cls.__new__(cls)
        Module.__init__(layer)
        layer.in_features, layer.out_features = codes.size(1) * (1 if codes.dtype is _core.int8 else 2), codes.size(0)
        layer._take(codes, scales)
        layer.register_parameter("bias", bias)
        return layer

    @classmethod
    def from_linear(cls, linear: Linear, bits: int = 8, group: int = 64, moments: Tensor | None = None) -> Self:
        """The layer with its weight quantized, and the same bias.  moments (in_features, in_features), sums of x^T x
        over inputs x: rounding to 4 bits is balanced for them.  RuntimeError: groups that do not divide in_features,
        weights that are not finite."""
        return cls.of(*_core._quantize(linear.weight, bits, group, moments), linear.bias)

    def forward(self, input: Tensor) -> Tensor:
        return _core._linear_quantized(input, self.codes, self.scales, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None},"
            f" bits={self.bits}, group={self.group}"
        )


class QuantizedEmbedding(_Quantized):
    """Rows of a table of 8 or 4 bits : ints (...) -> (..., embedding_dim).

    A new one has the table 0; ``from_embedding`` and ``load_state_dict`` give it values.  ValueError: as of
    ``QuantizedLinear``."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        bits: int = 8,
        group: int = 64,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.dtype = dtype or _core.float32
        self._empty(num_embeddings, embedding_dim, bits, group, device)

    @classmethod
    def of(cls, codes: Tensor, scales: Tensor, dtype: _core.dtype) -> Self:
        """A table over these codes and scales; dtype: of the rows that it gives."""
        table = cls.__new__(cls)
        Module.__init__(table)
        table.num_embeddings = codes.size(0)
        table.embedding_dim = codes.size(1) * (1 if codes.dtype is _core.int8 else 2)
        table.dtype = dtype
        table._take(codes, scales)
        return table

    @classmethod
    def from_embedding(cls, embedding: Embedding, bits: int = 8, group: int = 64) -> Self:
        """The table quantized.  RuntimeError: as of ``QuantizedLinear.from_linear``."""
        return cls.of(*_core._quantize(embedding.weight, bits, group), embedding.weight.dtype)

    def forward(self, input: Tensor) -> Tensor:
        rows = input.flatten()
        found = _core._dequantize(self.codes[rows], self.scales[rows], self.dtype)
        return found.view(*input.shape, self.embedding_dim)

    def linear(self, input: Tensor) -> Tensor:
        """input table^T : (..., embedding_dim) -> (..., num_embeddings), a tied head."""
        return _core._linear_quantized(input, self.codes, self.scales)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, bits={self.bits}, group={self.group}"


def replaced(module: Module, name: str, part: Any) -> None:
    """Replaces the submodule of this name by ``part``."""
    start, _, last = name.rpartition(".")
    setattr(module.get_submodule(start) if start else module, last, part)
