"""``Decoder``: what GPT and Llama share. Loss, text by a cache of keys and values, files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..autograd import no_grad
from ..nn import functional as F
from ..nn import init
from . import pretrained
from .pretrained import Settings

__all__ = ["Cache", "Decoder", "consistent"]

Loaded = TypeVar("Loaded")
Cache = tuple[Tensor, ...]  # keys and values of one layer, (1, KV, room, D): the first `past` positions are filled


def consistent(load: Callable[[], Loaded], file: str) -> tuple[dict[str, str], Loaded]:
    """The metadata of a file or a checkpoint, and the data loaded with it; loads again if a save
    changed the metadata meanwhile."""
    before, after = None, _core._load_metadata(file)
    while before != after:
        before, loaded = after, load()
        after = _core._load_metadata(file)
    return json.loads(after), loaded


class Decoder(nn.Module):
    """Predicts each next token: ints (B, T) -> logits (B, T, V)."""

    # Hugging Face's layout of the architecture
    kinds: ClassVar[Mapping[str, str]]  # "model_type" of config.json -> its class in transformers
    prefix: ClassVar[str]  # of every name but the head's
    layer: ClassVar[str]  # what stands before the number of a layer in a name
    masks: ClassVar[str]  # names that are no weights, as an expression
    transposed: ClassVar[tuple[str, ...]] = ()  # matrices that are stored (in, out): ends of their names
    embedding: ClassVar[str]  # the table that a tied head is
    into_residual: ClassVar[tuple[str, ...]]  # matrices into the residual stream: ends of their names

    config: Any
    generator: Generator | None
    pretrained: dict[str, Any]  # config.json of the folder that the model is from

    @classmethod
    def options(cls, said: Settings) -> dict[str, Any]:
        """The arguments of the constructor by config.json.  ValueError: it is damaged, or of another model."""
        raise NotImplementedError

    def described(self) -> dict[str, Any]:
        """The entries of config.json."""
        raise NotImplementedError

    def hidden(self, tokens: Tensor, caches: Sequence[Cache] | None = None, past: int = 0) -> Tensor:
        """The residual stream after the last norm : (B, T) -> (B, T, C)"""
        raise NotImplementedError

    @property
    def blocks(self) -> Any:
        """The layers, in order."""
        raise NotImplementedError

    @property
    def head(self) -> Tensor:
        """The weight of the logits, (V, C)."""
        raise NotImplementedError

    @property
    def output(self) -> Any:
        """The module with that weight: the embedding where the head is tied to it, else a linear layer."""
        raise NotImplementedError

    def logits(self, x: Tensor) -> Tensor:
        """Of the residual stream after the last norm : (..., C) -> (..., V)"""
        if isinstance(self.output, nn.QuantizedEmbedding):
            return self.output.linear(x)
        if isinstance(self.output, nn.QuantizedLinear):
            return self.output(x)  # type: ignore[no-any-return]
        return F.linear(x, self.head)

    def cache_shape(self, room: int) -> tuple[int, ...]:
        """The shape of the keys of a layer, (1, KV, room, D)."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """GPT-2's: norms 1 and 0, biases 0, weights N(0, 0.02), those into the residual stream N(0,
        0.02 / sqrt(2 layers)), since 2 layers add up there."""
        small = 0.02 / math.sqrt(2 * len(self.blocks))
        for name, p in self.named_parameters():
            if p.ndim == 2:
                init.normal_(p, 0.0, small if name.endswith(self.into_residual) else 0.02, self.generator)
            else:
                init.constant_(p, 0.0 if name.endswith("bias") else 1.0)

    def _drop(self, x: Tensor) -> Tensor:
        return (
            _core._dropout(x, self.config.dropout, self.generator) if self.training and self.config.dropout > 0 else x
        )

    def _time(self, tokens: Tensor, past: int) -> int:
        """T.  ValueError: tokens that the model does not take."""
        T = tokens.size(1) if tokens.ndim == 2 else 0
        if not 1 <= T <= self.config.context - past:
            raise ValueError(
                f"[{type(self).__name__}] tokens must be (batch, time), of 1 to {self.config.context} steps of time,"
                f" not {tuple(tokens.shape)}"
            )
        return T

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits(self.hidden(tokens))

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
        p, context = next(self.parameters()), self.config.context
        given = [*(tokens.tolist() if isinstance(tokens, Tensor) else tokens)]
        window, past = given[-context:], 0  # the tokens in view; how many of them the caches hold
        room = min(context, len(given) + n)
        caches = [tuple(p.new_empty(self.cache_shape(room)) for _ in "kv") for _ in self.blocks]
        made: list[int] = []
        training, self.training = self.training, False
        try:
            while len(made) < n:
                x = self.hidden(_core.tensor([window[past:]], device=p.device), caches, past)
                made.append(_core._sample(self.logits(x[:, -1:]), temperature, top_p, top_k, generator))
                past = len(window)
                if past == context:
                    window, past = window[context - context // 2 :], 0
                window.append(made[-1])
        finally:
            self.training = training
        return made

    # ---- quantization ----
    @no_grad
    def quantize(self, bits: int = 8, group: int = 64, calibration: Sequence[int] | Tensor | None = None) -> Self:
        """Every linear layer becomes ``nn.QuantizedLinear`` with weights of 8 or 4 bits; the head, and the embedding
        that it is tied to, have 8.  group: the neighbours of a row that share a scale, 32, 64, 96 or 128.
        calibration: tokens (T) of a text like those that the model will see; they balance the rounding to 4 bits.
        Returns the model, which has changed.  ValueError: bits or a group that do not fit, a model that is quantized.
        IndexError: a token outside of the vocabulary."""
        pretrained.quantize(self, bits, group, calibration)
        return self

    # ---- files ----
    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        dtype: _core.dtype | None = None,
        device: Device | str | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """The model in a folder of Hugging Face's layout: config.json, and the weights in
        model.safetensors, its shards with their index, or pytorch_model.bin; or in a GGUF file,
        whose quantized weights become float32.  Other weights lie over the mapped files: a page is
        read when it is first touched, and training changes no file. dtype: another one than the
        files', which takes memory of its own.  The model does not train; ``train()`` turns its
        dropout on.  OSError: there is no model, or it is damaged.  ValueError: a config.json that
        is damaged, or of a model that this class is not.  RuntimeError: one message for all weights
        that are missing, not wanted or of another shape than config.json says."""
        return pretrained.build(cls, folder, dtype, device, generator)

    def save_pretrained(self, folder: str | os.PathLike[str], max_shard_size: int | str = "5GB") -> None:
        """Writes config.json and the weights, which ``transformers`` loads, into ``folder``; files of at
        most ``max_shard_size``.  After a failure, such as a full disk, the files that were there are
        as before.  Other files in the folder stay.  OSError: it cannot be written."""
        pretrained.save(self, folder, max_shard_size)

    def save_gguf(
        self, path: str | os.PathLike[str], type: str = "f16", metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Writes a GGUF file, which llama.cpp reads.  type: of the matrices, "f32", "f16", "bf16" or "q8_0";
        vectors and GPT-2's positions are f32. metadata: more entries, such as those of its tokenizer.
        OSError: it cannot be written; the file that was there is as before."""
        pretrained.save_gguf(self, path, type, metadata)
