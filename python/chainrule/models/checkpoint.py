"""Checkpoints of training: a folder with weights, the optimizer's moments, step, random numbers and
place in the data, as ``chainrule train`` keeps it in RUN/checkpoint.  Python and the program
continue from each other's checkpoints, bit for bit. Options such as learning rates are not in it:
give them to the optimizer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import _core
from .._core import Generator, Tensor
from ..data import TokenFile
from ..nn import Module
from ..optim import Optimizer
from .decoder import consistent
from .gpt import GPT

Optimizers = Optimizer | Sequence[Optimizer] | None


class Checkpoint(NamedTuple):
    """The step and the metadata of the checkpoint that ``load_checkpoint`` read."""

    step: int
    metadata: dict[str, str]


class Slot(NamedTuple):
    """A group of parameters by name, and the entries of the state of each that the file has as name.m and name.v; the
    file has masters as name.w."""

    optimizer: Optimizer
    parameters: dict[str, Tensor]
    moments: tuple[str, ...]

    def entries(self, name: str) -> dict[str, str]:
        """The entries of the state of one parameter, and their names in the file."""
        return {**{m: f"{name}.{letter}" for letter, m in zip("mv", self.moments, strict=False)}, "master": f"{name}.w"}


def _slots(op: str, model: Module, optimizer: Optimizers) -> list[Slot] | None:
    if optimizer is None:
        return None
    names = {id(p): name for name, p in model.named_parameters()}
    slots = []
    for one in [optimizer] if isinstance(optimizer, Optimizer) else optimizer:
        for group in one.param_groups:
            strangers = [tuple(p.shape) for p in group["params"] if id(p) not in names]
            if strangers:
                raise ValueError(
                    f"[{op}] the optimizer has parameters that are not the model's, of the shapes {strangers}"
                )
            kept = one._kept(group)
            if kept is None:
                raise ValueError(
                    f"[{op}] a checkpoint cannot hold the state of"
                    f" {type(one).__name__}{' with amsgrad' * bool(group.get('amsgrad'))}"
                )
            slots.append(Slot(one, {names[id(p)]: p for p in group["params"]}, kept))
    return slots


def _generator(model: Module) -> Generator:
    return getattr(model, "generator", None) or _core.default_generator


def _groups(slots: list[Slot] | None) -> list[tuple[int, dict[str, Tensor], bool]] | None:
    return None if slots is None else [(len(s.moments), s.parameters, s.optimizer._masters) for s in slots]


def _kept(slots: list[Slot] | None) -> Iterator[tuple[Slot, str, dict[str, Any]]]:
    """Parameters that have taken a step, by name, and their state."""
    for slot in slots or ():
        for name, p in slot.parameters.items():
            state = slot.optimizer.state.get(p, {})
            if slot.moments and state.get(slot.moments[0]) is not None:
                yield slot, name, state


def save_checkpoint(
    folder: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizers = None,
    *,
    loader: TokenFile | None = None,
    step: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a checkpoint in place of the one that is there: an interrupted save leaves that, or
    the new one. Random numbers are those of the model's generator, or of the default one.
    metadata: more entries to keep, and those that ``load_checkpoint`` returned, by which
    ``chainrule train`` goes on.  OSError: it cannot be written.  ValueError: an optimizer that has
    no place there."""
    slots = _slots("save_checkpoint", model, optimizer)
    kept = [*_kept(slots)]
    steps = max([state["step"] for _, _, state in kept if "step" in state], default=step)
    moments = {
        stored: state[entry]
        for slot, name, state in kept
        for entry, stored in slot.entries(name).items()
        if entry in state
    }
    moments |= {
        f"{name}.t": _core.tensor([state["step"]]) for _, name, state in kept if state.get("step", steps) != steps
    }
    said = (
        {"model": "gpt2", **{name: str(value) for name, value in model.config._asdict().items()}}
        if isinstance(model, GPT)
        else {}
    )
    text = json.dumps({**said, **(metadata or {})})
    loader_state = None if loader is None else loader._loader
    _core._training_save(
        os.fspath(folder),
        model.state_dict(),
        _groups(slots),
        loader_state,
        moments,
        steps,
        step,
        text,
        _generator(model),
    )


def load_checkpoint(
    folder: str | os.PathLike[str], model: Module, optimizer: Optimizers = None, *, loader: TokenFile | None = None
) -> Checkpoint:
    """Puts a checkpoint back into a model, its optimizers and its loader, all or nothing, and into
    the generator that ``save_checkpoint`` says; returns step and metadata, all of one save even if
    another process saves at the same time.  OSError: there is no checkpoint. RuntimeError: weights
    or moments that are missing, not wanted or of another shape, or a loader of other data."""
    slots = _slots("load_checkpoint", model, optimizer)
    folder, loader_state = os.fspath(folder), None if loader is None else loader._loader
    weights, groups = model.state_dict(keep_vars=True), _groups(slots)
    metadata, (step, steps, moments) = consistent(
        lambda: _core._training_load(folder, weights, groups, loader_state, _generator(model)), folder
    )
    for slot in slots or ():
        for name, p in slot.parameters.items():
            state = {entry: moments[stored] for entry, stored in slot.entries(name).items() if stored in moments}
            if state and slot.optimizer._counts:
                state["step"] = int(moments.get(f"{name}.t", steps))
            slot.optimizer.state[p] = state
    return Checkpoint(step, metadata)
