"""GPT-2 (Radford et al. 2019): the model of src/models/gpt.c, with its names, its numbers and its files.

Letters: B batch, T time, C width, V vocabulary, H heads, D = C / H.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..nn import functional as F
from ..random import fork_rng
from .decoder import Cache, Decoder, Past, Spans, attend, consistent, in_autocast
from .pretrained import Settings


class Config(NamedTuple):
    """The configuration of the model in a checkpoint."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    dropout: float


class Attention(nn.Module):
    """Each position looks at itself and those before : (B, T, C) -> (B, T, C); cache and past as in ``attend``."""

    def __init__(self, width: int, heads: int, device: Device | str | None, dtype: _core.dtype | None) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, device=device, dtype=dtype)
        self.c_proj = nn.Linear(width, width, device=device, dtype=dtype)

    def forward(self, x: Tensor, cache: Cache | Sequence[Cache] | None = None, past: Past = 0) -> Tensor:
        B, T, C = x.shape
        qkv = self.c_attn(x).view(B, T, 3, self.heads, C // self.heads)
        if cache is None and not isinstance(past, Spans):
            y = _core._attention_packed(qkv, True)
        else:
            q, k, v = (qkv.select(2, i).transpose(1, 2) for i in range(3))  # (B, H, T, D)
            y = attend(q, k, v, cache, past)
        y = self.c_proj(y.transpose(1, 2).reshape(B, T, C))  # the heads side by side again
        return y  # type: ignore[no-any-return]


class MLP(nn.Module):
    """(B, T, C) -> (B, T, C), through 4 C"""

    def __init__(self, width: int, device: Device | str | None, dtype: _core.dtype | None) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, device=device, dtype=dtype)
        self.c_proj = nn.Linear(4 * width, width, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # type: ignore[no-any-return]


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, width: int, heads: int, device: Device | str | None, dtype: _core.dtype | None) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width, device=device, dtype=dtype), Attention(width, heads, device, dtype)
        self.ln_2, self.mlp = nn.LayerNorm(width, device=device, dtype=dtype), MLP(width, device, dtype)


