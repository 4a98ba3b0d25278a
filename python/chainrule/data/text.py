"""Tokenizers and token files, over the C library's."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakSet

from .. import _core
from .._core import Device, Tensor

if TYPE_CHECKING:
    from .chat import Chat

__all__ = ["TokenFile", "Tokenizer"]

Text: TypeAlias = str | bytes
Bytes: TypeAlias = bytes  # where a method has that name


class Tokenizer:
    """Text to token numbers and back.  ``len(t)`` is the vocabulary: the largest token + 1.

    ``Tokenizer.from_pretrained(folder)`` reads the learned tokenizer of a model, ``from_file`` one file:
    Hugging Face's ``tokenizer.json`` (BPE, Unigram, WordPiece), GPT-2's ``vocab.json`` + ``merges.txt`` or
    ``encoder.json`` + ``vocab.bpe``, SentencePiece's ``.model``, BERT's ``vocab.txt``, a GGUF file.
    ``train_bpe`` learns one from a text. ``Tokenizer.chars(text)`` has a token for each character of a
    text, in the order of their code points, ``Tokenizer.bytes()`` one for each of the 256 bytes.

    The names of special tokens, such as ``<|endoftext|>``, are plain text unless the caller allows them.
    In C it is cr_tokenizer; regular expressions other than those of widespread tokenizers need PCRE2.
    """

    def __init__(self, source: Any) -> None:
        self._source = source  # made by one of the methods below
        self._chats: dict[str | None, tuple[Any, Chat]] = {}

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
    def from_file(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer in a file of any of the formats above, or in one that ``save`` or the program
        wrote.  OSError: there is none, or it is damaged.  RuntimeError: it needs PCRE2, which is not installed."""
        from .chat import is_gguf

        made = cls(_core._tokenizer_load(os.fspath(path)))
        file = not os.path.isdir(path) and not is_gguf(path)
        made._folder = os.path.dirname(os.fspath(path)) or "." if file else os.fspath(path)
        return made

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer in a model's folder (``tokenizer.json`` comes first) or GGUF file.  Errors: as of
        ``from_file``."""
        return cls.from_file(folder)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """``from_file`` by its older name."""
        return cls.from_file(path)

    @classmethod
    def train_bpe(
        cls,
        text: Text,
        vocab_size: int,
        *,
        min_frequency: int = 0,
        special_tokens: Sequence[str] = (),
        split: str | None = None,
    ) -> Tokenizer:
        """A byte-level BPE: special tokens, the 256 bytes, and the most frequent pairs of a text until there
        are vocab_size tokens, or no pair occurs min_frequency times.  split: the regular expression whose
        matches are never joined; None: GPT-2's.  ValueError: vocab_size has no room for the bytes."""
        return cls(
            _core._tokenizer_train_bpe(
                _clean(text),
                vocab_size,
                min_frequency,
                None if split is None else split.encode(),
                tuple(token.encode() for token in special_tokens),
            )
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a JSON file: of a learned tokenizer a ``tokenizer.json``, which Hugging Face's
        ``tokenizers`` reads."""
        _core._tokenizer_save(self._source, os.fspath(path))

    def encode(
        self,
        text: Text,
        *,
        allowed_special: Collection[str] | Literal["all"] = (),
        add_special_tokens: bool = False,
        max_length: int | None = None,
    ) -> list[int]:
        """The tokens of a str or of bytes.

        allowed_special: names of special tokens that are recognized in the text, or "all".
        add_special_tokens: also the tokens that the file puts around a text, such as ``<s>``.
        max_length: longer texts are cut; the tokens that the file puts behind a text stay.
        Bytes need not be UTF-8: a byte-level tokenizer takes them as tiktoken does, others read U+FFFD.
        ValueError: a tokenizer of characters names one that has no token; or a name is not a special token."""
        special = self._allowed(allowed_special)
        found = _core._tokenizer_encode(self._source, _clean(text), special, add_special_tokens, max_length or 0)
        return found.tolist()  # type: ignore[no-any-return]

    def encode_batch(
        self,
        texts: Iterable[Text],
        *,
        allowed_special: Collection[str] | Literal["all"] = (),
        add_special_tokens: bool = False,
    ) -> list[list[int]]:
        """``encode`` of each text, by several threads."""
        return _core._tokenizer_encode_batch(
            self._source, tuple(_clean(text) for text in texts), self._allowed(allowed_special), add_special_tokens
        )

    def tensor(
        self, text: Text, *, allowed_special: Collection[str] | Literal["all"] = (), add_special_tokens: bool = False
    ) -> Tensor:
        """``encode`` as a tensor, int64 (T): quicker for a long text."""
        return _core._tokenizer_encode(self._source, _clean(text), self._allowed(allowed_special), add_special_tokens)

    def decode(
        self, tokens: Sequence[int] | Tensor, errors: str = "replace", *, skip_special_tokens: bool = False
    ) -> str:
        """The text of tokens, (T).  errors: the handling of bytes that are not UTF-8, as in
        ``bytes.decode``.  IndexError: a token outside of the vocabulary."""
        if skip_special_tokens:
            special = set(self.special_tokens.values())
            tokens = [token for token in map(int, tokens) if token not in special]
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_bytes(self, tokens: Sequence[int] | Tensor) -> Bytes:
        """The same as UTF-8, or with tokens of bytes as the bytes that they are."""
        numbers = (
            tokens if isinstance(tokens, Tensor) else _core.tensor(list(tokens) or _core.empty(0, dtype=_core.int64))
        )
        return _core._tokenizer_decode(self._source, numbers)

    def decode_stream(self, tokens: Iterable[int], errors: str = "replace") -> Iterator[str]:
        """The text of each token as soon as it is complete, never a part of a character; parts that would be
        empty are left out.  All parts together are ``decode(tokens)``."""
        decoder = _core._decoder_new(self._source)
        for token in tokens:
            part = _core._decoder_next(decoder, int(token))
            if part:
                yield part.decode("utf-8", errors)
        part = _core._decoder_end(decoder)
        if part:
            yield part.decode("utf-8", errors)

    def token_to_id(self, token: str) -> int | None:
        """The number of a token by its name in the file; None: there is no such token."""
        found = _core._tokenizer_find(self._source, token)
        return None if found < 0 else found

    def id_to_token(self, id: int) -> str | None:
        """The name of a token in the file, in which bytes may be spelled as characters ("Ġthe"); None: none."""
        found = _core._tokenizer_name(self._source, id)
        return None if found is None else found[0].decode()

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens by name."""
        if self._special is None:
            named = ((_core._tokenizer_name(self._source, id), id) for id in range(len(self)))
            self._special = {found[0].decode(): id for found, id in named if found is not None and found[1]}
        return dict(self._special)

    @property
    def chat_template(self) -> str | None:
        """What ``apply_chat_template`` uses: a template, or the name of a built-in one; None: there is none."""
        said = self._chat().said
        return said.name or (None if said.template is None else said.template.decode())

    def _chat(self, form: str | None = None) -> Chat:
        """How its model is asked; read again where the folder's files have changed."""
        from .chat import Chat, state

        now = state(self._folder)
        kept = self._chats.get(form)
        if kept is None or kept[0] != now:
            kept = self._chats[form] = now, Chat(self._folder, self._source, form)
        return kept[1]

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        chat_template: str | None = None,
        **variables: Any,
    ) -> list[int] | str:
        """A conversation, [{"role": "user", "content": "Hi"}, ...], as the tokens that a chat model was
        trained on; tokenize=False: as text.  add_generation_prompt: up to the start of an answer.

        The template is chat_template.jinja, or "chat_template" in tokenizer_config.json, in the tokenizer's
        folder. It reaches nothing but the special tokens and ``variables``, such as tools. A folder without one
        has the built-in template whose tokens it has. continue_final_message=True: up to the end of the last
        message's content.
        chat_template: another one, or the name of a built-in one: "chatml", "llama2", "llama3", "mistral".
        Names of special tokens in messages count as such.
        ValueError: no template, or one that refuses the messages."""
        text = self._chat(chat_template).text(messages, add_generation_prompt, variables)
        return self.encode(text, allowed_special="all") if tokenize else text

    _special: dict[str, int] | None = None
    _folder: str | None = None  # that it was read from

    def _allowed(self, names: Collection[str] | Literal["all"]) -> tuple[int, ...] | bool | None:
        if isinstance(names, str):
            if names != "all":
                raise ValueError(f"[encode] allowed_special is a collection of names or 'all', not {names!r}")
            return True
        if not names:
            return None
        special = self.special_tokens
        unknown = [name for name in names if name not in special]
        if unknown:
            raise ValueError(f"[encode] {unknown[0]!r} is not among the {len(special)} special tokens")
        return tuple(special[name] for name in names)

    def __len__(self) -> int:
        return _core._tokenizer_size(self._source)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"

    def __reduce__(self) -> tuple[Any, ...]:
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            self.save(path)
            with open(path, "rb") as file:
                return _restored, (type(self), file.read())


