"""Folders of PEFT: the weights of low-rank adapters, and what they are (``nn.lora``)."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import _core
from .._core import Tensor
from .replace import replaced

__all__ = ["save_adapter"]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def save_adapter(folder: str | os.PathLike[str], weights: dict[str, Tensor], config: dict[str, Any]) -> None:
    """Writes the folder, which may be new.  OSError: it cannot be written."""
    os.makedirs(folder, exist_ok=True)
    _core._save_safetensors(weights, os.path.join(folder, WEIGHTS))
    with replaced(os.path.join(folder, CONFIG)) as file:
        file.write((json.dumps(config, indent=2) + "\n").encode())
