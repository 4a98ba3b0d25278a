"""``Decoder``: what GPT and Llama share. Loss, text by a cache of keys and values, files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..nn import functional as F
from ..nn import init
from . import generation, pretrained
from .cache import Store
from .pretrained import Settings

__all__ = ["Cache", "Decoder", "consistent"]

Loaded = TypeVar("Loaded")
Cache = tuple[Store, ...]  # keys and values of one layer, (1, KV, room, D): the first `past` positions are filled


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
        return F.linear(self.hidden(tokens), self.head)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy, in nats a token, of predicting targets (B, T) from tokens (B, T)."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def stream(
        self,
        tokens: Sequence[int] | Tensor,
        n: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        generator: Generator | None = None,
        *,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        mask: generation.Mask | None = None,
        stop: Collection[int] = (),
        draft: Decoder | None = None,
        draft_tokens: int = 4,
        cache_dtype: _core.dtype | None = None,
    ) -> Iterator[int]:
        """``generate`` as an iterator: each token as soon as it is there."""
        sampling = generation.Sampling(temperature, top_k, top_p, min_p, repetition_penalty, mask, generator)
        given = self._check_text(tokens, n, stop, draft, draft_tokens)
        small = generation.Draft(draft, draft_tokens) if draft is not None else None
        return generation.stream(self, given, n, sampling, frozenset(stop), small, cache_dtype)

    def generate(
        self,
        tokens: Sequence[int] | Tensor,
        n: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        generator: Generator | None = None,
        *,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        mask: generation.Mask | None = None,
        stop: Collection[int] = (),
        num_beams: int = 1,
        length_penalty: float = 1.0,
        early_stopping: bool = False,
        draft: Decoder | None = None,
        draft_tokens: int = 4,
        cache_dtype: _core.dtype | None = None,
    ) -> list[int]:
        """``n`` tokens that follow the given ones, (T) of any length, each drawn from
        softmax(logits / temperature); temperature 0: always the likeliest. top_k: of the k
        likeliest only, 0 for all.  top_p: of the fewest that hold this part of the probability.
        min_p: of those that have this share of the likeliest's probability.
        repetition_penalty: divides positive logits of tokens that occurred, multiplies negative ones.
        mask(tokens, logits): the logits (V) after these tokens as they should be, or a bool for each
        token that is allowed.  stop: the text ends with one of these tokens.

        num_beams: more than 1: the text with the best sum of log-probabilities / length^length_penalty
        that a beam search finds; nothing is drawn, mask and repetition_penalty apply to log-probabilities.
        early_stopping: as soon as so many texts are complete.
        draft: a smaller model of the same vocabulary, which proposes draft_tokens at a time; the
        distribution does not change.  cache_dtype: of keys and values: a float type, or int8 with a scale
        for each head and position; the weights' when absent.

        The same seed gives the tokens of ``chainrule generate``.  Keys and values are kept; a full
        context goes on from its last half, computed again at its new positions. IndexError: a token
        outside of the vocabulary.  ValueError: no token to go on from, a number out of range, a draft of
        another vocabulary, logits that are not finite."""
        if num_beams < 1:
            raise ValueError(f"[generate] num_beams must be at least 1, not {num_beams}")
        if not math.isfinite(length_penalty):
            raise ValueError(f"[generate] length_penalty must be finite, not {length_penalty}")
        if num_beams == 1:
            sampled = self.stream(
                tokens,
                n,
                temperature,
                top_k,
                top_p,
                generator,
                min_p=min_p,
                repetition_penalty=repetition_penalty,
                mask=mask,
                stop=stop,
                draft=draft,
                draft_tokens=draft_tokens,
                cache_dtype=cache_dtype,
            )
            return [*sampled]
        if draft is not None:
            raise ValueError("[generate] beam search takes no draft model")
        if not 0 < repetition_penalty < math.inf:
            raise ValueError(f"[generate] repetition_penalty must be more than 0, not {repetition_penalty}")
        given = self._check_text(tokens, n, stop, None, draft_tokens)
        sampling = generation.Sampling(repetition_penalty=repetition_penalty, mask=mask)
        stops = frozenset(stop)
        if not n:
            return []
        return generation.beam_search(
            self, given, n, num_beams, sampling, stops, length_penalty, early_stopping, cache_dtype
        )

    def _check_text(
        self, tokens: Sequence[int] | Tensor, n: int, stop: Collection[int], draft: Decoder | None, draft_tokens: int
    ) -> list[int]:
        V = self.config.vocabulary
        if n < 0:
            raise ValueError(f"[generate] cannot make {n} tokens")
        wrong = [token for token in stop if not 0 <= token < V]
        if wrong:
            raise IndexError(f"[generate] stop token {wrong[0]} is not in the vocabulary of {V}")
        if draft is not None and draft.config.vocabulary != V:
            raise ValueError(
                f"[generate] the draft model has a vocabulary of {draft.config.vocabulary}, the model of {V}"
            )
        if draft_tokens < 1:
            raise ValueError(f"[generate] draft_tokens must be at least 1, not {draft_tokens}")
        return [*(tokens.tolist() if isinstance(tokens, Tensor) else tokens)]

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
