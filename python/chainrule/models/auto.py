"""The model that a folder holds, chosen by its config.json."""

from __future__ import annotations

import json
import os
from typing import Any

from .causal import CausalLM, read
from .gpt import GPT
from .llama import Llama

__all__ = ["from_pretrained"]

MODELS: dict[str, type[CausalLM]] = {kind: model for model in (GPT, Llama) for kind in model.kinds}


def from_pretrained(folder: str | os.PathLike[str], **options: Any) -> CausalLM:
    """The model in a folder of Hugging Face's layout, a GGUF file, or a checkpoint: a ``CausalLM``, of the class
    ``GPT`` or ``Llama`` for the families that these make.  Options and exceptions: ``CausalLM.from_pretrained``."""
    read_from = read(os.fspath(folder), options.get("device") or "cpu", options.get("dtype") is not None)
    cls = MODELS.get(json.loads(read_from[0]).get("model_type"), CausalLM)
    return cls.from_pretrained(folder, **options, _read=read_from)
