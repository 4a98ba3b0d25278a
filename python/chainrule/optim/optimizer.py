"""``Optimizer``: the base class of all optimizers.  A step is a fused update of the C library
(docs/ops.md) over all its parameters at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

from .. import _core
from .._core import Tensor
from ..autograd import enable_grad, no_grad

Params = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]
Group = dict[str, Any]  # "params", a list of Tensor, and the options of these
State = dict[str, Any]  # of one parameter: moments, and numbers as "step"
NUMBERS = ("step", "mu_product", "eta", "mu")


def moment(p: Tensor, offload: bool = False) -> Tensor:
    """Zeros for a running mean of p's gradients; float32 for half-precision parameters, because
    half-precision means stop changing. offload: in the host's memory."""
    dtype = p.dtype if p.dtype is _core.float64 else _core.float32
    return _core._zeros_offloaded(p, dtype) if offload else _core.zeros_like(p, dtype=dtype)


def master(p: Tensor, offload: bool = False) -> State:
    """The entry of p's state that steps change in its place, if p is in half precision."""
    return {"master": moment(p, offload).copy_(p.detach())} if p.dtype in (_core.float16, _core.bfloat16) else {}


class Optimizer:
    """Changes parameters by their gradients: ``step()``.

    params: tensors, or (name, tensor) pairs, or dicts {"params": tensors, "lr": 0.1, ...}, groups
    with options of their own. A subclass names its update and its state with ``_fresh``,
    ``_advance`` and ``_rule``; src/ops/ops.def has the formulas. ValueError: no parameters, one
    twice, or an option out of range."""

    param_groups: list[Group]
    state: defaultdict[Tensor, State]
    _scales = False  # does the update multiply gradients by the option scale?
    _scale = 1.0  # of the gradients in the step that runs
    _counts = False  # has the state of a parameter a "step"?
    _offload = False  # are moments in the host's memory?
    _masters = False  # do steps change float32 copies of half-precision parameters?
    # limits of the options: (name, least, below); all are finite
    _ranges: tuple[tuple[str, float, float], ...] = (("lr", 0, math.inf), ("weight_decay", 0, math.inf))

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group of parameters; options that it does not name are the optimizer's."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = {**self.defaults, **param_group}
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets"
                " will change between runs."
            )
        members: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        if members and all(isinstance(m, tuple) for m in members):
            group["param_names"], members = [m[0] for m in members], [m[1] for m in members]
        for p in members:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if not p.is_floating_point():
                raise ValueError(
                    f"optimizer can only optimize floating point Tensors, but one of the params is {p.dtype}"
                )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if len({id(p) for p in members}) < len(members):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        if any(id(p) in known for p in members):
            raise ValueError("some parameters appear in more than one parameter group")
        self._check(group)
        group["params"] = members
        self.param_groups.append(group)

    def _check(self, group: Group) -> None:
        """Are the options of a group in range?  lr may be a tensor of one element; it is kept as a number."""
        if group.get("differentiable"):
            raise ValueError(
                "differentiable=True is not supported: a step changes parameters in place and is not recorded"
            )
        if isinstance(group["lr"], Tensor):
            group["lr"] = group["lr"].item()
        options = {**group, **{f"betas[{i}]": b for i, b in enumerate(group.get("betas", ()))}}
        for name, least, below in self._ranges:
            value = options.get(name, least)
            if not (least <= value < below and math.isfinite(value)):
                raise ValueError(
                    f"Invalid {name}: {value}, expected {least} <= {name}{'' if below == math.inf else f' < {below}'},"
                    " finite"
                )

    # ---- stepping ----

    def _fresh(self, group: Group, p: Tensor) -> State | None:
        """The state of p before its first step: numbers, moments of p's shape, None for a moment
        that the first step makes.  None: it is like no other's."""
        raise NotImplementedError

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        """Counts a step of p.  Parameters for which the result is equal take the step together."""
        raise NotImplementedError

    def _rule(self, group: Group, key: Any) -> tuple[str, tuple[str, ...], dict[str, float]]:
        """The update for what ``_advance`` gave: its name, the entries of the state that it reads
        and writes, and options in addition to the group's."""
        raise NotImplementedError

    def _kept(self, group: Group) -> tuple[str, ...] | None:
        """The entries of a parameter's state that a checkpoint keeps; None: a checkpoint has no place for them."""
        return None

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient.  closure: called first, with gradients
        recorded, to compute them; its result is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step(group)
        return loss

    @no_grad
    def step_clipped(self, max_norm: float) -> float:
        """``nn.utils.clip_grad_norm_`` over all its parameters and ``step`` in one; returns the
        gradients' norm.  Optimizers whose update has the option scale multiply gradients as they
        read them, which saves a pass over memory, and leave them as they are."""
        if not max_norm >= 0:
            raise ValueError(f"max_norm must be at least 0, not {max_norm}")
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = _core._total_norm(grads)
        scale = max_norm / (norm + 1e-6)
        if not scale >= 1:  # also where it is NaN
            if self._scales:
                self._scale = scale
            else:
                _core._update("scale", grads, grads, {"scale": scale})
        try:
            self.step()
        finally:
            self._scale = 1.0
        return norm

    def _step(self, group: Group) -> None:
        together: dict[Hashable, list[tuple[Tensor, Tensor, State]]] = {}
        down = group.get("maximize", False)
        recording = _core._recording()
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self.state[p]
                if not state:
                    state.update(self._fresh(group, p) or {})
                    if state and recording:
                        self._refuse("the first step makes moments, which a replay would make again: run a step before")
                together.setdefault(self._key(group, p, state), []).append((p, -grad if down else grad, state))
        for key, members in together.items():
            name, moments, options = self._rule_of(group, key)
            results: list[Tensor] = []
            inputs: list[Tensor] = []
            for p, grad, state in members:
                kept = [state[m] for m in moments]
                changed = state.get("master", p)
                results += [changed, *kept, *([] if changed is p else [p])]
                inputs += [changed, grad, *kept]
            options["scale"] = self._scale
            _core._update(name, results, inputs, options, group)
            if recording:
                self._note(members, moments)
                counted = [(p, state) for p, _, state in members if state] or [members[0][::2]]
                _core._record_replay(partial(self._replay, group, counted, [], name, _core._record_params()))

    def _note(self, members: list[tuple[Tensor, Tensor, State]], moments: tuple[str, ...]) -> None:
        """A recorded step reads these moments: a replay must find them where they are."""
        from .._guards import note

        for p, _, state in members:
            note(self.state, p)
            for m in (*moments, "master"):
                note(state, m)

    def _key(self, group: Group, p: Tensor, state: State) -> Hashable:
        """Counts a step of p; and does the update also write p, as the copy of a master?"""
        return self._advance(group, p, state), "master" in state

    def _rule_of(self, group: Group, key: Any) -> tuple[str, tuple[str, ...], dict[str, float]]:
        name, moments, options = self._rule(group, key[0])
        return name + "_copy" * key[1], moments, options

    def _update(
        self,
        name: str,
        results: list[Tensor],
        inputs: list[Tensor],
        options: Callable[[], dict[str, float]],
        group: Group,
    ) -> None:
        """Runs an update with its options of the moment and those of the group; a replay asks for them again."""
        _core._update(name, results, inputs, {**options(), "scale": self._scale}, group)
        if _core._recording():
            number = _core._record_params()

            def now(plan: Any) -> None:
                if plan is not None:
                    _core._plan_set_params(plan, number, name, {**options(), "scale": self._scale}, group)

            _core._record_replay(now)

    def _refuse(self, why: str) -> None:
        """The step goes on, and has no plan."""
        _core._record_refuse("step", f"a step of {type(self).__name__} cannot be recorded: {why}")

    def _replay(
        self,
        group: Group,
        members: list[tuple[Tensor, State]],
        before: list[State],
        name: str,
        number: int,
        plan: object,
    ) -> bool:
        """Before a recorded update runs again: counts its step, and gives it the options of the moment.  False: the
        update is another one by now, or its parameters step apart.  members: those with a state, or one; before: their
        states before the step, whose numbers come back where plan is None, after a run that failed."""
        if plan is not None:
            if members[0][1]:
                before[:] = [state.copy() for _, state in members]
            keys = {self._key(group, p, state) for p, state in members}
            rule, _, options = self._rule_of(group, keys.pop())
            if not keys and rule == name:
                options["scale"] = self._scale
                _core._plan_set_params(plan, number, name, options, group)
                return True
        for (_, state), old in zip(members, before, strict=False):
            state.update(old)
        return False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Frees all gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = _core.zeros_like(p.grad)

    # ---- state dicts: PyTorch's layout ----

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number of a parameter: its moments}, "param_groups": [options, with "params"
        as numbers]}; "step" is a tensor, as PyTorch's."""
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        kept = {numbers[id(p)]: s for p, s in self.state.items() if s}
        state = {i: {k: _core.tensor(float(v)) if k in NUMBERS else v for k, v in s.items()} for i, s in kept.items()}
        return {"state": state, "param_groups": groups}

    @no_grad
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over options and moments, PyTorch's too; these are copied to the dtypes and devices
        of the optimizer's own. ValueError: other groups, groups of other sizes, or entries that are
        missing, not wanted, of another shape or no tensors, all named; nothing has changed."""
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, here"
                f" {len(self.param_groups)}"
            )
        for i, (theirs, mine) in enumerate(zip(saved, self.param_groups, strict=True)):
            if len(theirs["params"]) != len(mine["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group:"
                    f" group {i} has {len(theirs['params'])} parameters, here {len(mine['params'])}"
                )
        groups = [
            {**self.defaults, **theirs, "params": mine["params"]}
            for theirs, mine in zip(saved, self.param_groups, strict=True)
        ]
        for group in groups:
            self._check(group)
        places = {
            n: (group, p)
            for theirs, group in zip(saved, groups, strict=True)
            for n, p in zip(theirs["params"], group["params"], strict=True)
        }
        given = {n: entries for n, entries in state_dict["state"].items() if entries != {}}
        wrong = [f"{n} is no parameter" for n in given if n not in places]
        wrong += [
            f"{misfit} of parameter {n}"
            for n, entries in given.items()
            if n in places
            for misfit in self._misfits(*places[n], entries)
        ]
        if wrong:
            raise ValueError("loaded state dict doesn't fit the optimizer: " + "; ".join(wrong))
        loaded: defaultdict[Tensor, State] = defaultdict(dict)
        for n, entries in given.items():
            p = places[n][1]
            loaded[p] = {name: self._loaded(name, value, p) for name, value in entries.items()}
        self.state, self.param_groups = loaded, groups

    def _misfits(self, group: Group, p: Tensor, entries: Any) -> Iterator[str]:
        """Why a state cannot become p's."""
        if not isinstance(entries, Mapping):
            yield f"a {type(entries).__name__}, not a dict,"
            return
        wanted = self._fresh(group, p)
        if wanted is None:
            return
        yield from (f"missing '{name}'" for name in wanted if name not in entries)
        yield from (f"unexpected '{name}'" for name in entries if name not in wanted)
        for name, fresh in wanted.items():
            value: Any = entries.get(name)
            if name not in entries or (value is None and fresh is None):
                continue
            if isinstance(fresh, int | float):
                if not isinstance(value, int | float) and getattr(value, "shape", None) not in ((), (1,)):
                    yield f"'{name}', which is no number,"
            elif not hasattr(value, "__array__"):
                yield f"'{name}', a {type(value).__name__}, not a tensor,"
            elif tuple(value.shape) != tuple(shape := (p if fresh is None else fresh).shape):
                yield f"'{name}' with the shape {tuple(value.shape)} in place of {tuple(shape)}"

    def _loaded(self, name: str, value: Any, p: Tensor) -> Any:
        """One entry of a parameter's state: numbers as numbers, moments as tensors of our own."""
        if name in NUMBERS:
            return (int if name == "step" else float)(value)
        if value is None or not hasattr(value, "__array__"):
            return deepcopy(value)
        return moment(p, self._offload).copy_(
            (value if isinstance(value, Tensor) else _core.asarray(value)).to(p.device)
        )

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}", *(f"    {key}: {group[key]}" for key in sorted(group) if key != "params")]
        return "\n".join([*lines, ")"])
