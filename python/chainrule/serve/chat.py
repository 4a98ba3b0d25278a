"""Messages of a chat to the tokens of a prompt."""

from __future__ import annotations

from typing import Any

from ..data import Tokenizer

__all__ = ["prompt_of"]


def prompt_of(tokenizer: Tokenizer, messages: list[dict[str, Any]]) -> list[int]:
    """By the tokenizer's chat template, up to where the answer begins; in ChatML where it has none.
    ValueError: the template refuses these messages."""
    template: Any = getattr(tokenizer, "apply_chat_template", None)
    if template is not None:
        return list(template(messages, add_generation_prompt=True))
    marks = [name for name in ("<|im_start|>", "<|im_end|>") if name in tokenizer.special_tokens]
    tokens: list[int] = []
    for said in messages:
        tokens += tokenizer.encode(f"<|im_start|>{said['role']}\n", allowed_special=marks)
        tokens += tokenizer.encode(said["content"])  # names of special tokens are plain text here
        tokens += tokenizer.encode("<|im_end|>\n", allowed_special=marks)
    return tokens + tokenizer.encode("<|im_start|>assistant\n", allowed_special=marks)
