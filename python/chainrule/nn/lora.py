"""``chainrule.nn.lora``: low-rank adapters (Hu et al. 2021) for fine-tuning with little memory.

``apply`` puts an adapter beside each chosen linear layer and freezes everything else; ``save`` and ``load``
use the folders of PEFT, ``merge`` adds the adapters to the weights.  A layer is any module with
``in_features`` and ``out_features``, so that a quantized base works (QLoRA)::

    lora.apply(model, r=8, alpha=16)
    optimizer = optim.AdamW(lora.parameters(model), lr=2e-4)
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Generator, Tensor
from ..autograd import no_grad
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["LoRA", "apply", "load", "merge", "parameters", "remove", "save", "state_dict", "unmerge"]

PEFT = "base_model.model."  # before every name in PEFT's files


class LoRA(Module):
    """base_layer(x) + scale lora_B(lora_A(dropout(x))) : (..., in_features) -> (..., out_features).

    lora_A starts as a ``Linear`` does and lora_B at 0, so that nothing changes at first; both are float32, or
    float64 over such weights.  scale: alpha / r, or alpha / sqrt(r) where ``rslora``."""

    def __init__(
        self,
        base_layer: Module,
        r: int = 8,
        alpha: float = 16.0,
        dropout: float = 0.0,
        rslora: bool = False,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.base_layer, self.r, self.alpha, self.dropout, self.rslora = base_layer, r, alpha, dropout, rslora
        base: Any = base_layer
        self.in_features, self.out_features = base.in_features, base.out_features
        self.scale, self.merged, self.generator = alpha / (math.sqrt(r) if rslora else r), False, generator
        weight = next(iter([*base.parameters(), *base.buffers()]), None)
        dtype = _core.float64 if weight is not None and weight.dtype is _core.float64 else _core.float32
        device = None if weight is None else weight.device
        with init.without_values():
            self.lora_A = Linear(self.in_features, r, bias=False, device=device, dtype=dtype)
            self.lora_B = Linear(r, self.out_features, bias=False, device=device, dtype=dtype)
        self.lora_A.weight = Parameter(_core.empty((r, self.in_features), device=device, dtype=dtype))
        self.lora_B.weight = Parameter(_core.zeros((self.out_features, r), device=device, dtype=dtype))
        bound = 1 / math.sqrt(self.in_features)
        init.uniform_(self.lora_A.weight, -bound, bound, generator)

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = self.base_layer(input)
        if self.merged:
            return y
        x = input
        if self.training and self.dropout > 0:
            x = _core._dropout(x, self.dropout, self.generator)
        low: Tensor = self.lora_B(self.lora_A(x.to(self.lora_A.weight.dtype)) * self.scale)
        return y + low.to(y.dtype)

    def delta(self) -> Tensor:
        """What the adapter adds to the weight : (out_features, in_features)"""
        return (self.lora_B.weight @ self.lora_A.weight) * self.scale

    @property
    def weight(self) -> Tensor:
        """The weight with the adapter, for code that does not call the layer."""
        w: Tensor = self.base_layer.weight
        return w if self.merged else w + self.delta().to(w.dtype)

    @property
    def bias(self) -> Tensor | None:
        """The base's."""
        return self.base_layer.bias  # type: ignore[no-any-return]

    def _add(self, op: str, name: str, sign: int) -> None:
        w = dict(self.base_layer.named_parameters(recurse=False)).get("weight")  # a quantized layer computes its own
        if w is None or not w.is_floating_point():
            raise ValueError(f"[lora.{op}] '{name}' has no weight of floats: merge into the model as it was")
        if self.merged == (sign < 0):
            with no_grad():
                change = self.delta()
                w.copy_(w.to(change.dtype) + sign * change)
            self.merged = sign > 0

    def extra_repr(self) -> str:
        return f"r={self.r}, alpha={self.alpha:g}, dropout={self.dropout:g}, merged={self.merged}"


# ---- adapters of a model ----
def _adapters(model: Module) -> dict[str, LoRA]:
    return {name: module for name, module in model.named_modules() if isinstance(module, LoRA)}


