"""Bodies of requests in OpenAI's form, read strictly: a message names the entry and its value."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Asked", "Fields", "Problem", "chat", "completion", "entries", "prompts_of"]

Encode = Callable[[str], list[int]]
Template = Callable[[list[dict[str, Any]]], list[int]]

# Entries that change no answer here.
IGNORED = (
    "user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention parallel_tool_calls"
    " best_of suffix tools tool_choice functions function_call response_format modalities reasoning_effort verbosity"
).split()
# Those of them that would change an answer elsewhere: refused, but for these values.
ONLY: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
ROLES = ("system", "developer", "user", "assistant")


class Problem(Exception):
    """An error in OpenAI's form, with its status."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        kind: str = "invalid_request_error",
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class Asked(NamedTuple):
    """What a request asks for."""

    model: str
    prompts: list[list[int]]  # tokens
    texts: list[str]  # of the prompts, to be repeated before the answers
    n: int  # answers to each prompt
    max_tokens: int | None  # None: not given
    options: dict[str, Any]  # of ``batch.Request``
    stop: list[str]
    stream: bool
    include_usage: bool


class Fields:
    """The entries of a JSON object; null is the same as absent."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self._left = {name: value for name, value in entries.items() if value is not None}

    def wrong(self, name: str, wanted: str, value: Any) -> Problem:
        return Problem(f'"{name}" must be {wanted}, it is {shown(value)}', param=name)

    def take(self, name: str) -> Any:
        return self._left.pop(name, None)

    def number(self, name: str, default: float, least: float, most: float) -> float:
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.wrong(name, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def whole(self, name: str, least: int, most: int) -> int | None:
        value = self.take(name)
        if value is not None and (type(value) is not int or not least <= value <= most):
            raise self.wrong(name, f"a whole number from {least} to {most}", value)
        return value

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return bool(value)

    def text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a string", value)
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """A string or up to so many, none of them empty."""
        value = self.take(name)
        every = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(every, list) or len(every) > most or not all(isinstance(s, str) and s for s in every):
            raise self.wrong(name, f"a string or a list of up to {most}, none of them empty", value)
        return every

    def object(self, name: str) -> Fields | None:
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object", value)
        return None if value is None else Fields(value)

    def done(self, inside: str = "") -> None:
        """Refuses what was not taken."""
        for name, values in ONLY.items():
            if name in self._left and self._left[name] not in values:
                raise Problem(f'"{name}" is not supported: {shown(self._left[name])}', param=name)
        for name in self._left:
            if name not in IGNORED:
                raise Problem(f'there is no entry "{inside}{name[:60]}"', param=name)


def shown(value: Any) -> str:
    """A value in a message, cut."""
    text = "absent" if value is None else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def entries(body: bytes) -> Fields:
    """Problem: the body is not a JSON object."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number of JSON")

    try:
        value = json.loads(body.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Problem(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Problem(f"the body must be a JSON object, it is {shown(value)}")
    return Fields(value)


def common(f: Fields) -> dict[str, Any]:
    """What both kinds of requests say, by the names of ``Asked``; options by those of ``batch.Request``."""
    seed = f.whole("seed", -(2**63), 2**64 - 1)
    bias = f.take("logit_bias") or {}
    try:
        biases = {int(token): float(amount) for token, amount in bias.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise f.wrong("logit_bias", "an object of tokens and numbers", bias) from None
    if not all(-100 <= amount <= 100 for amount in biases.values()) or len(biases) > 1024:
        raise f.wrong("logit_bias", "up to 1024 tokens with numbers from -100 to 100", bias)
    n, stream, said = f.whole("n", 1, 128), f.flag("stream"), f.object("stream_options")
    include_usage = said is not None and said.flag("include_usage")
    if said is not None:
        said.take("include_obfuscation")
        said.done("stream_options.")
    return {
        "model": f.text("model"),
        "n": n or 1,
        "stop": f.texts("stop", 4),
        "stream": stream,
        "include_usage": include_usage,
        "options": {
            "seed": None if seed is None else seed % 2**64,
            "temperature": f.number("temperature", 1.0, 0.0, 100.0),
            "top_p": f.number("top_p", 1.0, 1e-9, 1.0),
            "top_k": max(f.whole("top_k", -1, 2**31) or 0, 0),
            "min_p": f.number("min_p", 0.0, 0.0, 1.0),
            "presence_penalty": f.number("presence_penalty", 0.0, -2.0, 2.0),
            "frequency_penalty": f.number("frequency_penalty", 0.0, -2.0, 2.0),
            "logit_bias": biases,
        },
    }


def completion(body: bytes, encode: Encode, decode: Callable[[list[int]], str]) -> Asked:
    """POST /v1/completions.  Problem: it is not understood."""
    f = entries(body)
    said = common(f)
    said["options"]["logprobs"] = f.whole("logprobs", 0, 5)
    prompt, echo, limit = f.take("prompt"), f.flag("echo"), f.whole("max_tokens", 1, 2**31)
    f.done()
    if echo and said["options"]["logprobs"] is not None:
        raise Problem('"echo" with "logprobs" is not supported', param="echo")
    prompts = [encode(p) if isinstance(p, str) else p for p in prompts_of(f, prompt)]
    texts = [""] * len(prompts)
    if echo:
        try:
            texts = [p if isinstance(p, str) else decode(p) for p in prompts_of(f, prompt)]
        except (IndexError, OverflowError) as error:
            raise Problem(str(error), param="prompt") from None
    return Asked(prompts=prompts, texts=texts, max_tokens=limit, **said)


def prompts_of(f: Fields, prompt: Any, name: str = "prompt", most: int = 128) -> list[Any]:
    """A string, tokens, or a list of either, as a list."""
    form = f"a string, tokens, or a list of 1 to {most} of either"
    every = [prompt] if isinstance(prompt, str) else prompt
    if isinstance(every, list) and every and all(type(token) is int for token in every):
        every = [every]
    if not isinstance(every, list) or not 1 <= len(every) <= most:
        raise f.wrong(name, form, prompt)
    for one in every:
        if not isinstance(one, str) and not (isinstance(one, list) and all(type(token) is int for token in one)):
            raise f.wrong(name, form, prompt)
    return every


def chat(body: bytes, template: Template) -> Asked:
    """POST /v1/chat/completions.  Problem: it is not understood."""
    f = entries(body)
    said = common(f)
    limits = [f.whole(name, 1, 2**31) for name in ("max_completion_tokens", "max_tokens")]
    wanted, best = f.flag("logprobs"), f.whole("top_logprobs", 0, 20)
    if best is not None and not wanted:
        raise Problem('"top_logprobs" needs "logprobs": true', param="top_logprobs")
    said["options"]["logprobs"] = best or 0 if wanted else None
    said_messages = f.take("messages")
    f.done()
    if not isinstance(said_messages, list) or not 1 <= len(said_messages) <= 4096:
        raise f.wrong("messages", "a list of 1 to 4096 messages", said_messages)
    prompt = template([message(one, i) for i, one in enumerate(said_messages)])
    return Asked(prompts=[prompt], texts=[""], max_tokens=limits[0] or limits[1], **said)


def message(said: Any, i: int) -> dict[str, Any]:
    """{"role", "content"}; content in parts becomes one text."""
    where = f"messages[{i}]"
    if not isinstance(said, dict):
        raise Problem(f'"{where}" must be an object, it is {shown(said)}', param="messages")
    role, content = said.get("role"), said.get("content")
    if role not in ROLES:
        raise Problem(f'"{where}.role" must be one of {", ".join(ROLES)}, it is {shown(role)}', param="messages")
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
        if len(parts) == len(content) and all(isinstance(part, str) for part in parts):
            content = "".join(parts)  # type: ignore[arg-type]
    if not isinstance(content, str):
        raise Problem(f'"{where}.content" must be a string or parts of text, it is {shown(content)}', param="messages")
    return {"role": "system" if role == "developer" else role, "content": content}
