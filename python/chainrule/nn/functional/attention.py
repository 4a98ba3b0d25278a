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


def _visible(query: Tensor, key: Tensor, offset: int, window: int | None) -> Tensor:
    """The mask of ``is_causal``: true where query t sees key s : (T, S)"""
    ones = _core.ones(query.size(-2), key.size(-2), dtype=_core.bool, device=query.device)
    return ones.tril(offset) if window is None else ones.tril(offset).triu(offset + 1 - window)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    offset: int = 0,
    window: int | None = None,
) -> Tensor:
    """softmax(scale q k^T + mask) v : (..., T, D), (..., S, D), (..., S, Dv) -> (..., T, Dv); scale
    is 1 / sqrt(D) when absent.  A query that sees no key gives 0. attn_mask: broadcasts to (..., T,
    S); bool, true where t sees s, or floats that are added to the scores.  is_causal: query t sees
    the keys <= t + offset, or the last ``window`` of them; offset: the keys before those of the
    queries, S - T with a cache. enable_gqa: key and value have fewer heads (axis -3), each for
    several neighbouring heads of the query, and are not copied.  No matrix of all scores is kept but
    with dropout, D other than Dv, or more than four axes."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("[scaled_dot_product_attention] explicit attn_mask should not be set when is_causal=True")
    if not is_causal and (offset or window is not None):
        raise RuntimeError("[scaled_dot_product_attention] offset and window need is_causal=True")
    if window is not None and window < 1:
        raise ValueError(f"[scaled_dot_product_attention] window must be at least 1: {window}")
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    grouped = enable_gqa and query.ndim > 2 and key.ndim > 2 and value.ndim > 2
    if grouped and (
        not key.size(-3) or not value.size(-3) or query.size(-3) % key.size(-3) or query.size(-3) % value.size(-3)
    ):
        raise RuntimeError(
            "[scaled_dot_product_attention] the heads of key and value must divide those of query:"
            f" {key.size(-3)}, {value.size(-3)} and {query.size(-3)}"
        )
    heads = -3 if grouped else -2  # axes before this one must be equal for the kernel
    alike = query.shape[:heads] == key.shape[:heads] and key.shape[:-1] == value.shape[:-1]
    if (
        alike
        and query.size(-1) == key.size(-1) == value.size(-1)
        and dropout_p == 0
        and scale != 0
        and 2 <= query.ndim <= 4
    ):
        axes = (1,) * (4 - query.ndim)
        q, k, v = (x.reshape(*axes, *x.shape) for x in (query, key, value))
        shift = offset + query.size(-2) - key.size(-2) if is_causal else 0  # the C library counts from the last query
        y = _core._attention(q, k, v, is_causal, scale, attn_mask, window or 0, shift)
        return y.squeeze(tuple(range(len(axes)))) if axes else y
    if grouped:
        key, value = (x.repeat_interleave(query.size(-3) // x.size(-3), -3) for x in (key, value))
    if is_causal:
        attn_mask = _visible(query, key, offset, window)
    return dropout(_attention_weights(query, key, attn_mask, scale), dropout_p) @ value
