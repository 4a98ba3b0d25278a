"""The model that a folder holds, chosen by its config.json."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import _core
from .causal import CausalLM
from .encoder import Encoder
from .engine import Engined, read
from .gpt import GPT
from .llama import Llama

__all__ = ["from_pretrained"]

MODELS: dict[str, type[CausalLM]] = {kind: model for model in (GPT, Llama) for kind in model.kinds}


def from_pretrained(folder: str | os.PathLike[str], **options: Any) -> Any:
    """The model in a folder of Hugging Face's layout, a GGUF file, or a checkpoint: a ``CausalLM``, of the class
    ``GPT`` or ``Llama`` for the families that these make; an ``Encoder`` of BERT and its relatives.  Options and
    exceptions: ``CausalLM.from_pretrained``."""
    read_from = read(os.fspath(folder), options.get("device") or "cpu", options.get("dtype") is not None)
    kind = json.loads(read_from[0]).get("model_type")
    cls: type[Engined] | None = MODELS.get(kind)
    if cls is None:
        lm = _core._lm_of(*read_from, options.get("device") or "cpu")
        cls = Encoder if _core._lm_pooling(lm)[0] else CausalLM
    return cls.from_pretrained(folder, **options, _read=read_from)