def _present(op: str, model: Module) -> dict[str, LoRA]:
    found = _adapters(model)
    if not found:
        raise ValueError(f"[lora.{op}] the model has no adapter")
    return found


def _layers(model: Module) -> dict[str, Module]:
    """The modules that may have an adapter."""
    return {
        name: module
        for name, module in model.named_modules()
        if name and isinstance(getattr(module, "in_features", None), int) and hasattr(module, "out_features")
    }


def _chosen(op: str, model: Module, targets: str | Sequence[str] | None) -> tuple[dict[str, Module], list[str]]:
    """Layers whose names end in one of the targets from a dot on, as PEFT has it, and the list of targets."""
    layers = _layers(model)
    inner = [name for name in layers if name != "lm_head"]
    if targets is None:
        targets = getattr(model, "lora_targets", "all-linear")
    if targets == "all-linear":
        targets = list(dict.fromkeys(name.rpartition(".")[2] for name in inner))
        layers = {name: layers[name] for name in inner}
    listed = [targets] if isinstance(targets, str) else [*targets]
    unknown = [t for t in listed if not any(name == t or name.endswith(f".{t}") for name in layers)]
    if unknown or not listed:
        known = list(dict.fromkeys(name.rpartition(".")[2] for name in layers))
        raise ValueError(f"[lora.{op}] the model has no linear layers named {unknown or listed}: there are {known}")
    ends = tuple(f".{t}" for t in listed)
    return {name: m for name, m in layers.items() if f".{name}".endswith(ends)}, listed


def _attach(op: str, model: Module, names: dict[str, Module], options: dict[str, Any], targets: Any) -> None:
    if _adapters(model):
        raise ValueError(f"[lora.{op}] the model has an adapter: merge and remove it first")
    model.requires_grad_(False)
    for name, layer in names.items():
        model.set_submodule(name, LoRA(layer, **options).train(model.training))
    model.__dict__["_lora_targets"] = targets


def apply(
    model: Module,
    r: int = 8,
    alpha: float = 16.0,
    targets: str | Sequence[str] | None = None,
    dropout: float = 0.0,
    *,
    rslora: bool = False,
    generator: Generator | None = None,
) -> list[str]:
    """Puts an adapter of rank ``r`` beside each target, and freezes all that was there; returns the targets' names.

    targets: ends of names, such as ["c_attn", "mlp.c_proj"]; "all-linear": all but the head; None: c_attn of GPT,
    q_proj and v_proj of Llama, all-linear of another model.  dropout: of the adapters' inputs in training.
    generator: draws the adapters and the dropout; None: the default one.
    ValueError: no such layers, a rank below 1, a dropout outside of [0, 1), or the model has an adapter."""
    if not isinstance(r, int) or isinstance(r, bool) or r < 1:
        raise ValueError(f"[lora.apply] the rank must be at least 1, not {r!r}")
    if not 0 < alpha < math.inf:
        raise ValueError(f"[lora.apply] alpha must be more than 0, not {alpha}")
    if not 0 <= dropout < 1:
        raise ValueError(f"[lora.apply] dropout must be in [0, 1), not {dropout}")
    layers, listed = _chosen("apply", model, targets)
    options = {"r": r, "alpha": alpha, "dropout": dropout, "rslora": rslora, "generator": generator}
    _attach("apply", model, layers, options, listed)
    return [*layers]


def parameters(model: Module) -> list[Parameter]:
    """What trains: the weights of all adapters."""
    return [p for a in _present("parameters", model).values() for p in (a.lora_A.weight, a.lora_B.weight)]


def state_dict(model: Module) -> dict[str, Tensor]:
    """The weights of all adapters, by name, "h.0.attn.c_attn.lora_A.weight"."""
    return {
        f"{name}.lora_{part}.weight": getattr(a, f"lora_{part}").weight.detach()
        for name, a in _present("state_dict", model).items()
        for part in "AB"
    }


def merge(model: Module) -> None:
    """Adds each adapter to the weight beside it; the model is then as fast as before ``apply``.  ValueError: no
    adapter, or a quantized base."""
    for name, a in _present("merge", model).items():
        a._add("merge", name, 1)


