"""How good a model is on text, and on questions with choices: what ``chainrule eval`` prints."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .. import _core
from ..autograd import no_grad
from ..data import Tokenizer
from ..data.packing import Sample, open_samples, pack
from ..nn.evaluating import evaluating
from .decoder import Decoder

__all__ = ["evaluate"]

NAMES = "samples tokens bytes loss perplexity bits_per_byte questions accuracy accuracy_by_length".split()


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
    data = open_samples(files, tokenizer, context, eos, truncate, chat_template)
    samples = [Sample(ids, counts) for ids, counts, _ in _core._dataset_samples(data)[0]]
    with evaluating(model):
        score = _core._dataset_score(data, _sums(model, samples, batch_size * context))
    return {name: None if math.isnan(value) else value for name, value in zip(NAMES, score, strict=True)}
