"""Folders of PEFT: the weights of low-rank adapters, and what they are (``nn.lora``)."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import _core
from .._core import Tensor
from .replace import replaced

__all__ = ["load_adapter", "save_adapter"]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def save_adapter(folder: str | os.PathLike[str], weights: dict[str, Tensor], config: dict[str, Any]) -> None:
    """Writes the folder, which may be new.  OSError: it cannot be written."""
    os.makedirs(folder, exist_ok=True)
    _core._save_safetensors(weights, os.path.join(folder, WEIGHTS))
    with replaced(os.path.join(folder, CONFIG)) as file:
        file.write((json.dumps(config, indent=2) + "\n").encode())


def _read_config(folder: str | os.PathLike[str]) -> dict[str, Any]:
    path = os.path.join(folder, CONFIG)
    with open(path, "rb") as file:
        try:
            config: Any = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"[lora.load] '{path}' is not JSON: {error}") from None

    def wrong(key: str, wanted: str) -> ValueError:
        return ValueError(f"[lora.load] '{path}': \"{key}\" must be {wanted}, it is {json.dumps(config.get(key))[:60]}")

    if not isinstance(config, dict):
        raise ValueError(f"[lora.load] '{path}' is not a JSON object")
    if config.get("peft_type") != "LORA":
        raise wrong("peft_type", '"LORA"')
    if config.get("bias", "none") != "none":
        raise wrong("bias", '"none"')
    if config.get("init_lora_weights", True) not in (True, False, None, "gaussian", "eva", "orthogonal"):
        raise wrong("init_lora_weights", 'true, false, "gaussian", "eva" or "orthogonal": others change the base')
    empty = "use_dora", "lora_bias", "rank_pattern", "alpha_pattern", "modules_to_save", "trainable_token_indices"
    variants = "target_parameters", "alora_invocation_tokens", "layer_replication", "use_qalora", "use_bdlora"
    for key in (*empty, *variants, "arrow_config"):
        if config.get(key):
            raise wrong(key, "empty")
    if type(config.get("r")) is not int or config["r"] < 1:
        raise wrong("r", "a whole number from 1")
    for key, default, least, most in (("lora_alpha", 8, 1e-9, 1e9), ("lora_dropout", 0, 0, 0.999999)):
        value = config.setdefault(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise wrong(key, f"a number from {least:g} to {most:g}")
    return config


def load_adapter(folder: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and configuration.  OSError: the folder lacks a file.  ValueError: a kind that is not supported."""
    config = _read_config(folder)
    return _core._load_safetensors(os.path.join(folder, WEIGHTS), None), config
