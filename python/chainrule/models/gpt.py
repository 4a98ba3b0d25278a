"""GPT-2 (Radford et al. 2019) for training: its sizes, and the checkpoints of ``chainrule train``."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from .. import _core
from .._core import Device, Generator
from .causal import CausalLM
from .decoder import consistent


class Config(NamedTuple):
    """The configuration of the model in a checkpoint."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    dropout: float


def described(config: Config) -> dict[str, Any]:
    """The entries of config.json."""
    V, context, layers, heads, width, dropout = config
    return {
        "model_type": "gpt2",
        "vocab_size": V,
        "n_positions": context,
        "n_ctx": context,
        "n_embd": width,
        "n_layer": layers,
        "n_head": heads,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": dropout,
        "embd_pdrop": dropout,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": True,
    }


class GPT(CausalLM):
    """Predicts each next token: ``GPT(vocabulary, context, layers, heads, width)(tokens)``, ints
    (B, T) -> logits (B, T, V); the head is the token embedding.

    context: the most tokens that it sees.  dropout: of the branches that are added to the residual stream, in training.
    generator: draws the weights and then the dropout; the default one when absent.
    ValueError: a size below 1, a width that heads do not divide, a dropout outside of [0, 1).
    """

    kinds = ("gpt2",)

    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        heads: int,
        width: int,
        dropout: float = 0.0,
        *,
        generator: Generator | None = None,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        config = Config(vocabulary, context, layers, heads, width, dropout)
        wrong = [
            f"{name} must be at least 1, not {size}"
            for name, size in zip(Config._fields[:5], config, strict=False)
            if size < 1
        ]
        wrong += [f"heads must divide width: {heads} and {width}"] if not wrong and width % heads else []
        wrong += [f"dropout must be in [0, 1), not {dropout}"] if not 0 <= dropout < 1 else []
        if wrong:
            raise ValueError("[GPT] " + "; ".join(wrong))
        said = described(config)
        text, weights = _core._lm_new(json.dumps(said), dtype or _core.get_default_dtype(), device or "cpu", generator)
        self._made(text, weights, generator, said)

    def _take_config(self) -> None:
        said = json.loads(self._text)
        V, context, layers, _, _, dropout = self._config
        self._config = Config(V, context, layers, said["n_head"], said["n_embd"], dropout)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, generator: Generator | None = None, device: Device | str | None = None
    ) -> GPT:
        """The model in a folder of ``chainrule train`` (its best, if the run keeps it) or
        ``save_checkpoint``, or in a safetensors file of either, with the dtype of its weights.  A
        save meanwhile does no harm: it is the old model or the new one. OSError: there is none.
        ValueError: the file does not describe its model, or holds another, or weights that do not fit."""
        checkpoints = [os.path.join(path, name) for name in ("checkpoint-best", "checkpoint")]
        file = next((f for f in checkpoints if os.path.exists(_core._training_weights(f))), os.fspath(path))
        said, weights = consistent(lambda: _core._load_safetensors(file, device), file)
        lacking = [name for name in Config._fields if name not in said]
        if lacking:
            raise ValueError(f"[GPT] '{file}' does not describe its model: its metadata lacks {', '.join(lacking)}")
        config = Config._make((float if name == "dropout" else int)(said[name]) for name in Config._fields)
        V, context, layers, _, C, _ = config
        needed, held = (V + context + 2 + layers * (12 * C + 13)) * C, sum(w.numel() for w in weights.values())
        if needed != held:  # a false configuration allocates nothing
            raise ValueError(f"[GPT] '{file}': its configuration needs {needed} elements, it holds {held}")
        entries = described(config)
        model = cls.__new__(cls)
        model._made(json.dumps(entries), {name: t.clone() for name, t in weights.items()}, generator, entries)
        return model
