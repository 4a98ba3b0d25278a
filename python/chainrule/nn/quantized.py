"""Layers whose weights are packed in a format of GGUF files: QuantizedLinear, QuantizedEmbedding."""

from __future__ import annotations

from typing import Any, Self

from .. import _core
from .._core import Device, Tensor
from .embedding import Embedding
from .linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["QuantizedEmbedding", "QuantizedLinear"]

PAIRED = "_paired"


class _Quantized(Module):
    """A matrix (rows, columns) in a format of GGUF files: a buffer (rows, bytes of a row) uint8, named after the
    format.  It has no gradient.

    "q8_0" has 8 bits and a float16 scale for 32 neighbours of a row, "q4_0" 4 bits, "q4_k", "q5_k" and "q6_k" 4 to 6
    with scales in blocks of 256."""

    def _take(self, rows: Tensor, name: str, head: int = 0) -> Self:
        """head: each so many rows are a head, whose rows i and i + head / 2 are neighbours in the buffer; 0: not."""
        self._name, self._head = name, head
        self.register_buffer(name, rows)
        return self

    def _empty(self, rows: int, columns: int, format: str, device: Device | str | None) -> None:
        row = _core._quantize(_core.zeros(1, columns, device=device), format)
        self._take(row.expand(rows, -1).clone(), format)

    @property
    def format(self) -> str:
        """That of the rows."""
        return self._name.removesuffix(PAIRED)

    @property
    def rows(self) -> Tensor:
        """The buffer."""
        return self.__dict__[self._name]  # type: ignore[no-any-return]

    def dequantize(self, dtype: _core.dtype | None = None) -> Tensor:
        """The matrix as a new tensor of floats."""
        return self._in_order(_core._unpack(self.rows, self.format, dtype or _core.float32).mT).mT

    @property
    def weight(self) -> Tensor:
        """``dequantize()``: a new float32 tensor each time."""
        return self.dequantize()

    def _in_order(self, y: Tensor) -> Tensor:
        """The last axis, which has the rows as the buffer has them, in order."""
        if not self._head:
            return y
        return y.unflatten(-1, (-1, self._head // 2, 2)).transpose(-1, -2).reshape(y.shape)


def columns_of(rows: Tensor, name: str) -> int:
    """The numbers in a row of a buffer of this name."""
    return _core._unpack(rows[:1], name.removesuffix(PAIRED), _core.float32).size(1)


class QuantizedLinear(_Quantized):
    """y = x weight^T + bias : (..., in_features) -> (..., out_features), with a packed weight that stays as it is.
    Gradients reach the input and the bias.

    A new one has the weight 0; ``from_linear`` and ``load_state_dict`` give it values.
    RuntimeError: a format that is not q8_0, q4_0, q5_0, q5_1, q4_k, q5_k or q6_k, or whose blocks do not divide
    in_features."""

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        format: str = "q8_0",
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._empty(out_features, in_features, format, device)
        zeros = Parameter(_core.zeros(out_features, dtype=dtype, device=device)) if bias else None
        self.register_parameter("bias", zeros)

    @classmethod
    def of(cls, rows: Tensor, name: str, bias: Parameter | None, head: int = 0) -> Self:
        """A layer over these rows; name: their format, with "_paired" where the rows of heads are."""
        layer = cls.__new__(cls)
        Module.__init__(layer)
        layer.in_features, layer.out_features = columns_of(rows, name), rows.size(0)
        layer._take(rows, name, head if name.endswith(PAIRED) else 0).register_parameter("bias", bias)
        return layer

    @classmethod
    def from_linear(cls, linear: Linear, format: str = "q8_0", moments: Tensor | None = None) -> Self:
        """The layer with its weight quantized, and the same bias.  moments (in_features, in_features), sums of x^T x
        over inputs x: the rounding to q4_0 is balanced for them, other formats know the importance of columns by them.
        RuntimeError: as of a new layer, and weights that are not finite."""
        return cls.of(_core._quantize(linear.weight, format, moments), format, linear.bias)

    def forward(self, input: Tensor) -> Tensor:
        if not self._head:
            return _core._linear_packed(input, self.rows, self.format, self.bias)
        y = self._in_order(_core._linear_packed(input, self.rows, self.format))
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None},"
            f" format={self.format}"
        )


class QuantizedEmbedding(_Quantized):
    """Packed rows of a table : ints (...) -> (..., embedding_dim).

    A new one has the table 0; ``from_embedding`` and ``load_state_dict`` give it values.  RuntimeError: as of
    ``QuantizedLinear``."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        format: str = "q8_0",
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.dtype = dtype or _core.float32
        self._empty(num_embeddings, embedding_dim, format, device)

    @classmethod
    def of(cls, rows: Tensor, name: str, dtype: _core.dtype | None = None) -> Self:
        """A table over these rows of the format ``name``; dtype: of the rows that it gives, float32 when absent."""
        table = cls.__new__(cls)
        Module.__init__(table)
        table.num_embeddings, table.embedding_dim = rows.size(0), columns_of(rows, name)
        table.dtype = dtype or _core.float32
        return table._take(rows, name)

    @classmethod
    def from_embedding(cls, embedding: Embedding, format: str = "q8_0") -> Self:
        """The table quantized.  RuntimeError: as of ``QuantizedLinear.from_linear``."""
        return cls.of(_core._quantize(embedding.weight, format), format, embedding.weight.dtype)

    def forward(self, input: Tensor) -> Tensor:
        found = _core._unpack(self.rows.index_select(0, input.reshape(-1)), self.format, self.dtype)
        return found.view(*input.shape, self.embedding_dim)

    def linear(self, input: Tensor) -> Tensor:
        """input table^T : (..., embedding_dim) -> (..., num_embeddings), a tied head."""
        return _core._linear_packed(input, self.rows, self.format)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, format={self.format}"


def replaced(module: Module, name: str, part: Any) -> None:
    """Replaces the submodule of this name by ``part``."""
    start, _, last = name.rpartition(".")
    setattr(module.get_submodule(start) if start else module, last, part)