def unmerge(model: Module) -> None:
    """Takes the adapters out of the weights again, which are then what they were to their last bits' rounding."""
    for name, a in _present("unmerge", model).items():
        a._add("unmerge", name, -1)


def remove(model: Module) -> None:
    """Takes the adapters away; merged ones stay in the weights.  All parameters of floats train again."""
    for name, a in _present("remove", model).items():
        model.set_submodule(name, a.base_layer)
    model.__dict__.pop("_lora_targets", None)
    for p in model.parameters():
        if p.is_floating_point():
            p.requires_grad_(True)


# ---- files ----
def save(model: Module, folder: str | os.PathLike[str], base: str | None = None) -> None:
    """Writes the adapters as a folder of PEFT: adapter_config.json and adapter_model.safetensors.  base: what to
    write as base_model_name_or_path.  OSError: it cannot be written.  ValueError: no adapter."""
    found = _present("save", model)
    prefix, transposed = getattr(model, "prefix", ""), getattr(model, "transposed", ())
    weights = {f"{PEFT}{prefix}{name}": tensor.contiguous() for name, tensor in state_dict(model).items()}
    first = next(iter(found.values()))
    targets = json.dumps(model.__dict__.get("_lora_targets", [*found]))
    turned = bool(transposed) and any(f"{name}.weight".endswith(transposed) for name in found)
    causal = bool(prefix) and not getattr(model, "encodes", False)
    numbers = first.r, first.alpha, first.dropout, first.rslora
    _core._save_adapter(folder, weights, *numbers, targets, base or "", turned, causal)


def load(model: Module, folder: str | os.PathLike[str], *, generator: Generator | None = None) -> list[str]:
    """Puts the adapters of a folder of PEFT, or of llama.cpp's GGUF file, beside the model's layers, and freezes the
    rest; returns their names.  generator: draws the dropout.  OSError: a file is missing or damaged.  ValueError: an
    adapter of a kind that is not supported, or the model has one.  RuntimeError: weights that do not fit, all in one
    message."""
    os.stat(folder)  # FileNotFoundError
    said: Any = getattr(model, "config", None)
    prefix = getattr(model, "prefix", "")
    weights, r, alpha, dropout, rslora, targets = _core._load_adapter(folder, prefix, getattr(said, "head_dim", 1))
    start, layers, problems = PEFT + prefix, _layers(model), list[str]()
    mine = {name.removeprefix(start): tensor for name, tensor in weights.items() if name.startswith(start)}
    names = {name: layer for name, layer in layers.items() if any(f"{name}.lora_{x}.weight" in mine for x in "AB")}
    wanted: dict[str, tuple[int, int]] = {}
    for name, layer in names.items():
        sizes: Any = layer
        wanted[f"{name}.lora_A.weight"] = r, sizes.in_features
        wanted[f"{name}.lora_B.weight"] = sizes.out_features, r
    for name, shape in wanted.items():
        if name not in mine:
            problems.append(f"'{name}' is missing, {shape}")
        elif tuple(mine[name].shape) != shape:
            problems.append(f"'{name}' is {tuple(mine[name].shape)}, not {shape}")
    strange = [name for name in weights if not name.startswith(start) or name.removeprefix(start) not in wanted]
    problems += [f"'{name}' is not wanted" for name in strange]
    if problems or not names:
        listed = "\n\t".join(problems[:40]) or "it has no weights"
        raise RuntimeError(f"[lora.load] the adapter in '{os.fspath(folder)}' does not fit the model:\n\t{listed}")
    options = {"r": r, "alpha": alpha, "dropout": dropout, "rslora": rslora, "generator": generator}
    _attach("load", model, names, options, json.loads(targets))
    with no_grad():
        for name, adapter in _adapters(model).items():
            adapter.lora_A.weight.copy_(mine[f"{name}.lora_A.weight"])
            adapter.lora_B.weight.copy_(mine[f"{name}.lora_B.weight"])
    return [*names]
