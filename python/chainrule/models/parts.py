"""The modules of a ``CausalLM``: they hold what the C engine computes with.  A layer that is as it was made lends its
weights; one with hooks, of another class, or with another forward is called in place of the engine's rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core, nn
from .._core import Tensor
from .._noted import Fixed
from ..nn import Parameter
from ..nn.init import without_values
from ..nn.quantized import columns_of

__all__ = ["Engine", "Group", "Leaf", "Norm", "Part", "assemble"]

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
GROUP, LINEAR, ROWS, TABLE, LAYER_NORM, RMS_NORM, NORM = range(7)  # cr_lm_part


class Engine(Fixed):
    """The C engine over some tensors; a copy of a model makes its own."""

    lm: Any = None
    names: list[str] = []  # of its tensors, in its order
    given: Any = None  # names and dtypes of the tensors that it was made of
    entries: Any = None  # of the modules, when all were as they were made; None: somebody's code is called

    def __deepcopy__(self, _: Any) -> Engine:
        return Engine()

    def __reduce__(self) -> tuple[type[Engine], tuple[()]]:
        return Engine, ()


class Part(nn.Module):
    """A layer, its attention or its MLP: the engine computes it while its model runs.  Others hold layers or weights.
    RuntimeError: a call outside of the model."""

    def __init__(self, engine: Engine, number: int) -> None:
        super().__init__()
        self._engine, self._number = engine, number

    def forward(self, hidden_states: Tensor) -> Tensor:
        if self._number < 0 or self._engine.lm is None:
            raise RuntimeError("[CausalLM] a part computes only inside of its model: call the model")
        return _core._lm_part(self._engine.lm, self._number, hidden_states)


class Norm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps) (1 + weight), Gemma's."""

    def forward(self, x: Tensor) -> Tensor:
        assert self.weight is not None
        return nn.functional.rms_norm(x, self.normalized_shape, self.weight + 1, self.eps)


CLASSES: dict[int, Any] = {
    LINEAR: nn.Linear,
    ROWS: nn.Embedding,
    TABLE: nn.Embedding,
    LAYER_NORM: nn.LayerNorm,
    RMS_NORM: nn.RMSNorm,
    NORM: Norm,
}
QUANTIZED: dict[int, type[nn.Module]] = {LINEAR: nn.QuantizedLinear, ROWS: nn.QuantizedEmbedding}
KNOWN = {"weight", "bias"}  # other names are of packed rows


def is_changed(module: Any) -> bool:
    """Has it hooks, or a forward of its own?"""
    return (module._hooked and module._has_hooks) or "forward" in module.__dict__


def entries_of(module: Any, *names: str) -> list[tuple[Any, ...]]:
    """Of a module that has neither hooks nor a forward of its own, for ``_core._entries_new``."""
    own = module.__dict__
    had: list[tuple[Any, ...]] = []
    if "_hooked" in own:
        had = [(own[hooks], None, 0) if hooks in own else (own, hooks, ...) for hooks in HOOKS]
    return [*((own, name, own.get(name, ...)) for name in ("forward", "_hooked", *names)), *had]


class Leaf(Fixed):
    """The place of a layer with weights."""

    def __init__(self, holder: nn.Module, attribute: str, name: str, number: int, kind: int) -> None:
        self.holder, self.attribute, self.name, self.number, self.kind = holder, attribute, name, number, kind
        self.eps, self.tied = 0.0, False
        self.shapes: dict[str, tuple[int, ...]] = {}  # of the weights as floats
        self.stand_ins: dict[str, Tensor] = {}

    def make(self, tensors: Mapping[str, Tensor], eps: float, head: int) -> nn.Module:
        """The layer over these tensors.  head: the size of a head."""
        bias = tensors.get("bias")
        weight: Any = tensors.get("weight")
        packed = next((name for name in tensors if name not in KNOWN), "")
        if packed:
            self.shapes = {"weight": (tensors[packed].size(0), columns_of(tensors[packed], packed))}
        else:
            self.shapes = {"weight": tuple(weight.shape)}
        if bias is not None:
            self.shapes["bias"] = tuple(bias.shape)
        self.eps = eps
        learned = Parameter(bias.detach()) if bias is not None else None
        if packed and self.kind == LINEAR:
            return nn.QuantizedLinear.of(tensors[packed], packed, learned, head)
        if packed:
            return nn.QuantizedEmbedding.of(tensors[packed], packed)
        sizes, made = self.shapes["weight"], CLASSES[self.kind]
        with without_values():
            if self.kind == LINEAR:
                layer: Any = nn.Linear(sizes[1], sizes[0], bias is not None)
            elif self.kind in (ROWS, TABLE):
                layer = nn.Embedding(sizes[0], sizes[1])
            elif self.kind == LAYER_NORM:
                layer = nn.LayerNorm(sizes[0], eps, bias=bias is not None)
            else:
                layer = made(sizes[0], eps)
        layer._store_as("weight", Parameter(weight.detach()))
        if learned is not None:
            layer._store_as("bias", learned)
        return layer  # type: ignore[no-any-return]

    def tensors(self, module: Any) -> dict[str, Tensor] | None:
        """The weights of a layer that the engine knows, by their last names; None: it is another one."""
        own = module.__dict__
        if type(module) is QUANTIZED.get(self.kind):
            found = {module._name: own.get(module._name), "bias": own.get("bias")}
            fits = (len(module.rows), columns_of(module.rows, module._name)) == self.shapes["weight"]
        elif type(module) is CLASSES[self.kind]:
            found = {"weight": own.get("weight"), "bias": own.get("bias")}
            weight = found["weight"]
            fits = weight is not None and tuple(weight.shape) == self.shapes["weight"]
            if self.kind in (LAYER_NORM, RMS_NORM, NORM):
                fits = fits and module.eps == self.eps
            elif self.kind != LINEAR:
                fits = fits and module.padding_idx is None and module.max_norm is None
        else:
            return None
        if not fits or (found["bias"] is not None) != ("bias" in self.shapes):
            return None
        return {name: t for name, t in found.items() if t is not None}

    def collect(self, like: Tensor, into: dict[str, Tensor], own: dict[int, Any]) -> None:
        """Adds the weights by their names, and the module where it is to be called.  RuntimeError: there is none, or
        it would have no effect."""
        module: Any = self.holder.__dict__.get(self.attribute)
        if not isinstance(module, nn.Module):
            raise RuntimeError(f"[CausalLM] '{self.name}' was removed")
        found = self.tensors(module)
        if found is None or is_changed(module):
            if self.kind == TABLE:
                raise RuntimeError(
                    f"[CausalLM] '{self.name}' was replaced or has hooks: positions are rows of its weight, so they"
                    " would have no effect"
                )
            own[self.number] = module
        if found is None:
            found = {name: self.stand_in(name, like) for name in self.shapes}
            if self.tied:
                weight = getattr(module, "weight", None)
                if not isinstance(weight, Tensor) or tuple(weight.shape) != self.shapes["weight"]:
                    raise RuntimeError(
                        f"[CausalLM] '{self.name}' was replaced, and the head is tied to it: it needs a weight"
                        f" {self.shapes['weight']}"
                    )
                found["weight"] = weight
        for last, tensor in found.items():
            into[f"{self.name}.{last}"] = tensor

    def entries(self) -> list[tuple[Any, ...]]:
        """What ``collect`` reads of a layer that is not called."""
        module: Any = self.holder.__dict__[self.attribute]
        read = [*module._kinds, *(name for name in ("eps", "padding_idx", "max_norm") if name in module.__dict__)]
        place = (self.holder.__dict__, self.attribute, module)
        return [place, (module, None, type(module)), *entries_of(module, *read)]

    def stand_in(self, last: str, like: Tensor) -> Tensor:
        """In place of a weight that the engine does not read."""
        known = self.stand_ins.get(last)
        if known is None or known.dtype is not like.dtype or known.device != like.device:
            known = like.new_zeros(1).expand(self.shapes[last])
            self.stand_ins[last] = known
        return known


