"""The model that a folder holds, chosen by its config.json."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import _core
from . import pretrained
from .causal import CausalLM
from .decoder import Decoder
from .gpt import GPT
from .llama import Llama

__all__ = ["from_pretrained"]

MODELS: dict[str, type[Decoder]] = {kind: model for model in (GPT, Llama) for kind in model.kinds}


def from_pretrained(folder: str | os.PathLike[str], **options: Any) -> Decoder:
    """The model in a folder of Hugging Face's layout, or a GGUF file, by "model_type" in config.json: ``GPT``,
    ``Llama``, or ``CausalLM`` for all other families and for a GGUF file with weights in blocks (Q8_0, Q4_K...), which
    stay as they lie; with a ``dtype`` they become floats, which train.  Options and exceptions:
    ``Decoder.from_pretrained``."""
    packed = options.get("dtype") is None and is_packed(folder, options.get("device"))
    made = CausalLM if packed else MODELS.get(kind_of(folder), CausalLM)
    return made.from_pretrained(folder, **options)


def is_packed(path: str | os.PathLike[str], device: Any) -> bool:
    """Is it a GGUF file with weights in blocks, which this device multiplies as they lie?"""
    if not pretrained.is_gguf(path):
        return False
    _, weights = _core._lm_load(os.fspath(path), device or "cpu")
    return any(not tensor.is_floating_point() for tensor in weights.values())


def kind_of(path: str | os.PathLike[str]) -> str:
    """The family's name.  OSError: there is no such file."""
    if pretrained.is_gguf(path):
        return str(json.loads(_core._load_metadata(os.fspath(path))).get("general.architecture"))
    return str(pretrained.read_config(path).entries.get("model_type"))
