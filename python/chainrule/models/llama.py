"""Llama (Touvron et al. 2023) and the models that share its page: Llama 2 and 3, SmolLM, Mistral, Qwen 2 and 3.

Letters: B batch, T time, C width, V vocabulary, H heads of queries, KV heads of keys and values, D
width of a head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..nn import functional as F
from ..random import fork_rng
from .decoder import Cache, Decoder, Past, Spans, attend, in_autocast
from .pretrained import Settings

__all__ = ["Llama", "LlamaConfig"]


WINDOW, WINDOW_FROM = 4096, 28  # where config.json does not say them


class LlamaConfig(NamedTuple):
    """The configuration of a Llama: sizes, and what its relatives have or lack."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    inner: int  # width inside of the MLP
    kv_heads: int
    head_dim: int
    eps: float = 1e-6  # of the norms
    rope: Mapping[str, Any] = {"rope_type": "default", "rope_theta": 10000.0}
    window: int = 0  # a query sees the last so many keys; 0: all
    window_from: int = 0  # the first layer with this window
    tied: bool = False  # the head is the embedding
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False  # queries and keys are normalized, each head by itself
    dropout: float = 0.0


class Attention(nn.Module):
    """Each position looks at itself and those before, or the last of them : (B, T, C) -> (B, T, C); cache
    and past as in ``attend``."""

    def __init__(self, config: LlamaConfig, window: int, **new: Any) -> None:
        super().__init__()
        C, H, KV, D = config.width, config.heads, config.kv_heads, config.head_dim
        self.D, self.window = D, window
        self.q_proj = nn.Linear(C, H * D, config.qkv_bias, **new)
        self.k_proj = nn.Linear(C, KV * D, config.qkv_bias, **new)
        self.v_proj = nn.Linear(C, KV * D, config.qkv_bias, **new)
        self.o_proj = nn.Linear(H * D, C, config.out_bias, **new)
        self.q_norm, self.k_norm = (
            (nn.RMSNorm(D, config.eps, **new) if config.qk_norm else nn.Identity()) for _ in "qk"
        )

    def forward(self, x: Tensor, table: Tensor, cache: Cache | Sequence[Cache] | None = None, past: Past = 0) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (p(x).view(B, T, -1, self.D) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (F.rope(norm(x).transpose(1, 2), table) for norm, x in ((self.q_norm, q), (self.k_norm, k)))
        y = attend(q, k, v.transpose(1, 2), cache, past, self.window)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """down(silu(gate(x)) up(x)) : (B, T, C) -> (B, T, C)"""

    def __init__(self, config: LlamaConfig, **new: Any) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.inner, config.mlp_bias, **new)
        self.up_proj = nn.Linear(config.width, config.inner, config.mlp_bias, **new)
        self.down_proj = nn.Linear(config.inner, config.width, config.mlp_bias, **new)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.swiglu(self.gate_proj(x), self.up_proj(x)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, config: LlamaConfig, window: int, **new: Any) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.width, config.eps, **new)
        self.self_attn = Attention(config, window, **new)
        self.post_attention_layernorm = nn.RMSNorm(config.width, config.eps, **new)
        self.mlp = MLP(config, **new)


