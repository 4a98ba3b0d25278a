"""Attention in several heads as a function (Vaswani et al. 2017).

Letters in shapes: N batch, L and S times of queries and keys, E width, H heads, D = E / H.  A bool
mask is true where something must NOT be seen (unlike that of ``scaled_dot_product_attention``); a
float mask is added to the scores."""

from __future__ import annotations

import math

from ... import _core
from ..._core import Tensor
from .attention import _attention_weights, scaled_dot_product_attention
from .dropouts import dropout
from .layers import linear

__all__ = ["multi_head_attention_forward"]

Optional3 = tuple[Tensor | None, Tensor | None, Tensor | None]


def _added(mask: Tensor, dtype: _core.dtype) -> Tensor:
    """The mask as numbers that are added to the scores."""
    return (
        _core.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf) if mask.dtype is _core.bool else mask.to(dtype)
    )


def _projected(inputs: list[Tensor], weight: Tensor | None, separate: Optional3, bias: Tensor | None) -> list[Tensor]:
    """q, k and v : (N, L, E), (N, S, kdim), (N, S, vdim) -> (N, L, E), (N, S, E) x 2; one product
    where all are of the same"""
    query, key, value = inputs
    if weight is not None and query is key and key is value:
        return [*_core._linear(query, weight, bias).chunk(3, -1)]
    weights = separate if weight is None else weight.chunk(3)
    biases = bias.chunk(3) if bias is not None else (None, None, None)
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True) if w is not None]


def _joint_mask(query: Tensor, heads: int, padding: Tensor | None, mask: Tensor | None, more: int) -> Tensor | None:
    """Both masks as one that is added to the scores : (N, S) and (L, S) or (N H, L, S) -> (N or
    1, H or 1, L or 1, S), with the ``more`` keys that were added"""
    whole = None
    if mask is not None:
        whole = _added(mask, query.dtype)
        if whole.ndim not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {whole.ndim} is not supported")
        whole = whole.unsqueeze(0) if whole.ndim == 2 else whole.unflatten(0, (-1, heads))
    if padding is not None:
        hidden = _added(padding, query.dtype).reshape(len(query), 1, 1, -1)
        whole = hidden if whole is None else whole + hidden
    if whole is None or not more:
        return whole
    return _core.cat([whole, _core.zeros(*whole.shape[:-1], more, dtype=whole.dtype, device=whole.device)], -1)


def _with_more(x: Tensor, learned: Tensor | None, zero: bool) -> Tensor:
    """Keys or values (N, S, E) with those behind that were asked for."""
    parts = [x] if learned is None else [x, learned.expand(len(x), 1, x.size(-1))]
    if zero:
        parts.append(x.new_zeros(len(x), 1, x.size(-1)))
    return x if len(parts) == 1 else _core.cat(parts, 1)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k^T / sqrt(D)) v in each head, q, k and v by linear maps of the inputs, the heads side
    by side through one more : (L, N, E), (S, N, kdim), (S, N, vdim), or without N, -> (L, N, E), and
    the weights, (N, L, S) as means over the heads or (N, H, L, S), or None: without them no matrix of
    all scores is kept. key_padding_mask: (N, S).  attn_mask: (L, S) or (N H, L, S).  is_causal:
    attn_mask hides exactly the later positions.  static_k, static_v: (N H, S, D) in place of the maps."""
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"query, key and value should be all 2-D, unbatched, or all 3-D, but found {query.ndim}-D, {key.ndim}-D"
            f" and {value.ndim}-D"
        )
    if query.size(-1) != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {query.size(-1)}")
    if use_separate_proj_weight and None in (q_proj_weight, k_proj_weight, v_proj_weight):
        raise AssertionError("use_separate_proj_weight is True but a weight of q, k or v is None")
    if not use_separate_proj_weight and in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    batched = query.ndim == 3
    turned = {id(x): x.transpose(0, 1) if batched else x.unsqueeze(0) for x in (query, key, value)}
    inputs = [turned[id(x)] for x in (query, key, value)]  # equal inputs stay one object
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _projected(inputs, None if use_separate_proj_weight else in_proj_weight, separate, in_proj_bias)
    k, v = _with_more(k, bias_k, add_zero_attn), _with_more(v, bias_v, add_zero_attn)
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))  # (N, H, L or S, D)
    k = k if static_k is None else static_k.unflatten(0, (-1, num_heads))
    v = v if static_v is None else static_v.unflatten(0, (-1, num_heads))
    more = (bias_k is not None) + add_zero_attn
    share = dropout_p if training else 0.0
    weights = None
    if need_weights:
        mask = _joint_mask(q, num_heads, key_padding_mask, attn_mask, more)
        weights = dropout(_attention_weights(q, k, mask, 1 / math.sqrt(q.size(-1))), share)
        y = weights @ v
    elif is_causal and key_padding_mask is None and q.size(2) == k.size(2):
        y = scaled_dot_product_attention(q, k, v, None, share, True)
    else:
        mask = _joint_mask(q, num_heads, key_padding_mask, attn_mask, more)
        y = scaled_dot_product_attention(q, k, v, mask, share)
    y = _core._linear(y.transpose(1, 2).flatten(2), out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if batched:
        return y.transpose(0, 1), weights
    return y.squeeze(0), None if weights is None else weights.squeeze(0)
