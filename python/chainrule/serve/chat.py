"""Messages of a chat to the tokens of a prompt."""

from __future__ import annotations

from typing import Any

from ..data import Tokenizer

__all__ = ["prompt_of"]


def prompt_of(tokenizer: Tokenizer, messages: list[dict[str, Any]]) -> list[int]:
    """By the tokenizer's chat template, up to where the answer begins; in ChatML where it has none.
    ValueError: the template refuses these messages."""
    other = "chatml" if tokenizer.chat_template is None else None
    return [*tokenizer.apply_chat_template(messages, add_generation_prompt=True, chat_template=other)]
