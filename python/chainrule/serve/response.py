"""Tokens of the engine to answers in OpenAI's form, whole or in pieces."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import _core
from ..data import Tokenizer
from ..models.batch import Logprobs

__all__ = ["Choice", "Form", "Piece"]


class Token(NamedTuple):
    """A token with its logarithm of probability and those of the best ones."""

    offset: int  # of its text, in characters of the answer
    logprobs: Logprobs


@dataclass(frozen=True)
class Piece:
    """The next part of one answer."""

    index: int  # of the answer
    text: str
    tokens: list[Token]  # those that begin in the text, where logprobs are wanted
    finish: str | None = None  # at the end: "stop", "length", "cancelled", "error"
    error: Exception | None = None


class Choice:
    """One answer: the tokens of a request go in, pieces of text come out, up to a stop string.

    Runs in the thread of the engine.  Text that may be the beginning of a stop string is held back; a
    character is given when all its bytes are there."""

    def __init__(
        self,
        index: int,
        tokenizer: Tokenizer,
        special: frozenset[int],
        stop: Sequence[str],
        give: Callable[[Piece], None],
    ) -> None:
        self.index, self.stop, self.special, self.give = index, stop, special, give
        self._known = len(tokenizer)  # models often have some rows more, which have no text
        self.made = 0  # tokens
        self._decoder = _core._decoder_new(tokenizer._source)
        self._held, self._given = "", 0  # the text held back; characters given
        self._cut = False  # at a stop string
        self._tokens: list[Token] = []  # not given yet

    def take(self, token: int, logprobs: Logprobs | None) -> bool:
        """Request.on_token"""
        self.made += 1
        if logprobs is not None:
            finite = [(id, max(value, -9999.0)) for id, value in logprobs]  # JSON has no infinity
            self._tokens.append(Token(self._given + len(self._held), finite))
        shown = token < self._known and token not in self.special
        part = _core._decoder_next(self._decoder, token) if shown else None
        self._held += part.decode("utf-8", "replace") if part else ""
        found = [at for at in map(self._held.find, self.stop) if at >= 0]
        if found:
            self._held, self._cut = self._held[: min(found)], True
            return False
        self._release(len(self._held) - longest_beginning(self._held, self.stop))
        return True

    def end(self, reason: str, error: Exception | None) -> None:
        """Request.on_end"""
        if not self._cut:
            rest = _core._decoder_end(self._decoder)
            self._held += rest.decode("utf-8", "replace") if rest else ""
        text, last = self._held, self._given + len(self._held)
        tokens = [t for t in self._tokens if t.offset < last or not self._cut]
        self.give(Piece(self.index, text, tokens, reason, error))

    def _release(self, n: int) -> None:
        if n > 0:
            text, self._held, self._given = self._held[:n], self._held[n:], self._given + n
            tokens = [t for t in self._tokens if t.offset < self._given]
            self._tokens = self._tokens[len(tokens) :]
            self.give(Piece(self.index, text, tokens))


def longest_beginning(text: str, stop: Sequence[str]) -> int:
    """How many of the last characters may be the beginning of a stop string."""
    for n in range(min(len(text), max(map(len, stop), default=1) - 1), 0, -1):
        if any(s.startswith(text[-n:]) for s in stop):
            return n
    return 0


class Form:
    """The objects of one response."""

    def __init__(self, tokenizer: Tokenizer, model: str, chat: bool) -> None:
        self.tokenizer, self.chat = tokenizer, chat
        self.head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12),
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, choices: Iterable[tuple[str, list[Token] | None, str]], usage: dict[str, int]) -> dict[str, Any]:
        """The response, by text, tokens and reason of each answer."""
        made = []
        for index, (text, tokens, finish) in enumerate(choices):
            said: dict[str, Any] = {"index": index}
            said |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
            made.append(said | {"logprobs": self.logprobs(tokens), "finish_reason": finish})
        return {**self.head, "choices": made, "usage": usage}

    def chunk(self, piece: Piece, wanted: bool, first: bool) -> dict[str, Any]:
        """A part of a streamed response."""
        said: dict[str, Any] = {"index": piece.index}
        if self.chat:
            delta = {"role": "assistant"} if first else {}
            said["delta"] = delta | ({"content": piece.text} if piece.text or first else {})
        else:
            said["text"] = piece.text
        said |= {"logprobs": self.logprobs(piece.tokens if wanted else None), "finish_reason": piece.finish}
        return {**self._part(), "choices": [said]}

    def usage_chunk(self, usage: dict[str, int]) -> dict[str, Any]:
        """The last part, where the usage is wanted."""
        return {**self._part(), "choices": [], "usage": usage}

    def _part(self) -> dict[str, Any]:
        return {**self.head, "object": "chat.completion.chunk" if self.chat else "text_completion"}

    def logprobs(self, tokens: list[Token] | None) -> dict[str, Any] | None:
        if tokens is None:
            return None
        if self.chat:
            return {"content": [self._entry(*t.logprobs[0]) | {"top_logprobs": self._best(t)} for t in tokens]}
        names = [[(self._text(token), value) for token, value in t.logprobs] for t in tokens]
        return {
            "tokens": [every[0][0] for every in names],
            "token_logprobs": [every[0][1] for every in names],
            "top_logprobs": [dict(every[1:] + every[:1]) for every in names],
            "text_offset": [t.offset for t in tokens],
        }

    def _best(self, token: Token) -> list[dict[str, Any]]:
        return [self._entry(*one) for one in token.logprobs[1:]]

    def _entry(self, token: int, value: float) -> dict[str, Any]:
        raw = self._raw(token)
        return {"token": raw.decode("utf-8", "replace"), "logprob": value, "bytes": [*raw]}

    def _raw(self, token: int) -> bytes:
        return self.tokenizer.decode_bytes([token]) if token < len(self.tokenizer) else b""

    def _text(self, token: int) -> str:
        """A token by its text; by its bytes where they are a part of a character."""
        raw = self._raw(token)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{b:02x}" for b in raw)
