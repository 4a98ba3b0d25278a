"""Tables of vectors by index: Embedding, EmbeddingBag."""

from __future__ import annotations

from typing import Any, Self

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .linear import new
from .module import Module
from .parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """weight (num_embeddings, embedding_dim) starts in N(0, 1), the row ``padding_idx`` as zeros."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        _weight: Tensor | None,
        _freeze: bool,
        device: Device | str | None,
        dtype: _core.dtype | None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError(f"padding_idx must be within num_embeddings: {padding_idx} of {num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            self.weight = new(num_embeddings, embedding_dim, device=device, dtype=dtype).requires_grad_(not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {tuple(_weight.shape)} for"
                f" {(num_embeddings, embedding_dim)}"
            )
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draws the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Self:
        """A layer over the memory of a table (V, C), which does not learn where ``freeze``."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        layer = cls(rows, width, padding_idx=padding_idx, _weight=embeddings, **options)
        layer.weight.requires_grad_(not freeze)
        return layer

    def _said(self, *names: str) -> str:
        """Sizes, and the options that are not as usual."""
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
        values = [(name, getattr(self, name)) for name in names]
        said = [f"{name}={value!r}" for name, value in values if name not in usual or value != usual[name]]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *said])


class Embedding(_Table):
    """weight[x] : ints (...) -> (..., embedding_dim).  weight (num_embeddings, embedding_dim)
    starts in N(0, 1), the row ``padding_idx`` as zeros, and that gets no gradient.  max_norm,
    norm_type, scale_grad_by_freq, sparse: as in ``functional.embedding``.  IndexError: an index
    outside the table."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            _freeze,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        return self._said("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")


class EmbeddingBag(_Table):
    """The sum, mean or maximum of weight[i] over each bag of indices : (B, n), or (K) with the starts
    of the bags in offsets (B) -> (B, embedding_dim).  weight starts as that of ``Embedding``; the
    arguments are those of ``functional.embedding_bag``."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            False,
            device,
            dtype,
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        return self._said("max_norm", "norm_type", "scale_grad_by_freq", "mode", "padding_idx")