def _restored(cls: type[Tokenizer], text: Bytes) -> Tokenizer:
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "wb") as file:
            file.write(text)
        return cls.from_file(path)


def _clean(text: Text) -> Text:
    """A str without halves of surrogate pairs: pairs are joined, others become U+FFFD."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


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
        _open_files.add(self)

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
        return _core._loader_position(self._loader)[1]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        cursor, batches = _core._loader_position(self._loader)
        for _ in range(batches - cursor % batches):
            yield self.next()

    def next(self) -> tuple[Tensor, Tensor]:
        """The next batch, also of the next epoch."""
        with self._lock:
            return _core._loader_next(self._loader)

    def state_dict(self) -> dict[str, int]:
        """The position: seed, and the number of batches that were given."""
        return {"seed": self.seed, "cursor": _core._loader_position(self._loader)[0]}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Goes on where ``state_dict`` was taken.  ValueError: that one has another seed, hence another order."""
        if state_dict["seed"] != self.seed:
            raise ValueError(
                f"the state is of a TokenFile with the seed {state_dict['seed']}, this one has {self.seed}"
            )
        with self._lock:
            _core._loader_seek(self._loader, state_dict["cursor"])


_open_files: WeakSet[TokenFile] = WeakSet()


def _renew_locks() -> None:
    """In the child of a fork: another thread of the parent may have held them."""
    for file in _open_files:
        file._lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
