"""New models of Llama (Touvron et al. 2023) and the families that share its parts: Llama 2 and 3, SmolLM, Mistral, Qwen
2 and 3."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .. import _core
from .._core import Device, Generator
from .causal import CausalLM

__all__ = ["Llama"]

ROPE = {"rope_type": "default", "rope_theta": 10000.0}


class Llama(CausalLM):
    """Predicts each next token: ``Llama(vocabulary, context, layers, heads, width, inner)(tokens)``,
    ints (B, T) -> logits (B, T, V).

    inner: the MLP's width.  kv_heads: fewer heads of keys and values, each for several neighbouring
    heads of queries.  head_dim: width / heads when absent.  eps: of the norms.  rope: the rotation of queries and keys,
    with the keys of "rope_parameters" in config.json.  window: a query sees the last so many keys, 0: all; window_from:
    the first layer with it.  tied: the head is the embedding.  qk_norm: queries and keys are normalized, each head by
    itself.  ValueError: a size below 1, heads that do not divide, a dropout outside of [0, 1), parts that no family
    has together."""

    kinds = ("llama", "mistral", "qwen2", "qwen3")

    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        heads: int,
        width: int,
        inner: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        eps: float = 1e-6,
        rope: Mapping[str, Any] = ROPE,
        window: int = 0,
        window_from: int = 0,
        tied: bool = False,
        qkv_bias: bool = False,
        out_bias: bool = False,
        mlp_bias: bool = False,
        qk_norm: bool = False,
        dropout: float = 0.0,
        generator: Generator | None = None,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        kv_heads, head_dim = kv_heads or heads, head_dim or width // max(heads, 1)
        sizes = {
            "vocabulary": vocabulary,
            "context": context,
            "layers": layers,
            "heads": heads,
            "width": width,
            "inner": inner,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
        }
        wrong = [f"{name} must be at least 1, not {size}" for name, size in sizes.items() if size < 1]
        wrong += [f"kv_heads must divide heads: {kv_heads} and {heads}"] if not wrong and heads % kv_heads else []
        wrong += [f"head_dim must be even, not {head_dim}"] if head_dim % 2 else []
        wrong += [f"dropout must be in [0, 1), not {dropout}"] if not 0 <= dropout < 1 else []
        kind = "qwen3" if qk_norm else "qwen2" if qkv_bias > out_bias else "mistral" if window else "llama"
        has = {
            "qkv_bias": qkv_bias == out_bias or kind == "qwen2",
            "mlp_bias": not mlp_bias or kind in ("llama", "mistral"),
            "window_from": not window_from or kind.startswith("qwen"),
        }
        wrong += [f"{name} is not of the family {kind}" for name, fits in has.items() if not fits]
        if wrong:
            raise ValueError("[Llama] " + "; ".join(wrong))
        scaling = {k: v for k, v in rope.items() if k != "rope_theta"}
        grown = rope["rope_type"] == "dynamic"
        said: dict[str, Any] = {
            "model_type": kind,
            "vocab_size": vocabulary,
            "max_position_embeddings": int(context / rope["factor"]) if grown else context,
            "hidden_size": width,
            "intermediate_size": inner,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": eps,
            "rope_theta": rope["rope_theta"],
            "rope_scaling": None if scaling["rope_type"] == "default" else scaling,
            "rope_parameters": dict(rope),
            "tie_word_embeddings": tied,
            "attention_bias": out_bias,
            "mlp_bias": mlp_bias,
        }
        if kind != "llama":
            said |= {"sliding_window": window or None, "use_sliding_window": window > 0}
        if kind.startswith("qwen"):
            said |= {"max_window_layers": window_from if window else layers}
        text, weights = _core._lm_new(json.dumps(said), dtype or _core.get_default_dtype(), device or "cpu", generator)
        self._made(text, weights, generator, said)
        self._config = self._config._replace(dropout=dropout)
