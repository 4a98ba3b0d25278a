"""Tokenizers and token files, over the C library's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

from .. import _core
from .._core import Device, Tensor

__all__ = ["TokenFile", "Tokenizer"]

Text: TypeAlias = str | bytes
Bytes: TypeAlias = bytes  # where a method has that name


class Tokenizer:
    """Text to token numbers and back, as the program's: ``Tokenizer.chars(text)`` has a token for
    each character of a text, in the order of their code points, ``Tokenizer.bytes()`` one for each
    of the 256 bytes.  ``len(t)`` is the vocabulary.

    ``Tokenizer.load("run/tokenizer.json")`` is that of a run of ``chainrule train``; in C it is cr_tokenizer.
    """

    def __init__(self, source: Any) -> None:
        self._source = source  # made by one of the three below

    @classmethod
    def bytes(cls) -> Tokenizer:
        """One token for each byte: any text is known."""
        return cls(_core._tokenizer_bytes())

    @classmethod
    def chars(cls, text: Text) -> Tokenizer:
        """One token for each character (code point) of this text, which is a str or UTF-8.
        ValueError: it is empty, or not UTF-8."""
        return cls(_core._tokenizer_chars(text))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer in a file that ``save`` or the program wrote.  OSError: there is none."""
        return cls(_core._tokenizer_load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a small JSON file."""
        _core._tokenizer_save(self._source, os.fspath(path))

    def encode(self, text: Text) -> list[int]:
        """The tokens of a str, or of UTF-8 (with ``bytes()``, of any bytes).  ValueError names a
        character that has no token, and its place."""
        return self.tensor(text).tolist()  # type: ignore[no-any-return]

    def tensor(self, text: Text) -> Tensor:
        """The same as a tensor, int64 (T): quicker for a long text."""
        return _core._tokenizer_encode(self._source, text)

    def decode(self, tokens: Sequence[int] | Tensor, errors: str = "replace") -> str:
        """The text of tokens, (T).  errors: the handling of bytes that are not UTF-8, as in
        ``bytes.decode``.  IndexError: a token outside of the vocabulary."""
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_bytes(self, tokens: Sequence[int] | Tensor) -> Bytes:
        """The same as UTF-8, or with ``bytes()`` as the bytes that they are."""
        numbers = (
            tokens if isinstance(tokens, Tensor) else _core.tensor(list(tokens) or _core.empty(0, dtype=_core.int64))
        )
        return _core._tokenizer_decode(self._source, numbers)

    def __len__(self) -> int:
        return _core._tokenizer_size(self._source)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.decode_bytes([len(self) - 1]) == b"\xff":  # no UTF-8: the last of the bytes
            return type(self).bytes, ()
        return type(self).chars, (self.decode_bytes(_core.arange(len(self))),)


class TokenFile:
    """A memory-mapped token file, which ``save`` or ``chainrule tokenize`` wrote, as batches of
    windows: ``for x, y in TokenFile("train.tok", 16, 256): ...``. x and y are int64 (batch_size,
    context), y one token later.  Iterating goes to the end of the epoch; the next iteration is the
    next one, in another order where ``shuffle``: each token is a target once an epoch, except those
    after the last window.  start, stop: a part of the file.  A thread prepares the next batch.
    OSError: no such file, or no token file.  ValueError: too few tokens."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch_size: int = 8,
        context: int = 64,
        *,
        shuffle: bool = True,
        seed: int = 0,
        start: int = 0,
        stop: int | None = None,
        device: Device | str | None = None,
    ) -> None:
        whole = _core._tokens_open(os.fspath(path))
        first, last, _ = slice(start, stop).indices(_core._tokens_info(whole)[0])
        tokens = _core._tokens_slice(whole, first, max(first, last))
        self.tokens, self.vocabulary = _core._tokens_info(tokens)  # how many, of how many kinds
        self.batch_size, self.context, self.shuffle, self.seed = batch_size, context, shuffle, seed
        self._loader = _core._loader_new(tokens, batch_size, context, seed, shuffle, device)
        self._lock = Lock()  # over the loader

    @staticmethod
    def save(path: str | os.PathLike[str], tokens: Sequence[int] | Tensor, vocabulary: int) -> None:
        """Writes tokens, (T), as a token file, in the narrowest of 1, 2 and 4 bytes that holds the
        vocabulary.  IndexError: a token outside of it."""
        _core._tokens_save(
            os.fspath(path),
            tokens if isinstance(tokens, Tensor) else _core.tensor(tokens, dtype=_core.int64),
            vocabulary,
        )

    def __len__(self) -> int:
        """Batches in an epoch."""
        return _core._loader_place(self._loader)[1]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        cursor, batches = _core._loader_place(self._loader)
        for _ in range(batches - cursor % batches):
            yield self.next()

    def next(self) -> tuple[Tensor, Tensor]:
        """The next batch, also of the next epoch."""
        with self._lock:
            return _core._loader_next(self._loader)

    def state_dict(self) -> dict[str, int]:
        """Where it is: seed, and how many batches were given."""
        return {"seed": self.seed, "cursor": _core._loader_place(self._loader)[0]}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Goes on where ``state_dict`` was taken.  ValueError: that one has another seed, hence another order."""
        if state_dict["seed"] != self.seed:
            raise ValueError(
                f"the state is of a TokenFile with the seed {state_dict['seed']}, this one has {self.seed}"
            )
        with self._lock:
            _core._loader_seek(self._loader, state_dict["cursor"])
