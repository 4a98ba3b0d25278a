"""How a model is asked: src/text/chat.c reads a folder's or a GGUF file's template, special tokens and end tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import _core

__all__ = ["Chat", "is_gguf"]

Messages = Sequence[Mapping[str, Any]]
FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
    "config.json",
)


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Does this file begin as a GGUF file?"""
    with open(path, "rb") as f:
        return f.read(4) == b"GGUF"


def _plain(x: Any) -> Any:
    """What JSON does not know: mappings of other kinds."""
    if isinstance(x, Mapping):
        return dict(x)
    raise TypeError(f"a template takes texts, numbers, lists and dicts, not {type(x).__name__}")


def state(folder: str | None) -> tuple[Any, ...]:
    """What changes when one of the files does."""
    if folder is None:
        return ()
    paths = [os.path.join(folder, name) for name in FILES] if os.path.isdir(folder) else [folder]
    found = [os.stat(path) if os.path.exists(path) else None for path in paths]
    return tuple(s and (s.st_mtime_ns, s.st_size, s.st_ino) for s in found)


class Said(NamedTuple):
    """template: its text; name: of a built-in one; source: where it is from; None: there is none. ends: tokens that
    end a text; answer_ends: and those that the template puts behind an answer."""

    template: bytes | None
    name: str | None
    source: str | None
    ends: tuple[int, ...]
    answer_ends: tuple[int, ...]


class Chat:
    """The template and the special tokens in a folder or a GGUF file. form: in place of its template, a text in Jinja
    or "chatml", "llama2", "llama3", "mistral". OSError, ValueError: a file, or a template, that is damaged."""

    def __init__(self, folder: str | None, source: Any = None, form: str | None = None) -> None:
        there = None if folder is None else os.fsencode(folder)
        self._chat = _core._chat_open(there, source, None if form is None else form.encode("utf-8", "surrogatepass"))
        self.said = Said(*_core._chat_said(self._chat))

    def _variables(self, messages: Messages, ask: bool, more: Mapping[str, Any]) -> bytes:
        if not messages:
            raise ValueError("[apply_chat_template] needs at least one message, not 0")
        for i, message in enumerate(messages):
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise ValueError(f"[apply_chat_template] message {i} must be a dict with a role, not {message!r:.60}")
        given = {"messages": [*messages], "add_generation_prompt": ask, **more}
        try:
            return json.dumps(given, ensure_ascii=False, default=_plain).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"[apply_chat_template] the variables of the template: {error}") from None

    def text(self, messages: Messages, ask: bool = False, more: Mapping[str, Any] | None = None) -> str:
        """The messages as text. ValueError: there is no template, or it refuses them."""
        text: bytes = _core._chat_text(self._chat, self._variables(messages, ask, more or {}))
        return text.decode()
