"""GPT-2 (Radford et al. 2019): the model of src/models/gpt.c, with its names, its numbers and its files.

Letters: B batch, T time, C width, V vocabulary, H heads, D = C / H.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..autograd import no_grad
from ..nn import functional as F
from ..nn import init
from ..random import fork_rng

Loaded = TypeVar("Loaded")
Cache = tuple[Tensor, ...]  # keys and values of one layer, (1, H, context, D): the first `past` positions are filled


class Config(NamedTuple):
    """The configuration of the model in a checkpoint."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    dropout: float


def consistent(load: Callable[[], Loaded], file: str) -> tuple[dict[str, str], Loaded]:
    """The metadata of a file or a checkpoint, and the data loaded with it; loads again if a save
    changed the metadata meanwhile."""
    before, after = None, _core._load_metadata(file)
    while before != after:
        before, loaded = after, load()
        after = _core._load_metadata(file)
    return json.loads(after), loaded


class Attention(nn.Module):
    """Each position looks at itself and those before : (B, T, C) -> (B, T, C).  With a cache the T
    positions follow ``past`` earlier ones."""

    def __init__(self, width: int, heads: int, device: Device | str | None, dtype: _core.dtype | None) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, device=device, dtype=dtype)
        self.c_proj = nn.Linear(width, width, device=device, dtype=dtype)

    def forward(self, x: Tensor, cache: Cache | None = None, past: int = 0) -> Tensor:
        B, T, C = x.shape
        qkv = self.c_attn(x).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = (qkv.select(2, i).transpose(1, 2) for i in range(3))  # (B, H, T, D)
        if cache is not None:
            for store, new in zip(cache, (k, v), strict=True):
                store.narrow(2, past, T).copy_(new)
            k, v = (store.narrow(2, 0, past + T) for store in cache)
        y = _core._attention(
            q, k, v, True, 0
        )  # scaled by 1 / sqrt(D); counts from the last key, as a query behind a cache needs it
        y = self.c_proj(y.transpose(1, 2).reshape(B, T, C))  # the heads side by side again
        return y  # type: ignore[no-any-return]


class MLP(nn.Module):
    """(B, T, C) -> (B, T, C), through 4 C"""

    def __init__(self, width: int, device: Device | str | None, dtype: _core.dtype | None) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, device=device, dtype=dtype)
        self.c_proj = nn.Linear(4 * width, width, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        if any(
            type(part) is not nn.Linear or part._has_hooks for part in (self.c_fc, self.c_proj)
        ):  # somebody watches or replaced a part
            return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # type: ignore[no-any-return]
        return _core._mlp(x, self.c_fc.weight, self.c_proj.weight, self.c_fc.bias, self.c_proj.bias)


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, width: int, heads: int, device: Device | str | None, dtype: _core.dtype | None) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width, device=device, dtype=dtype), Attention(width, heads, device, dtype)
        self.ln_2, self.mlp = nn.LayerNorm(width, device=device, dtype=dtype), MLP(width, device, dtype)


class GPT(nn.Module):
    """Predicts each next token: ``GPT(vocabulary, context, layers, heads, width)(tokens)``, ints
    (B, T) -> logits (B, T, V); the head is the token embedding.

    context: the most tokens that it sees.  dropout: of the branches that are added to the residual stream, in training.
    generator: draws the weights and then the dropout; the default one when absent.
    ValueError: a size below 1, a width that heads do not divide, a dropout outside of [0, 1).
    """

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

    def reset_parameters(self) -> None:
        """GPT-2's: norms 1 and 0, biases 0, weights N(0, 0.02), those into the residual stream N(0,
        0.02 / sqrt(2 layers)), since 2 layers add up there."""
        for name, p in self.named_parameters():
            if p.ndim == 2:
                init.normal_(p, 0.0, 0.02 / math.sqrt(2 * len(self.h)) if "c_proj" in name else 0.02, self.generator)
            else:
                init.constant_(p, 0.0 if name.endswith("bias") else 1.0)

    def _drop(self, x: Tensor) -> Tensor:
        return (
            _core._dropout(x, self.config.dropout, self.generator) if self.training and self.config.dropout > 0 else x
        )

    def hidden(self, tokens: Tensor, caches: Sequence[Cache] | None = None, past: int = 0) -> Tensor:
        """The residual stream after the last norm : (B, T) -> (B, T, C)"""
        T = tokens.size(1) if tokens.ndim == 2 else 0
        if not 1 <= T <= self.config.context - past:
            raise ValueError(
                f"[GPT] tokens must be (batch, time), of 1 to {self.config.context} steps of time, not"
                f" {tuple(tokens.shape)}"
            )
        x = self._drop(self.wte(tokens) + self.wpe.weight.narrow(0, past, T))
        for i, block in enumerate(self.h):
            x = x + self._drop(block.attn(block.ln_1(x), caches and caches[i], past))
            x = x + self._drop(block.mlp(block.ln_2(x)))
        return self.ln_f(x)  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.hidden(tokens), self.wte.weight)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy, in nats a token, of predicting targets (B, T) from tokens (B, T)."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    @no_grad
    def generate(
        self,
        tokens: Sequence[int] | Tensor,
        n: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        generator: Generator | None = None,
    ) -> list[int]:
        """``n`` tokens that follow the given ones, (T) of any length, each drawn from
        softmax(logits / temperature); temperature 0: always the likeliest. top_k: of the k
        likeliest only, 0 for all.  top_p: of the fewest that hold this part of the probability.
        The same seed gives the tokens of ``chainrule generate``.  Keys and values are kept; a full
        context goes on from its last half, computed again at its new positions. IndexError: a token
        outside of the vocabulary.  ValueError: no token to go on from, a number out of range,
        logits that are not finite."""
        if n < 0:
            raise ValueError(f"[generate] cannot make {n} tokens")
        p, context, heads = self.wte.weight, self.config.context, self.config.heads
        window, past = (
            [*(tokens.tolist() if isinstance(tokens, Tensor) else tokens)][-context:],
            0,
        )  # the tokens in view; how many of them the caches hold
        caches = [tuple(p.new_empty((1, heads, context, p.size(1) // heads)) for _ in "kv") for _ in self.h]
        made: list[int] = []
        training, self.training = self.training, False
        try:
            while len(made) < n:
                x = self.hidden(_core.tensor([window[past:]], device=p.device), caches, past)
                made.append(_core._sample(F.linear(x[:, -1:], p), temperature, top_p, top_k, generator))
                past = len(window)
                if past == context:
                    window, past = window[context - context // 2 :], 0
                window.append(made[-1])
        finally:
            self.training = training
        return made

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
        said, weights = consistent(lambda: _core.load(file, device), file)
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
