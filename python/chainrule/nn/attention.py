"""MultiheadAttention and TransformerEncoderLayer (Vaswani et al. 2017).

Letters in shapes: N batch, L and S times of queries and keys, E width, H heads, D = E / H.  Batch
comes second but with ``batch_first``; without a batch, inputs are (L, E) and (S, E).  A bool mask
is true where something must NOT be seen (unlike that of ``scaled_dot_product_attention``); a float
mask is added to the scores."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .functional.attention import _attention_weights
from .linear import Dropout, Linear, new
from .module import Module, Parameter
from .norm import LayerNorm

__all__ = ["MultiheadAttention", "TransformerEncoderLayer"]


def _added(mask: Tensor, dtype: _core.dtype) -> Tensor:
    """The mask as numbers that are added to the scores."""
    return (
        _core.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf) if mask.dtype is _core.bool else mask.to(dtype)
    )


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(D)) v in each of ``num_heads`` heads, q, k and v by Linear layers from
    the inputs, the heads side by side through one more. kdim, vdim: widths of keys and values where
    they differ from ``embed_dim``.  add_bias_kv: one learned key and value more; add_zero_attn: one
    of zeros. dropout: of the weights, in training."""

    in_proj_weight: Parameter | None  # (3 E, E): q, k and v one below the other; where widths differ, there are three
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads}"
                " instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.head_dim, self.dropout = (
            embed_dim,
            num_heads,
            embed_dim // num_heads,
            dropout,
        )
        self.kdim, self.vdim, self.batch_first, self.add_zero_attn = (
            kdim or embed_dim,
            vdim or embed_dim,
            batch_first,
            add_zero_attn,
        )
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        same = set(widths.values()) == {embed_dim}
        for name, width in widths.items():
            self.register_parameter(name, None if same else new(embed_dim, width, device=device, dtype=dtype))
        self.register_parameter(
            "in_proj_weight", new(3 * embed_dim, embed_dim, device=device, dtype=dtype) if same else None
        )
        self.register_parameter("in_proj_bias", new(3 * embed_dim, device=device, dtype=dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, new(1, 1, embed_dim, device=device, dtype=dtype) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for one in (self.bias_k, self.bias_v):
            if one is not None:
                init.xavier_normal_(one)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """q, k and v : (N, L, E), (N, S, kdim), (N, S, vdim) -> (N, L, E), (N, S, E) x 2; one
        product where all are of the same"""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key and key is value:
            return [*_core._linear(query, weight, bias).chunk(3, -1)]
        weights = (
            weight.chunk(3) if weight is not None else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        )
        biases = bias.chunk(3) if bias is not None else (None, None, None)
        return [
            F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True) if w is not None
        ]

    def _mask(self, query: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """Both masks as one that is added to the scores : (N, S) and (L, S) or (N H, L, S) -> (N or
        1, H or 1, L or 1, S), with the keys that were added"""
        whole = None
        if mask is not None:
            whole = _added(mask, query.dtype)
            if whole.ndim not in (2, 3):
                raise RuntimeError(f"attn_mask's dimension {whole.ndim} is not supported")
            whole = whole.unsqueeze(0) if whole.ndim == 2 else whole.unflatten(0, (-1, self.num_heads))
        if padding is not None:
            hidden = _added(padding, query.dtype).reshape(len(query), 1, 1, -1)
            whole = hidden if whole is None else whole + hidden
        more = (self.bias_k is not None) + self.add_zero_attn
        if whole is None or not more:
            return whole
        return _core.cat([whole, _core.zeros(*whole.shape[:-1], more, dtype=whole.dtype, device=whole.device)], -1)

    def _with_more(self, x: Tensor, learned: Tensor | None) -> Tensor:
        """Keys or values with those behind that were asked for."""
        parts = [x] if learned is None else [x, learned.expand(len(x), 1, self.embed_dim)]
        if self.add_zero_attn:
            parts.append(_core.zeros(len(x), 1, self.embed_dim, dtype=x.dtype, device=x.device))
        return x if len(parts) == 1 else _core.cat(parts, 1)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result, (L, N, E), and the weights, (N, L, S) as means over the heads or (N, H, L,
        S), or None: without them no matrix of all scores is kept. key_padding_mask: (N, S).
        attn_mask: (L, S) or (N H, L, S).  is_causal: attn_mask hides exactly the later
        positions."""
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise AssertionError(
                f"query, key and value should be all 2-D, unbatched, or all 3-D, but found {query.ndim}-D, {key.ndim}-D"
                f" and {value.ndim}-D"
            )
        if query.size(-1) != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.size(-1)}")
        batched, turned = query.ndim == 3, query.ndim == 3 and not self.batch_first
        inputs = {
            id(x): x.transpose(0, 1) if turned else x if batched else x.unsqueeze(0) for x in (query, key, value)
        }  # equal inputs stay one object
        q, k, v = self._projected(*(inputs[id(x)] for x in (query, key, value)))
        k, v = self._with_more(k, self.bias_k), self._with_more(v, self.bias_v)
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        scale = 1 / math.sqrt(self.head_dim)
        share = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = F.dropout(_attention_weights(q, k, self._mask(q, key_padding_mask, attn_mask), scale), share)
            y = weights @ v
        elif is_causal and key_padding_mask is None and q.size(2) == k.size(2):
            y = F.scaled_dot_product_attention(q, k, v, None, share, True)
        else:
            y = F.scaled_dot_product_attention(q, k, v, self._mask(q, key_padding_mask, attn_mask), share)
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y.transpose(0, 1) if turned else y, weights


class TransformerEncoderLayer(Module):
    """x + attention(x), then x + linear2(activation(linear1(x))), each normalised: behind the sum,
    or before the branch with ``norm_first``. activation: "relu", "gelu" or a function.  dropout: of
    the attention's weights, of both branches and behind the activation, in training."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        named: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
        if isinstance(activation, str) and activation not in named:
            raise RuntimeError(f"activation should be relu/gelu, not {activation}")
        self.activation: Callable[[Tensor], Tensor] = named[activation] if isinstance(activation, str) else activation

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(L, N, E), masks as those of ``MultiheadAttention`` -> (L, N, E)"""

        def attended(x: Tensor) -> Tensor:
            y, _ = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)
            return self.dropout1(y)  # type: ignore[no-any-return]

        def computed(x: Tensor) -> Tensor:
            return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))  # type: ignore[no-any-return]

        if self.norm_first:
            src = src + attended(self.norm1(src))
            return src + computed(self.norm2(src))
        src = self.norm1(src + attended(src))
        return self.norm2(src + computed(src))  # type: ignore[no-any-return]
