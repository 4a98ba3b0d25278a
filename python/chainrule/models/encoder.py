"""``Encoder``: BERT and its relatives, whose tokens see all others; sentence models, classifiers."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _core
from .._core import Tensor
from .engine import LOGITS, POOLED, Engined, Noted

__all__ = ["Encoder", "Encoding"]


class Encoding(NamedTuple):
    """What an ``Encoder`` gives.  pooler_output (B, C) and logits are None where the weights have no such layers;
    hidden_states: the residual stream before each layer and at the end, or None."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None
    logits: Tensor | None
    hidden_states: tuple[Tensor, ...] | None


class Encoder(Engined):
    """An encoder of a family of Hugging Face's, ints (B, T) -> ``Encoding``: ``models.from_pretrained``.

    ``state_dict`` has Hugging Face's names without the prefix of the body.  logits are those of the head that the
    weights have: of masked tokens (B, T, V), of the classes of a text (B, labels), or of each token.  Layers may have
    hooks or be replaced, as those of ``CausalLM``."""

    encodes = True

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
    ) -> Encoding:
        """attention_mask (B, T): 0 for padding, which no token sees.  token_type_ids (B, T): zeros when absent.
        ValueError: tokens that are not (B, T), or more than the context."""
        states: list[Tensor] = []
        x = self._stream(input_ids, attention_mask, token_type_ids, states if output_hidden_states else None)
        lm, own = self._ready()
        called = self._calls(own)
        pooled, logits = (_core._lm_output(lm, what, x, attention_mask, *called) for what in (POOLED, LOGITS))
        return Encoding(x, pooled, logits, (*states, x) if output_hidden_states else None)

    def _hidden_of(self, tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
        return self._stream(tokens, attention_mask, None, None)

    def _stream(self, tokens: Tensor, mask: Tensor | None, kinds: Tensor | None, states: list[Tensor] | None) -> Tensor:
        for name, given in ("attention_mask", mask), ("token_type_ids", kinds):
            if given is not None and given.shape != tokens.shape:
                wanted, got = tuple(tokens.shape), tuple(given.shape)
                raise ValueError(f"[Encoder] {name} must have the shape of input_ids, {wanted}, not {got}")
        lm, own = self._ready()
        if states is not None:
            own |= {b.number: Noted(states, own.get(b.number, b.made)) for b in self._blocks}
        dropout: Any = self.config.dropout if self.training else 0.0
        return _core._lm_encode(lm, tokens, mask, kinds, dropout, self.generator, *self._calls(own))