class GPT(Decoder):
    """Predicts each next token: ``GPT(vocabulary, context, layers, heads, width)(tokens)``, ints
    (B, T) -> logits (B, T, V); the head is the token embedding.

    context: the most tokens that it sees.  dropout: of the branches that are added to the residual stream, in training.
    generator: draws the weights and then the dropout; the default one when absent.
    ValueError: a size below 1, a width that heads do not divide, a dropout outside of [0, 1).
    """

    kinds = {"gpt2": "GPT2LMHeadModel"}
    prefix, layer, masks = "transformer.", "h", r"h\.\d+\.attn\.(bias|masked_bias)"
    transposed = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    into_residual, embedding = ("c_proj.weight",), "wte.weight"
    lora_targets = ("c_attn",)

    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        heads: int,
        width: int,
        dropout: float = 0.0,
        *,
        generator: Generator | None = None,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.pretrained = {}
        self.config, self.generator = Config(vocabulary, context, layers, heads, width, dropout), generator
        wrong = [
            f"{name} must be at least 1, not {size}"
            for name, size in zip(Config._fields[:5], self.config, strict=False)
            if size < 1
        ]
        wrong += [f"heads must divide width: {heads} and {width}"] if not wrong and width % heads else []
        wrong += [f"dropout must be in [0, 1), not {dropout}"] if not 0 <= dropout < 1 else []
        if wrong:
            raise ValueError("[GPT] " + "; ".join(wrong))
        with fork_rng():  # the weights are drawn again below
            self.wte = nn.Embedding(vocabulary, width, device=device, dtype=dtype)
            self.wpe = nn.Embedding(context, width, device=device, dtype=dtype)
            self.h = nn.ModuleList(Block(width, heads, device, dtype) for _ in range(layers))
            self.ln_f = nn.LayerNorm(width, device=device, dtype=dtype)
        self.reset_parameters()

    def hidden(self, tokens: Tensor, caches: Sequence[Cache | Sequence[Cache]] | None = None, past: Past = 0) -> Tensor:
        """The residual stream after the last norm : (B, T) -> (B, T, C)"""
        T = self._time(tokens, past)
        if isinstance(past, Spans):
            positions = self.wpe(_core.tensor(past.positions(), device=tokens.device))
        elif isinstance(past, Tensor):
            positions = self.wpe(past)
        else:
            positions = self.wpe.weight.narrow(0, past, T)
        x = self._drop(in_autocast(self.wte(tokens)) + in_autocast(positions))
        for i, block in enumerate(self.h):
            x = x + self._drop(block.attn(block.ln_1(x), caches and caches[i], past))
            x = x + self._drop(block.mlp(block.ln_2(x)))
        return self.ln_f(x)  # type: ignore[no-any-return]

    @property
    def blocks(self) -> Any:
        return self.h

    @property
    def output(self) -> Any:
        return self.wte

    @property
    def head(self) -> Tensor:
        return self.wte.weight

    def cache_shape(self, room: int) -> tuple[int, ...]:
        return (1, self.config.heads, room, self.config.width // self.config.heads)

    @classmethod
    def options(cls, said: Settings) -> dict[str, Any]:
        """Of config.json: GPT-2 with the tanh form of GELU, 4 C hidden units and a tied head."""
        width = said.size("n_embd")
        said.only("activation_function", "gelu_new")
        said.only("layer_norm_epsilon", 1e-5)
        said.only("scale_attn_weights", True)
        said.only("scale_attn_by_inverse_layer_idx", False)
        said.only("add_cross_attention", False)
        said.only("tie_word_embeddings", True)
        if said.entries.get("n_inner") is not None:
            said.only("n_inner", 4 * width)
        return {
            "vocabulary": said.size("vocab_size"),
            "context": said.size("n_positions", said.entries.get("n_ctx")),
            "layers": said.size("n_layer"),
            "heads": said.size("n_head"),
            "width": width,
            "dropout": said.number("resid_pdrop", 0.1, 0.0, 0.999),
        }

    def described(self) -> dict[str, Any]:
        V, context, layers, heads, width, dropout = self.config
        return {
            "model_type": "gpt2",
            "vocab_size": V,
            "n_positions": context,
            "n_ctx": context,
            "n_embd": width,
            "n_layer": layers,
            "n_head": heads,
            "n_inner": None,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5,
            "resid_pdrop": dropout,
            "embd_pdrop": dropout,
            "attn_pdrop": 0.0,
            "tie_word_embeddings": True,
        }

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, generator: Generator | None = None, device: Device | str | None = None
    ) -> GPT:
        """The model in a folder of ``chainrule train`` (its best, if the run keeps it) or
        ``save_checkpoint``, or in a safetensors file of either, with the dtype of its weights.  A
        save meanwhile does no harm: it is the old model or the new one. OSError: there is none.
        ValueError: the file does not describe its model, or holds another.  RuntimeError names all
        weights that do not fit."""
        checkpoints = [os.path.join(path, name) for name in ("checkpoint-best", "checkpoint")]
        file = next((f for f in checkpoints if os.path.exists(_core._training_weights(f))), os.fspath(path))
        said, weights = consistent(lambda: _core._load_safetensors(file, device), file)
        lacking = [name for name in Config._fields if name not in said]
        if lacking:
            raise ValueError(f"[GPT] '{file}' does not describe its model: its metadata lacks {', '.join(lacking)}")
        config = Config._make((float if name == "dropout" else int)(said[name]) for name in Config._fields)
        V, context, layers, _, C, _ = config
        needed, held = (V + context + 2 + layers * (12 * C + 13)) * C, sum(w.numel() for w in weights.values())
        if needed != held:  # a false configuration allocates nothing
            raise ValueError(f"[GPT] '{file}': its configuration needs {needed} elements, it holds {held}")
        with fork_rng():
            model = cls(*config, device=device, dtype=next(iter(weights.values())).dtype)
        model.load_state_dict(weights)
        model.generator = generator
        return model