class Group(Fixed):
    """The place of a module without weights of its own.  number: of a part; -1: nobody calls it."""

    def __init__(self, holder: nn.Module, attribute: str, name: str, number: int, made: nn.Module) -> None:
        self.holder, self.attribute, self.name, self.number, self.made = holder, attribute, name, number, made
        self.length = len(made._kinds) if isinstance(made, nn.ModuleList) else -1

    def collect(self, own: dict[int, Any]) -> None:
        """Notes the module where it is to be called.  RuntimeError: it is gone, or would have no effect."""
        module: Any = self.holder.__dict__.get(self.attribute)
        if module is self.made and not is_changed(module):
            if 0 <= self.length != len(module._kinds):
                raise RuntimeError(
                    f"[CausalLM] '{self.name}' has {len(module._kinds)} parts, the model {self.length} by config.json"
                )
        elif self.number >= 0 and isinstance(module, nn.Module):
            own[self.number] = module
        else:
            raise RuntimeError(
                f"[CausalLM] '{self.name}' was replaced or has hooks: the engine does not call it, so they would have"
                " no effect"
            )

    def entries(self) -> list[tuple[Any, ...]]:
        """What ``collect`` reads of a module that is not called."""
        length = [(self.made._kinds, None, self.length)] if self.length >= 0 else []
        return [(self.holder.__dict__, self.attribute, self.made), *length, *entries_of(self.made)]


def assemble(
    root: nn.Module,
    engine: Engine,
    weights: Mapping[str, Tensor],
    parts: Mapping[str, tuple[int, int]],
    eps: float,
    head: int,
) -> tuple[list[Group], list[Leaf], list[tuple[nn.Module, str, str]]]:
    """Makes the modules below ``root``; their places, and tensors that are no layer's: module, attribute, name."""
    made: dict[str, nn.Module] = {"": root}
    groups, leaves, raw = list[Group](), list[Leaf](), list[tuple[nn.Module, str, str]]()
    layers: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        path, _, last = name.rpartition(".")
        layers.setdefault(path, {})[last] = tensor

    def holder_of(path: str, child: str) -> nn.Module:
        names = path.split(".") if path else []
        for i, attribute in enumerate(names):
            above, at = ".".join(names[:i]), ".".join(names[: i + 1])
            if at not in made:
                number, below = parts.get(at, (-1, GROUP))[0], (names + [child])[i + 1]
                made[at] = nn.ModuleList() if below.isdigit() else Part(engine, number)
                made[above].add_module(attribute, made[at])
                groups.append(Group(made[above], attribute, at, number, made[at]))
        return made[path]

    for path, tensors in layers.items():
        number, kind = parts.get(path, (-1, GROUP))
        above, _, attribute = path.rpartition(".")
        if kind == GROUP:
            holder = holder_of(path, "")
            for last, tensor in tensors.items():
                holder.register_parameter(last, Parameter(tensor.detach()))
                raw.append((holder, last, f"{path}.{last}"))
            continue
        leaf = Leaf(holder_of(above, attribute), attribute, path, number, kind)
        leaf.holder.add_module(attribute, leaf.make(tensors, eps, head))
        leaves.append(leaf)
    for group in groups:
        if isinstance(group.made, nn.ModuleList):
            group.length = len(group.made._kinds)
    return groups, leaves, raw
