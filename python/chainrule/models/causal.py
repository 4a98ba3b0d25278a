"""``CausalLM``: a language model of any family that the C engine knows (src/models/family.c), as a module whose
parameters are the engine's weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core
from .._core import Tensor
from .cache import Int8, Spans, Store
from .decoder import Cache, Decoder, Past
from .engine import Engined, Noted

if TYPE_CHECKING:
    from ..data import Tokenizer

__all__ = ["CausalLM", "Output"]


class Output(NamedTuple):
    """``model(tokens, output_hidden_states=True)``: the logits, and the residual stream before each layer and, behind
    the last norm, at the end."""

    logits: Tensor
    hidden_states: tuple[Tensor, ...]


class CausalLM(Engined, Decoder):
    """A language model of a family of Hugging Face's, ints (B, T) -> logits (B, T, V): ``models.from_pretrained``.

    ``state_dict`` has Hugging Face's names without the prefix of the body, which is the model itself:
    ``model.model.layers`` is ``model.layers``.  The C engine computes the model from these parameters: they train,
    move and load as those of any module.  Layers, their attention and MLP, linear layers, norms and embeddings may
    have hooks, be replaced or parametrized: those are called in place of the engine's rule, and so take effect.  Where
    that cannot be, a call of the model is an error."""

    def forward(self, tokens: Tensor, *, output_hidden_states: bool = False, output_attentions: bool = False) -> Any:
        """The logits, or ``Output``.  NotImplementedError: output_attentions."""
        if output_attentions:
            raise NotImplementedError(
                f"[{type(self).__name__}] output_attentions: attention is computed without a tensor of its weights"
            )
        if not output_hidden_states:
            return self.logits(self.hidden(tokens))
        states: list[Tensor] = []
        x = self._stream(tokens, None, 0, states)
        return Output(self.logits(x), (*states, x))

    def hidden(self, tokens: Tensor, caches: Sequence[Cache | Sequence[Cache]] | None = None, past: Past = 0) -> Tensor:
        return self._stream(tokens, caches, past, None)

    def _stream(self, tokens: Tensor, caches: Any, past: Past, states: list[Tensor] | None) -> Tensor:
        self._time(tokens, past)
        lm, own = self._ready()
        if states is not None:
            own |= {b.number: Noted(states, own.get(b.number, b.made)) for b in self._blocks}
        spans = _core.tensor([[*past.lengths], [*past.pasts]]) if isinstance(past, Spans) else None
        dropout = self.config.dropout if self.training else 0.0
        return _core._lm_hidden(
            lm,
            tokens,
            [tensor for layer in caches or () for tensor in _flat(layer)],
            past if isinstance(past, int) else 0,
            past if isinstance(past, Tensor) else None,
            spans,
            dropout,
            self.generator,
            *self._calls(own),
        )

    def _hidden_of(self, tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
        return self.hidden(tokens)

    def logits(self, x: Tensor) -> Tensor:
        lm, own = self._ready()
        head = None if self._output.tied else own.get(self._output.number)
        return _core._lm_head(lm, x) if head is None else _core._lm_capped(lm, head(x))

    def _loss(self, x: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
        lm, own = self._ready()
        plain = getattr(self.logits, "__func__", None) is CausalLM.logits
        if plain and (self._output.tied or self._output.number not in own):
            return _core._lm_loss(lm, x, targets, reduction == "none")
        return super()._loss(x, targets, reduction)

    # ---- what others ask ----
    @property
    def output(self) -> Any:
        """The module whose weight the logits have: the embedding where the head is tied to it."""
        return self._output.holder.__dict__[self._output.attribute]

    @property
    def head(self) -> Tensor:
        """The weight of the logits, (V, C)."""
        return self.output.weight  # type: ignore[no-any-return]

    @property
    def steady(self) -> bool:
        return self._steady

    def cache_shape(self, room: int) -> tuple[int, ...]:
        return (1, self._cache_shape[0], room, self._cache_shape[1])

    def save_gguf(
        self,
        path: str | os.PathLike[str],
        type: str = "f16",
        metadata: Mapping[str, Any] | None = None,
        tokenizer: Tokenizer | None = None,
        calibration: Sequence[int] | Tensor | None = None,
    ) -> None:
        """Writes a GGUF file, which llama.cpp reads.  type: of the matrices, "f32", "f16", "bf16", "q8_0",
        "q4_0" (the token table and the head: q8_0), "q4_k_m", "q5_k_m" or "q6_k"; vectors and GPT-2's positions are
        f32.
        calibration: tokens (T) of a text like those that the model will see; their inputs of each matrix weigh the
        errors of packed types.
        tokenizer: its entries, which llama.cpp needs to read text.
        metadata: more entries, in place of equal ones of the tokenizer.
        ValueError: a family that has no GGUF file here, or llama.cpp would read text as other tokens than this
        tokenizer.  OSError: the file cannot be written; the one that was there is as before."""
        entries: dict[str, Any] = {}
        if tokenizer is not None:
            entries = json.loads(
                _core._tokenizer_gguf(tokenizer._source, tokenizer._folder or "", self.config.vocabulary)
            )
        lm = _core._lm_of(*self._plain("save_gguf"), self.like.device)
        tokens = self._calibration("save_gguf", calibration)
        _core._lm_save_gguf(lm, os.fspath(path), type, json.dumps({**entries, **(metadata or {})}), tokens)


def _flat(layer: Any) -> list[Tensor]:
    """The stores of a layer, as the engine takes them: keys, values, and scales of both, text by text."""
    texts: list[tuple[Store, Store]] = [layer] if isinstance(layer[0], Tensor | Int8) else layer
    flat: list[Tensor] = []
    for k, v in texts:
        flat += [k.codes, v.codes, k.scale, v.scale] if isinstance(k, Int8) and isinstance(v, Int8) else [k, v]  # type: ignore[list-item]
    return flat
