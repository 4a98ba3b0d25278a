"""Samples for fine-tuning: from text and chats to tokens of which some count, and rows of whole samples.

A packed row has no padding: its samples stand one after the other, and ``lengths`` says where each ends.
``models.Decoder.loss(tokens, targets, lengths)`` lets each see only itself, from position 0."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import _core
from .._core import Tensor
from .text import Tokenizer

__all__ = ["Packed", "Packing", "Question", "Sample", "pack", "read_samples"]

IGNORED = -100  # a target that does not count, as in cross_entropy


class Sample(NamedTuple):
    """Tokens, and which of them count in the loss, as targets."""

    tokens: list[int]
    counts: list[bool]


class Question(NamedTuple):
    """A question with choices: a sample for each, the number of the right one, and the bytes of each choice."""

    choices: list[Sample]
    answer: int
    bytes: list[int]


class Packed(NamedTuple):
    """Whole samples in one row: tokens and targets, int64 (1, N), -100 where nothing counts; the tokens of each."""

    tokens: Tensor
    targets: Tensor
    lengths: list[int]


def pack(samples: Iterable[Sample]) -> Packed:
    """Samples one after the other; each predicts its next tokens, not those of the next sample.
    ValueError: a sample of fewer than two tokens, or none at all."""
    tokens: list[int] = []
    targets: list[int] = []
    lengths: list[int] = []
    for i, (ids, counts) in enumerate(samples):
        if len(ids) < 2 or len(ids) != len(counts):
            raise ValueError(f"[pack] sample {i} has {len(ids)} tokens and {len(counts)} flags: it needs two or more")
        tokens += ids[:-1]
        targets += [id if count else IGNORED for id, count in zip(ids[1:], counts[1:], strict=True)]
        lengths.append(len(ids) - 1)
    if not lengths:
        raise ValueError("[pack] there are no samples")
    return Packed(_core.tensor([tokens]), _core.tensor([targets]), lengths)


class Packing:
    """Batches of whole samples: ``for tokens, targets, lengths in Packing(samples, 512, 4): ...``.

    A batch is ``batch_size`` rows of at most ``context`` tokens. Each epoch has another order, which depends
    on seed and epoch only. ValueError: a sample longer than the context."""

    def __init__(self, samples: Sequence[Sample], context: int, batch_size: int = 1, *, seed: int = 0) -> None:
        for i, sample in enumerate(samples):
            if len(sample.tokens) - 1 > context:
                raise ValueError(
                    f"[Packing] sample {i} has {len(sample.tokens)} tokens, more than the context of {context}"
                    " and one to predict"
                )
        if not samples or batch_size < 1:
            raise ValueError(f"[Packing] {len(samples)} samples in batches of {batch_size}: both must be at least 1")
        self.samples, self.context, self.batch_size, self.seed = samples, context, batch_size, seed
        self.epoch = self.place = 0  # place: batches given in this epoch

    def _rows(self) -> Iterator[list[Sample]]:
        order = _core.randperm(len(self.samples), generator=_core.Generator().manual_seed(self.seed + self.epoch))
        row: list[Sample] = []
        used = 0
        for i in order.tolist():
            length = len(self.samples[i].tokens) - 1
            if row and used + length > self.context:
                yield row
                row, used = [], 0
            row.append(self.samples[i])
            used += length
        yield row

    def __iter__(self) -> Iterator[Packed]:
        rows = [*self._rows()]
        batches = [rows[i : i + self.batch_size] for i in range(0, len(rows), self.batch_size)]
        for batch in batches[self.place :]:
            self.place += 1
            yield pack(sample for row in batch for sample in row)
        self.epoch, self.place = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """The position: seed, epoch, and the number of batches that were given in it."""
        return {"seed": self.seed, "epoch": self.epoch, "place": self.place}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Goes on where ``state_dict`` was taken."""
        self.seed, self.epoch, self.place = state_dict["seed"], state_dict["epoch"], state_dict["place"]


# ---- files ----
def open_samples(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    tokenizer: Tokenizer,
    context: int,
    eos: int | None,
    truncate: bool,
    chat_template: str | None,
) -> Any:
    """The samples of files in C."""
    paths = [files] if isinstance(files, str | os.PathLike) else files
    encoded, chat = tuple(os.fsencode(path) for path in paths), tokenizer._chat(chat_template)
    return _core._dataset_read(tokenizer._source, chat._chat, encoded, context, -1 if eos is None else eos, truncate)


def read_samples(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    tokenizer: Tokenizer,
    context: int,
    *,
    eos: int | None = None,
    truncate: bool = False,
    chat_template: str | None = None,
) -> list[Sample | Question]:
    """The samples of files: of ``*.jsonl`` a line each, of other files windows of the context.

    A line is {"messages": [{"role", "content"}]}, of which the assistant's messages count; {"prompt",
    "completion"}, of which the completion counts; {"text"}, all of which counts; or a question, {"question",
    "choices", "answer"}. eos: the token that ends a completion or a text. truncate: cut longer samples.
    chat_template: in place of the tokenizer's, as of ``Tokenizer.apply_chat_template``; it gets what else the line has,
    such as tools. Special tokens by name in texts are special tokens.
    ValueError: a line that is not such a sample, or one longer than the context; it names file and line."""
    read, questions = _core._dataset_samples(open_samples(files, tokenizer, context, eos, truncate, chat_template))
    found: list[Sample | Question] = [Sample(ids, counts) for ids, counts, _ in read]
    for first, n, answer in reversed(questions):
        choices = [Sample(ids, counts) for ids, counts, _ in read[first : first + n]]
        found[first : first + n] = [Question(choices, answer, [size for *_, size in read[first : first + n]])]
    return found
