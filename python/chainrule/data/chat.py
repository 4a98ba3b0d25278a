"""Conversations as text: the Jinja template in a model's folder, or one of the four that C has."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core

__all__ = ["BUILT_IN", "chat_text", "gguf_entries", "is_gguf", "stored"]

BUILT_IN = ("chatml", "llama2", "llama3", "mistral")
Messages = Sequence[Mapping[str, Any]]


def read_json(path: str) -> dict[str, Any]:
    """An object; {} where there is no such file.  ValueError: it is damaged."""
    try:
        with open(path, "rb") as f:
            entries: Any = json.loads(f.read())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"[apply_chat_template] '{path}' is not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"[apply_chat_template] '{path}' is not a JSON object")
    return entries


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Does this file begin as a GGUF file?"""
    with open(path, "rb") as f:
        return f.read(4) == b"GGUF"


def gguf_entries(path: str) -> dict[str, Any]:
    """What a GGUF file says about its tokenizer, without "tokenizer."."""
    entries: dict[str, Any] = json.loads(_core._load_metadata(path))
    return {key.removeprefix("tokenizer."): said for key, said in entries.items() if key.startswith("tokenizer.")}


def stored(folder: str) -> tuple[str | None, dict[str, str]]:
    """The template of a folder or a GGUF file, if it has one, and its special tokens by their roles, such as
    "bos_token"."""
    if os.path.isfile(folder):
        said = gguf_entries(folder)
        names = said.get("ggml.tokens", [])
        ids = {role: said.get(f"ggml.{role}_id") for role in ("bos_token", "eos_token")}
        found = said.get("chat_template")
        return found, {role: names[id] for role, id in ids.items() if type(id) is int and 0 <= id < len(names)}
    entries = read_json(os.path.join(folder, "tokenizer_config.json"))
    special = {**read_json(os.path.join(folder, "special_tokens_map.json")), **entries}
    tokens = {}
    for role, token in special.items():
        text = token.get("content") if isinstance(token, dict) else token
        if role.endswith("_token") and isinstance(text, str):
            tokens[role] = text
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            return f.read(), tokens
    template = entries.get("chat_template")
    if isinstance(template, list):  # several with names
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    if template is not None and not isinstance(template, str):
        raise ValueError(f"[apply_chat_template] '{folder}': \"chat_template\" must be text, it is {template!r:.60}")
    return template, tokens


@functools.lru_cache(maxsize=64)
def compiled(template: str) -> Any:
    """ValueError: the template is damaged, or uses what is not supported."""
    return _core._template(template.encode("utf-8", "surrogatepass"))


def plain(x: Any) -> Any:
    """What JSON does not know: mappings of other kinds."""
    if isinstance(x, Mapping):
        return dict(x)
    raise TypeError(f"a template takes texts, numbers, lists and dicts, not {type(x).__name__}")


def rendered(template: str, tokens: Mapping[str, str], messages: Messages, ask: bool, more: Mapping[str, Any]) -> str:
    """ValueError: the template refuses the messages."""
    given = {**tokens, "messages": messages, "add_generation_prompt": ask, **more}
    try:
        variables = json.dumps(given, ensure_ascii=False, default=plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"[apply_chat_template] the variables of the template: {error}") from None
    text: bytes = _core._template_render(compiled(template), variables)[0]
    return text.decode()


def template_of(folder: str | None, source: Any) -> tuple[str | None, dict[str, str]]:
    """The template in a tokenizer's folder, else the name of the built-in one that its special tokens point to;
    and the special tokens by their names in templates."""
    said, tokens = stored(folder) if folder is not None else (None, {})
    return said or _core._chat_format(folder or "", source), tokens


def chat_text(
    messages: Messages, ask: bool, template: str | None, folder: str | None, source: Any, more: Mapping[str, Any]
) -> str:
    """The messages as text: by a template or the name of a built-in one; without it by the folder's."""
    if not messages:
        raise ValueError("[apply_chat_template] needs at least one message, not 0")
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f"[apply_chat_template] message {i} must be a dict with a role, not {message!r:.60}")
    tokens: dict[str, str] = {}
    if template not in BUILT_IN:
        said, tokens = template_of(folder, source)
        template = template or said
    if template is None:
        raise ValueError(
            "[apply_chat_template] the tokenizer has no chat_template: pass one, or the name of one: "
            + ", ".join(BUILT_IN)
        )
    if template not in BUILT_IN:
        return rendered(template, tokens, messages, ask, {"tools": None, "documents": None, **more})
    pairs = []
    for i, message in enumerate(messages):
        if not isinstance(message.get("content"), str):
            raise ValueError(f"[apply_chat_template] message {i}: the content must be a str with template {template!r}")
        if "\0" in message["role"] + message["content"]:
            raise ValueError(f"[apply_chat_template] message {i} holds a NUL")
        pairs.append((message["role"].encode(), message["content"].encode()))
    text: bytes = _core._chat_text(template, tuple(pairs), ask)
    return text.decode()
