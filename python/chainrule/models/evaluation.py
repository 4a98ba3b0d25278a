"""How good a model is on text, and on questions with choices: what ``chainrule eval`` prints."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .. import _core
from ..autograd import no_grad
from ..data import Tokenizer
from ..data.packing import Question, Sample, pack, read_samples
from ..nn.evaluating import evaluating
from .decoder import Decoder

__all__ = ["evaluate"]


def _sums(model: Decoder, samples: Sequence[Sample], most: int) -> list[float]:
    """The sum of the losses of each sample; so many tokens at once."""
    sums: list[float] = []
    for first, last in _batches(samples, most):
        part = samples[first:last]
        losses, at = model.losses(*pack(part)).double().tolist(), 0
        for sample in part:
            n = sum(sample.counts[1:])
            sums.append(math.fsum(losses[at : at + n]))
            at += n
    return sums


def _batches(samples: Sequence[Sample], most: int) -> Iterable[tuple[int, int]]:
    first, used = 0, 0
    for i, sample in enumerate(samples):
        used += len(sample.tokens) - 1
        if used >= most or i + 1 == len(samples):
            yield first, i + 1
            first, used = i + 1, 0


def _bytes(tokenizer: Tokenizer, samples: Sequence[Sample]) -> int:
    """The bytes of the text that counts; special tokens have none."""
    special, total = set(tokenizer.special_tokens.values()), 0
    for sample in samples:
        decoder = _core._decoder_new(tokenizer._source)
        for i, (token, count) in enumerate(zip(sample.tokens, sample.counts, strict=True)):
            part = _core._decoder_next(decoder, token)
            total += len(part or b"") * (count and i > 0 and token not in special)
    return total


@no_grad
def evaluate(
    model: Decoder,
    tokenizer: Tokenizer,
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    context: int | None = None,
    batch_size: int = 4,
    *,
    truncate: bool = False,
    chat_template: str | None = None,
) -> dict[str, Any]:
    """Loss in nats a token, perplexity, and bits a byte on the samples of files; the part of questions whose
    likeliest choice is right, by the sum of its tokens and by the mean of its bytes. Files and chat_template:
    ``data.read_samples``. context: of a window; None: the model's, at most 1024. A number without data is None."""
    context = min(model.config.context, 1024) if context is None else context
    ends = [*tokenizer._chat(chat_template).said.ends, *model.ends]
    eos = ends[0] if ends else None
    found = read_samples(files, tokenizer, context, eos=eos, truncate=truncate, chat_template=chat_template)
    samples = [s for s in found if isinstance(s, Sample)]
    questions = [q for q in found if isinstance(q, Question)]
    with evaluating(model):
        most = batch_size * context
        loss, choices = (
            math.fsum(_sums(model, samples, most)),
            iter(_sums(model, [c for q in questions for c in q.choices], most)),
        )
    right = by_length = 0
    for q in questions:
        sums = [next(choices) for _ in q.choices]
        each = [s / n for s, n in zip(sums, q.bytes, strict=True)]
        right += sums.index(min(sums)) == q.answer
        by_length += each.index(min(each)) == q.answer
    tokens, n_bytes = sum(sum(s.counts[1:]) for s in samples), _bytes(tokenizer, samples)
    mean = loss / tokens if tokens else None
    return {
        "samples": len(samples),
        "tokens": tokens,
        "bytes": n_bytes,
        "loss": mean,
        "perplexity": None if mean is None else math.exp(min(mean, 700.0)),
        "bits_per_byte": loss / math.log(2) / n_bytes if n_bytes else None,
        "questions": len(questions),
        "accuracy": right / len(questions) if questions else None,
        "accuracy_by_length": by_length / len(questions) if questions else None,
    }
