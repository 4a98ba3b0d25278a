"""Transformer: encoder, decoder and their layers (Vaswani et al. 2017).

Letters in shapes: N batch, S and T times of source and target, E width.  Batch comes second but
with ``batch_first``, and may be absent.  Masks are those of ``MultiheadAttention``.  A padded
position is hidden from others; its own output means nothing."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .containers import ModuleList
from .dropouts import Dropout
from .linear import Linear
from .module import Module
from .multihead import MultiheadAttention
from .norm import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = Callable[[Tensor], Tensor]


def _causal_mask(size: int, device: Device | str | None = None, dtype: _core.dtype | None = None) -> Tensor:
    """-infinity, or true, above the diagonal, 0 elsewhere : (size, size)"""
    if dtype is _core.bool:
        return _core.ones(size, size, dtype=dtype, device=device).triu(1)
    return _core.full((size, size), -math.inf, dtype=dtype or _core.float32, device=device).triu(1)


def _is_causal(mask: Tensor | None, is_causal: bool | None) -> bool:
    """The hint, or without one: is this the mask of ``Transformer.generate_square_subsequent_mask``?"""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    square = mask.ndim == 2 and mask.size(0) == mask.size(1)
    return square and bool((mask == _causal_mask(len(mask), mask.device, mask.dtype)).all())


def _get_activation_fn(activation: str) -> Activation:
    named: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in named:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return named[activation]


def _get_clones(module: Module, N: int) -> ModuleList:  # noqa: N803, PyTorch's name
    """Copies of a module."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


class _Layer(Module):
    """Attentions and a feed-forward branch, each added to its input and normalised: behind the sum,
    or before the branch with ``norm_first``. activation: "relu", "gelu" or a function.  dropout: of
    the attention's weights, of all branches and behind the activation, in training."""

    attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
            )
            self.register_module(name, attention)
        branches = range(1, len(self.attentions) + 2)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        for i in branches:
            self.register_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype))
        for i in branches:
            self.register_module(f"dropout{i}", Dropout(dropout))
        self.activation: Activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _branch(self, i: int, x: Tensor, branch: Activation) -> Tensor:
        """x + branch(x), normalised"""
        norm = getattr(self, f"norm{i}")
        y: Tensor = x + branch(norm(x)) if self.norm_first else norm(x + branch(x))
        return y

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        y: Tensor = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)[0]
        y = self.dropout1(y)
        return y

    def _computed(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return y


class TransformerEncoderLayer(_Layer):
    __doc__ = f"Self-attention and a feed-forward branch.  {_Layer.__doc__}"
    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(S, N, E), masks as those of ``MultiheadAttention`` -> (S, N, E)"""

        x = self._branch(1, src, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal))
        return self._branch(2, x, self._ff_block)

    def _ff_block(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout2(self._computed(x))
        return y


class TransformerDecoderLayer(_Layer):
    __doc__ = f"Self-attention, attention to the encoder's output and a feed-forward branch.  {_Layer.__doc__}"
    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, N, E), memory (S, N, E) -> (T, N, E)"""

        x = self._branch(1, tgt, lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._branch(
            2, x, lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        )
        return self._branch(3, x, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        y: Tensor = self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal)[0]
        y = self.dropout2(y)
        return y

    def _ff_block(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout3(self._computed(x))
        return y


class _Stack(Module):
    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = _get_clones(layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def _normed(self, x: Tensor) -> Tensor:
        y: Tensor = x if self.norm is None else self.norm(x)
        return y


class TransformerEncoder(_Stack):
    """``num_layers`` copies of a layer in a row, then ``norm``.  enable_nested_tensor and mask_check change nothing."""

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """(S, N, E) -> (S, N, E); is_causal: the mask hides exactly the later positions, found out where None"""
        causal = _is_causal(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return self._normed(src)


class TransformerDecoder(_Stack):
    """``num_layers`` copies of a layer in a row, then ``norm``."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, N, E), memory (S, N, E) -> (T, N, E)"""
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return self._normed(tgt)


class Transformer(Module):
    """An encoder and a decoder that looks at its output, both with a norm at the end; weights start
    by ``init.xavier_uniform_``.  custom_encoder, custom_decoder: modules to take their places; the
    other arguments are those of the layers."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        options = (dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(d_model, nhead, dim_feedforward, *options)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(d_model, nhead, dim_feedforward, *options)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | str | None = None, dtype: _core.dtype | None = None
    ) -> Tensor:
        """The mask that hides later positions: -infinity above the diagonal, 0 elsewhere : (sz, sz)"""
        return _causal_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(S, N, E), (T, N, E) -> (T, N, E)"""
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
