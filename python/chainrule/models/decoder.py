"""``Decoder``: what predicts the next token. Loss, and text by a cache of keys and values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from .. import _core, nn
from .._core import Generator, Tensor
from ..amp import autocast
from ..nn import functional as F
from ..nn.evaluating import evaluating
from . import generation
from .cache import Spans, Store

__all__ = ["Cache", "Decoder", "Past", "Spans", "consistent", "float32_loss"]

Loaded = TypeVar("Loaded")
Cache = tuple[Store, ...]  # keys and values of one layer, (1, KV, room, D): the first `past` positions are filled


def float32_loss(x: Tensor) -> AbstractContextManager[object]:
    """A region in which the loss of logits in half precision is float32, as under autocast."""
    half = x.dtype in (_core.float16, _core.bfloat16)
    return autocast(x.device.type, x.dtype) if half else nullcontext()


# How many positions come before: the same for all rows; for each sequence; or, (1) int64 on the device, before the one
# position that is computed.  Then a store is used whole, what lies behind the position unseen, so that shapes do not
# depend on it and a plan serves all positions.
Past = int | Spans | Tensor


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

    config: Any
    generator: Generator | None
    pretrained: dict[str, Any]  # config.json of the folder that the model is from

    length_dependent = False  # do the angles of a position depend on how many follow?
    _ends: tuple[int, ...] | None = None

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text, by config.json and generation_config.json, or the GGUF file."""
        if self._ends is None:
            said = self.pretrained.get("eos_token_id")
            said = said if isinstance(said, list) else [said]
        else:
            said = [*self._ends]
        return tuple(id for id in said if type(id) is int and 0 <= id < self.config.vocabulary)

    def hidden(self, tokens: Tensor, caches: Sequence[Cache | Sequence[Cache]] | None = None, past: Past = 0) -> Tensor:
        """The residual stream after the last norm : (B, T) -> (B, T, C).  caches: one for each layer, which
        hold ``past`` earlier positions; or, where past is ``Spans``, one for each sequence of each layer."""
        raise NotImplementedError

    @property
    def blocks(self) -> Any:
        """The layers, in order."""
        raise NotImplementedError

    def logits(self, x: Tensor) -> Tensor:
        """Of the residual stream after the last norm : (..., C) -> (..., V)"""
        raise NotImplementedError

    @property
    def like(self) -> Tensor:
        """A weight of the dtype and on the device of the residual stream."""
        return next(self.parameters())

    @property
    def steady(self) -> bool:
        """Does a position get the same embedding whatever follows it?"""
        return True

    def cache_shape(self, room: int) -> tuple[int, ...]:
        """The shape of the keys of a layer, (1, KV, room, D)."""
        raise NotImplementedError

    def _time(self, tokens: Tensor, past: Past) -> int:
        """T.  ValueError: tokens that the model does not take."""
        T, context = tokens.size(1) if tokens.ndim == 2 else 0, self.config.context
        if isinstance(past, Spans):
            most = max(map(sum, zip(*past, strict=True)), default=0)
            if tuple(tokens.shape) != (1, sum(past.lengths)) or min(past.lengths, default=0) < 1 or most > context:
                raise ValueError(
                    f"[{type(self).__name__}] packed tokens must be (1, sum of lengths), of samples of 1 to {context}"
                    f" tokens, not {tuple(tokens.shape)} with the longest of {most}"
                )
        elif not (T == 1 if isinstance(past, Tensor) else 1 <= T <= context - past):
            raise ValueError(
                f"[{type(self).__name__}] tokens must be (batch, time), of 1 to {self.config.context} steps of time,"
                f" not {tuple(tokens.shape)}"
            )
        return T

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits(self.hidden(tokens))

    def loss(self, tokens: Tensor, targets: Tensor, lengths: Sequence[int] | None = None) -> Tensor:
        """The mean cross-entropy, in nats a token, of predicting targets (B, T) from tokens (B, T); a target of
        -100 does not count. lengths: of the samples in one row, each of which sees only itself (``data.pack``).
        A model in half precision gives a float32 loss."""
        if lengths is not None:
            return self.losses(tokens, targets, lengths).mean()
        if self._has_hooks:
            logits = self(tokens).flatten(0, 1)
            with float32_loss(logits):
                return F.cross_entropy(logits, targets.flatten())
        return self._loss(self.hidden(tokens).flatten(0, 1), targets.flatten())

    def _loss(self, x: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
        """The cross-entropy of the logits of x : (N, C), (N) -> () or (N)"""
        with float32_loss(x):
            return F.cross_entropy(self.logits(x), targets, reduction=reduction)

    def losses(self, tokens: Tensor, targets: Tensor, lengths: Sequence[int]) -> Tensor:
        """The cross-entropy of each target that counts, in order : (1, N), (1, N) -> (K).  ValueError: none does."""
        targets = targets.flatten()
        at = (targets >= 0).nonzero().flatten()
        if not at.numel():
            raise ValueError(f"[{type(self).__name__}] none of the {targets.numel()} targets counts")
        x = self.hidden(tokens, past=Spans.whole(lengths)).flatten(0, 1)
        if at.numel() < targets.numel():
            x, targets = x.index_select(0, at), targets.index_select(0, at)
        return self._loss(x, targets, "none")

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
        stop: Collection[int] | None = None,
        draft: Decoder | None = None,
        draft_tokens: int = 4,
        cache_dtype: _core.dtype | None = None,
    ) -> Iterator[int]:
        """``generate`` as an iterator: each token as soon as it is there."""
        drawn = (n, temperature, top_p, top_k, min_p, repetition_penalty, 1, 1.0, False, draft_tokens)
        return self._write(tokens, drawn, generator, mask, stop, draft, cache_dtype)

    def _write(
        self,
        tokens: Sequence[int] | Tensor,
        options: tuple[Any, ...],
        generator: Generator | None,
        mask: generation.Mask | None,
        stop: Collection[int] | None,
        draft: Decoder | None,
        cache: _core.dtype | None,
    ) -> Iterator[int]:
        """The tokens of a text; options: those of ``_core._text_new``."""
        if options[-1] < 1:
            raise ValueError(f"[generate] draft_tokens must be at least 1, not {options[-1]}")
        if cache is not None and (not isinstance(cache, _core.dtype) or cache is _core.bool):
            raise TypeError(f"[generate] a cache is of a float type or int8, not {cache!r}")
        beams = options[6] > 1
        text = _core._text_new(
            generation.called(self, cache),
            None if draft is None else generation.called(draft, cache),
            _core.tensor([*(tokens.tolist() if isinstance(tokens, Tensor) else tokens)], dtype=_core.int64),
            _core.tensor([*(self.ends if stop is None else stop)], dtype=_core.int64),
            cache or _core.bool,
            options,
            mask and generation.masked(mask, None if beams else self.like),
            generator,
            generator,
        )
        return iter(lambda: _core._text_next(text), None)

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
        stop: Collection[int] | None = None,
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
        token that is allowed.  stop: the text ends with one of these tokens; None: ``ends``; (): with none.

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
        if not isinstance(early_stopping, bool):  # transformers also has "never", which is true
            raise TypeError(f"[generate] early_stopping must be a bool, not {early_stopping!r}")
        if num_beams > 1:
            if not 0 < repetition_penalty < math.inf:
                raise ValueError(f"[generate] repetition_penalty must be more than 0, not {repetition_penalty}")
            temperature, top_k, top_p, min_p = 1.0, 0, 1.0, 0.0  # nothing is drawn
        drawn = (n, temperature, top_p, top_k, min_p, repetition_penalty)
        options = (*drawn, num_beams, length_penalty, early_stopping, draft_tokens)
        with evaluating(self):  # once for all steps
            return [*self._write(tokens, options, generator, mask, stop, draft, cache_dtype)]