class Llama(Decoder):
    """Predicts each next token: ``Llama(vocabulary, context, layers, heads, width, inner)(tokens)``,
    ints (B, T) -> logits (B, T, V).

    inner: the MLP's width.  kv_heads: fewer heads of keys and values, each for several neighbouring
    heads of queries.  head_dim: width / heads when absent.  rope: the rotation of queries and keys,
    with the keys of "rope_parameters" in config.json.  Other options: ``LlamaConfig``.
    ValueError: a size below 1, heads that do not divide, a dropout outside of [0, 1)."""

    kinds = {
        "llama": "LlamaForCausalLM",
        "mistral": "MistralForCausalLM",
        "qwen2": "Qwen2ForCausalLM",
        "qwen3": "Qwen3ForCausalLM",
    }
    prefix, layer, masks = "model.", "layers", r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"
    into_residual, embedding = ("o_proj.weight", "down_proj.weight"), "embed_tokens.weight"
    lora_targets = ("q_proj", "v_proj")

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
        generator: Generator | None = None,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.pretrained = {}
        kv_heads, head_dim = kv_heads or heads, head_dim or width // max(heads, 1)
        config = LlamaConfig(vocabulary, context, layers, heads, width, inner, kv_heads, head_dim, **options)
        self.config, self.generator = config, generator
        wrong = [
            f"{name} must be at least 1, not {size}"
            for name, size in config._asdict().items()
            if name in LlamaConfig._fields[:8] and size < 1
        ]
        wrong += [f"kv_heads must divide heads: {kv_heads} and {heads}"] if not wrong and heads % kv_heads else []
        wrong += [f"head_dim must be even, not {head_dim}"] if head_dim % 2 else []
        wrong += [f"dropout must be in [0, 1), not {config.dropout}"] if not 0 <= config.dropout < 1 else []
        if wrong:
            raise ValueError("[Llama] " + "; ".join(wrong))
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        with fork_rng():  # the weights are drawn again below
            self.embed_tokens = nn.Embedding(vocabulary, width, **new)
            self.layers = nn.ModuleList(
                Block(config, config.window if i >= config.window_from else 0, **new) for i in range(layers)
            )
            self.norm = nn.RMSNorm(width, config.eps, **new)
            self.lm_head = None if config.tied else nn.Linear(width, vocabulary, bias=False, **new)
        self.reset_parameters()

    def _table(self, T: int, past: Past, room: int) -> Tensor:
        """The rotations of T positions, (T, D); of one whose number is a tensor, among those of a cache's room."""
        if isinstance(past, Spans):
            return _core.cat([self._table(*span, room) for span in zip(*past, strict=True)], 0)
        if isinstance(past, Tensor):
            return self._table(room, 0, room).index_select(0, past)
        p, c = self.like, self.config
        double = _core.float64 if p.dtype is _core.float64 else _core.float32
        return F.rope_table(T, c.head_dim, c.rope["rope_theta"], c.rope, start=past, dtype=double, device=p.device)

    def hidden(self, tokens: Tensor, caches: Sequence[Cache | Sequence[Cache]] | None = None, past: Past = 0) -> Tensor:
        stores: Any = caches and caches[0]
        table = self._table(self._time(tokens, past), past, stores[0].size(2) if isinstance(past, Tensor) else 0)
        x = self._drop(in_autocast(self.embed_tokens(tokens)))
        for i, block in enumerate(self.layers):
            x = x + self._drop(block.self_attn(block.input_layernorm(x), table, caches and caches[i], past))
            x = x + self._drop(block.mlp(block.post_attention_layernorm(x)))
        return self.norm(x)  # type: ignore[no-any-return]

    @property
    def blocks(self) -> Any:
        return self.layers

    @property
    def output(self) -> Any:
        return self.embed_tokens if self.lm_head is None else self.lm_head

    @property
    def head(self) -> Tensor:
        return self.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    @property
    def steady(self) -> bool:
        return bool(self.config.rope["rope_type"] != "dynamic")

    def cache_shape(self, room: int) -> tuple[int, ...]:
        return (1, self.config.kv_heads, room, self.config.head_dim)

    @classmethod
    def options(cls, said: Settings) -> dict[str, Any]:
        """Arguments of the class for what a config.json says."""
        kind = said.text("model_type", tuple(cls.kinds))
        qwen, heads, width = kind.startswith("qwen"), said.size("num_attention_heads"), said.size("hidden_size")
        layers, context = said.size("num_hidden_layers"), said.size("max_position_embeddings")
        said.text("hidden_act", ("silu",), "silu")
        head_dim = said.size("head_dim", 128 if kind == "qwen3" else max(width // heads, 1))
        bias = said.flag("attention_bias", False)
        rope = rope_of(said)
        window, window_from = window_of(said, kind, layers)
        return {
            "vocabulary": said.size("vocab_size"),
            "context": context if rope["rope_type"] != "dynamic" else int(context * rope["factor"]),
            "layers": layers,
            "heads": heads,
            "width": width,
            "inner": said.size("intermediate_size"),
            "kv_heads": said.size("num_key_value_heads", heads),
            "head_dim": head_dim,
            "eps": said.number("rms_norm_eps", 1e-6, 0.0, 1.0),
            "rope": rope,
            "window": window,
            "window_from": window_from,
            "tied": said.flag("tie_word_embeddings", False),
            "qkv_bias": kind == "qwen2" or bias,
            "out_bias": bias and kind != "qwen2",
            "mlp_bias": said.flag("mlp_bias", False) and not qwen,
            "qk_norm": kind == "qwen3",
        }

    def described(self) -> dict[str, Any]:
        c, kind = self.config, self.pretrained.get("model_type")
        if kind is None:
            kind = "qwen3" if c.qk_norm else "qwen2" if c.qkv_bias > c.out_bias else "mistral" if c.window else "llama"
        theta, scaling = c.rope["rope_theta"], {k: v for k, v in c.rope.items() if k != "rope_theta"}
        sizes = {
            "model_type": kind,
            "vocab_size": c.vocabulary,
            "max_position_embeddings": c.context
            if c.rope["rope_type"] != "dynamic"
            else int(c.context / c.rope["factor"]),
            "hidden_size": c.width,
            "intermediate_size": c.inner,
            "num_hidden_layers": c.layers,
            "num_attention_heads": c.heads,
            "num_key_value_heads": c.kv_heads,
            "head_dim": c.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": c.eps,
            "rope_theta": theta,
            "rope_scaling": None if scaling["rope_type"] == "default" else scaling,
            "rope_parameters": dict(c.rope),
            "tie_word_embeddings": c.tied,
            "attention_bias": c.out_bias,
            "mlp_bias": c.mlp_bias,
        }
        if kind != "llama":
            sizes |= {"sliding_window": c.window or None, "use_sliding_window": c.window > 0}
            sizes |= {"max_window_layers": c.window_from if c.window else c.layers} if kind != "mistral" else {}
        return sizes


def rope_of(said: Settings) -> dict[str, Any]:
    """The rotation by "rope_parameters", or by "rope_theta" and "rope_scaling" of older files."""
    key = "rope_scaling" if said.entries.get("rope_scaling") else "rope_parameters"  # the older one prevails
    found = said.entries.get(key)
    if found is not None and not isinstance(found, dict):
        raise said.wrong(key, "an object")
    inner = Settings(f"{said.path}' in '{key}", dict(found or {}))
    inner.entries.setdefault("rope_type", inner.entries.get("type", "default"))
    inner.entries.pop("type", None)
    inner.entries.setdefault("rope_theta", said.entries.get("rope_theta", 10000.0))
    kind = inner.text("rope_type", ("default", "linear", "dynamic", "yarn", "llama3"))
    inner.number("rope_theta", 10000.0, 1.001)
    inner.only("partial_rotary_factor", 1.0)
    if kind != "default":
        inner.number("factor", 0.0, 1.0, 1e6)
    if kind in ("dynamic", "yarn", "llama3"):
        inner.entries.setdefault("original_max_position_embeddings", said.entries.get("max_position_embeddings"))
        inner.size("original_max_position_embeddings")
    if kind == "llama3":
        low = inner.number("low_freq_factor", 0.0, 1e-6)
        inner.number("high_freq_factor", 0.0, low * (1 + 1e-6))
    if kind == "yarn":
        for name, default in ("beta_fast", 32.0), ("beta_slow", 1.0), ("mscale", 0.0), ("mscale_all_dim", 0.0):
            inner.number(name, default, 0.0)
        inner.number("attention_factor", 1.0, 0.0)
    return inner.entries


def window_of(said: Settings, kind: str, layers: int) -> tuple[int, int]:
    """The window of keys, 0 where there is none, and the first layer that has it."""
    used = kind == "mistral" or (kind != "llama" and said.flag("use_sliding_window", False))
    if not used or said.entries.get("sliding_window", WINDOW) is None:
        return 0, 0
    first = said.size("max_window_layers", WINDOW_FROM, 0) if kind != "mistral" else 0
    types = said.entries.get("layer_types")
    if types is not None:
        sliding = [t == "sliding_attention" for t in types] if isinstance(types, list) else []
        first = sliding.index(True) if True in sliding else layers
        if sliding != [i >= first for i in range(layers)]:
            raise said.wrong("layer_types", f"full_attention, then sliding_attention, {layers} in all")
    return said.size("sliding_window", WINDOW), first
