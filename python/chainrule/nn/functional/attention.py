"""Scaled dot-product attention as a function."""

from __future__ import annotations

import math

from ... import _core
from ..._core import Tensor
from .dropouts import dropout

__all__ = [
    "scaled_dot_product_attention",
]


def _attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """softmax(scale q k^T + mask) : (..., T, S); 0 for a query that sees no key."""
    scores = (query * scale) @ key.mT
    if mask is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is _core.bool else scores + mask
    blind = scores == -math.inf
    return scores.softmax(-1).masked_fill(blind, 0)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale q k^T + mask) v : (..., T, D), (..., S, D), (..., S, Dv) -> (..., T, Dv); scale
    is 1 / sqrt(D) when absent.  A query that sees no key gives 0. attn_mask: broadcasts to (..., T,
    S); bool, true where t sees s, or floats that are added to the scores.  is_causal: query t sees
    the keys <= t. enable_gqa: key and value have fewer heads (axis -3), each for several
    neighbouring heads of the query.  No matrix of all scores is kept but with dropout, D other than
    Dv, or more than four axes."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("[scaled_dot_product_attention] explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = (
            x.unsqueeze(-3).expand(*x.shape[:-2], query.size(-3) // x.size(-3), *x.shape[-2:]).flatten(-4, -3)
            for x in (key, value)
        )
    if is_causal and query.size(-2) != key.size(-2):  # the C library counts from the last query
        is_causal, attn_mask = (
            False,
            _core.ones(query.size(-2), key.size(-2), dtype=_core.bool, device=query.device).tril(),
        )
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2] and query.size(-1) == value.size(-1)
    if alike and dropout_p == 0 and scale != 0 and 2 <= query.ndim <= 4:
        axes = (1,) * (4 - query.ndim)
        q, k, v = (x.reshape(*axes, *x.shape) for x in (query, key, value))
        y = _core._attention(q, k, v, is_causal, scale, attn_mask)
        return y.squeeze(tuple(range(len(axes)))) if axes else y
    if is_causal:
        attn_mask = _core.ones(query.size(-2), key.size(-2), dtype=_core.bool, device=query.device).tril()
    return dropout(_attention_weights(query, key, attn_mask, scale), dropout_p) @ value
