"""MultiheadAttention (Vaswani et al. 2017).

Letters in shapes: N batch, L and S times of queries and keys, E width, H heads, D = E / H.  Batch
comes second but with ``batch_first``; without a batch, inputs are (L, E) and (S, E).  A bool mask
is true where something must NOT be seen (unlike that of ``scaled_dot_product_attention``); a float
mask is added to the scores."""

from __future__ import annotations

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from . import init
from .linear import NonDynamicallyQuantizableLinear, new
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]


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
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
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
        turned = self.batch_first and query.ndim == 3
        if turned:  # equal inputs stay one object
            first = {id(x): x.transpose(0, 1) for x in (query, key, value) if x.ndim == 3}
            query, key, value = (first.get(id(x), x) for x in (query, key, value))
        y, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            self.in_proj_weight is None,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return y.transpose(0, 1) if turned else y, weights
