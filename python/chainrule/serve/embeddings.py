"""POST /v1/embeddings: embeddings of texts in OpenAI's form, by any model (``Engined.embed``)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _core
from ..autograd import no_grad
from ..data import Tokenizer
from ..nn.evaluating import evaluating
from .request import Fields, Problem, entries, prompts_of

__all__ = ["Embedder", "Wanted", "wanted"]

TOGETHER = 16  # texts in a forward pass
MOST = 2048  # texts in a request


class Wanted(NamedTuple):
    """What a request asks for: texts as strings or tokens, and the form of the numbers."""

    model: str
    texts: list[str | list[int]]
    base64: bool
    dimensions: int | None


def wanted(body: bytes) -> Wanted:
    """Problem: the body is not understood."""
    f: Fields = entries(body)
    form = f.take("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise f.wrong("encoding_format", '"float" or "base64"', form)
    texts = prompts_of(f, f.take("input"), "input", MOST)
    if not all(texts):
        raise Problem('"input" must not be empty', param="input")
    said = Wanted(f.text("model"), texts, form == "base64", f.whole("dimensions", 1, 2**31))
    f.done()
    return said


class Embedder:
    """Embeddings by a model and its tokenizer.  Longer texts are cut, as by sentence-transformers."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer, self.longest = model, tokenizer, model.longest
        self.pools = "sentence_pooling" in model.pretrained  # of modules.json
        pad = model.pretrained.get("pad_token_id")
        self.pad = pad if type(pad) is int and 0 <= pad < model.config.vocabulary else 0

    def tokens(self, text: str | list[int]) -> list[int]:
        """Problem: tokens that the model does not take."""
        if isinstance(text, str):
            return self.tokenizer.encode(text, allowed_special="all", add_special_tokens=True, max_length=self.longest)
        V = self.model.config.vocabulary
        if len(text) > self.longest:
            message = f"this model's maximum context length is {self.longest} tokens, a text has {len(text)}"
            raise Problem(message, code="context_length_exceeded", param="input")
        if not all(0 <= token < V for token in text):
            raise Problem(f"tokens must be from 0 to {V - 1}", param="input")
        return text

    @no_grad
    def embed(self, rows: Sequence[list[int]]) -> list[_core.Tensor]:
        """Of each text (C), float32 on the host; texts of similar length run together."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found: dict[int, _core.Tensor] = {}
        for at in range(0, len(order), TOGETHER):
            some = order[at : at + TOGETHER]
            most = max(len(rows[i]) for i in some)
            ids = [rows[i] + [self.pad] * (most - len(rows[i])) for i in some]
            mask = [[1] * len(rows[i]) + [0] * (most - len(rows[i])) for i in some]
            device = self.model.like.device
            with evaluating(self.model):
                y = self.model.embed(_core.tensor(ids, device=device), _core.tensor(mask, device=device))
            found.update(zip(some, y.float().cpu(), strict=True))
        return [found[i] for i in range(len(rows))]

    def answer(self, said: Wanted, name: str) -> dict[str, Any]:
        """The body of the answer.  Problem: a text or a size that does not fit."""
        rows = [self.tokens(text) for text in said.texts]
        vectors = self.embed(rows)
        if said.dimensions not in (None, vectors[0].numel()):
            message = f'"dimensions" must be {vectors[0].numel()}, the size of the model, not {said.dimensions}'
            raise Problem(message, param="dimensions")
        shown = [base64.b64encode(v.numpy().tobytes()).decode() if said.base64 else v.tolist() for v in vectors]
        count = sum(map(len, rows))
        return {
            "object": "list",
            "data": [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(shown)],
            "model": name,
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
