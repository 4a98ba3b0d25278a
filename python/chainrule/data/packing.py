"""Samples for fine-tuning: from text and chats to tokens of which some count, and rows of whole samples.

A packed row has no padding: its samples stand one after the other, and ``lengths`` says where each ends.
``models.Decoder.loss(tokens, targets, lengths)`` lets each see only itself, from position 0."""

from __future__ import annotations

import json
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
class _Reader:
    """Turns texts into samples; a message names the file and the line."""

    def __init__(self, tokenizer: Tokenizer, context: int, eos: int | None, truncate: bool, template: str | None):
        self.tokenizer, self.context, self.eos, self.truncate = tokenizer, context, eos, truncate
        self.template = template

    def sample(self, where: str, text: bytes, counts: tuple[int, ...], *, chat: bool, end: bool) -> Sample:
        """The text becomes tokens as a whole; of an answer are those behind the tokens that the text up to it has too.
        counts: bytes, from where to where tokens count."""
        tokens, at = _core._tokenizer_encode_parts(self.tokenizer._source, text, True, not chat, counts)
        flags = [False] * len(tokens)
        for first, last in zip(at[::2], at[1::2], strict=True):
            flags[first:last] = [True] * (last - first)
        if end and self.eos is not None and tokens[-1:] != [self.eos]:
            tokens.append(self.eos)
            flags.append(True)
        if len(tokens) > self.context + 1 and not self.truncate:
            raise ValueError(
                f"{where}: the sample has {len(tokens)} tokens, more than the context of {self.context}"
                " and one to predict"
            )
        tokens, flags = tokens[: self.context + 1], flags[: self.context + 1]
        if not any(flags[1:]):
            raise ValueError(f"{where}: no token of the answer is within the context of {self.context}")
        return Sample(tokens, flags)

    def answer(self, where: str, asked: str, answer: str, end: bool) -> Sample:
        text = (asked + answer).encode()
        return self.sample(where, text, (len(asked.encode()), len(text)), chat=False, end=end)

    def messages(self, where: str, line: dict[str, Any]) -> Sample:
        messages = line["messages"]
        good = isinstance(messages, list) and messages
        for i, m in enumerate(messages if good else ()):
            if not isinstance(m, dict) or not isinstance(m.get("role"), str) or not isinstance(m.get("content"), str):
                raise ValueError(f'{where}: message {i + 1} must have strings "role" and "content"')
            if m["role"] == "assistant" and not m["content"]:
                raise ValueError(f"{where}: message {i + 1} is an empty answer")
        if not good or not any(m["role"] == "assistant" for m in messages):
            raise ValueError(f"{where}: no message has the role assistant: nothing to learn")
        more = {key: value for key, value in line.items() if key != "messages"}
        try:
            text, counts = self.tokenizer._chat(self.template).answers(messages, more)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return self.sample(where, text[: counts[-1]], counts, chat=True, end=False)

    def question(self, where: str, line: dict[str, Any]) -> Question:
        asked, choices, answer = self.text(where, line, "question"), line["choices"], line.get("answer")
        if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(c, str) and c for c in choices):
            raise ValueError(f'{where}: "choices" must be an array of two strings or more')
        if answer in choices:
            answer = choices.index(answer)
        elif isinstance(answer, str) and len(answer) == 1:
            answer = ord(answer.lower()) - ord("a")
        if type(answer) is not int or not 0 <= answer < len(choices):
            raise ValueError(
                f'{where}: "answer" must be one of the choices, its letter, or its number from 0 to {len(choices) - 1}'
            )
        spaced = [choice if asked[-1] in " \n" or choice[0] == " " else " " + choice for choice in choices]
        samples = [self.answer(where, asked, choice, end=False) for choice in spaced]
        return Question(samples, answer, [len(choice.encode()) for choice in spaced])

    @staticmethod
    def text(where: str, line: dict[str, Any], key: str) -> str:
        value = line.get(key)
        if not isinstance(value, str):
            raise ValueError(f'{where}: "{key}" must be a string')
        if not value:
            raise ValueError(f'{where}: "{key}" is empty')
        return value

    def line(self, where: str, text: bytes) -> Sample | Question:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where} is not valid JSON: {error}") from None
        if isinstance(line, dict) and "messages" in line:
            return self.messages(where, line)
        if isinstance(line, dict) and "prompt" in line:
            prompt, completion = self.text(where, line, "prompt"), self.text(where, line, "completion")
            return self.answer(where, prompt, completion, end=True)
        if isinstance(line, dict) and "choices" in line:
            return self.question(where, line)
        if isinstance(line, dict) and "text" in line:
            return self.answer(where, "", self.text(where, line, "text"), end=True)
        raise ValueError(f'{where}: needs "messages", "prompt" and "completion", "question" and "choices", or "text"')

    def windows(self, path: str, text: bytes) -> list[Sample]:
        ids = self.tokenizer.encode(text, allowed_special="all", add_special_tokens=True)
        if len(ids) < 2:
            raise ValueError(f"'{path}' has {len(ids)} tokens: nothing to predict")
        parts = [ids[at : at + self.context + 1] for at in range(0, len(ids) - 1, self.context)]
        return [Sample(part, [True] * len(part)) for part in parts]


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
    reader, found = _Reader(tokenizer, context, eos, truncate, chat_template), list[Sample | Question]()
    for path in [files] if isinstance(files, str | os.PathLike) else files:
        name = os.fspath(path)
        with open(path, "rb") as file:
            text = file.read()
        if name.endswith(".jsonl"):
            lines = enumerate(text.split(b"\n"), 1)
            found += [reader.line(f"{name} line {i}", line) for i, line in lines if line.strip()]
        else:
            found += reader.windows(name, text)
    return found
