"""The model that a folder holds, chosen by its config.json."""

from __future__ import annotations

import os
from typing import Any

from . import pretrained
from .decoder import Decoder
from .gpt import GPT
from .llama import Llama

__all__ = ["from_pretrained"]

MODELS: dict[str, type[Decoder]] = {kind: model for model in (GPT, Llama) for kind in model.kinds}


def from_pretrained(folder: str | os.PathLike[str], **options: Any) -> Decoder:
    """The model in a Hugging Face folder, or a GGUF file: GPT-2, Llama, SmolLM, Mistral, Qwen 2, 3,
    by "model_type" in config.json.  Options and exceptions: ``Decoder.from_pretrained``."""
    return MODELS[pretrained.kind_of(folder, tuple(MODELS))].from_pretrained(folder, **options)
