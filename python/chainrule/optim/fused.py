"""``Fused``: the base class of the library's own optimizers.  A step is a fused update of the C library
(docs/ops.md) over all parameters of a group at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import Any

from .. import _core
from .._core import Tensor
from .._noted import note
from ..autograd import enable_grad
from .optimizer import Group, Optimizer

State = dict[str, Any]  # of one parameter: moments, and numbers as "step"
NUMBERS = ("step", "mu_product", "eta", "mu")


def moment(p: Tensor, offload: bool = False) -> Tensor:
    """Zeros for a running mean of p's gradients; float32 for half-precision parameters, because
    half-precision means stop changing. offload: in the host's memory."""
    dtype = p.dtype if p.dtype is _core.float64 else _core.float32
    return _core._zeros_offloaded(p, dtype) if offload else _core.zeros_like(p, dtype=dtype)


def master(p: Tensor, offload: bool = False) -> State:
    """The entry of p's state that steps change in place, if p is in half precision."""
    return {"master": moment(p, offload).copy_(p.detach())} if p.dtype in (_core.float16, _core.bfloat16) else {}


class Fused(Optimizer):
    """An optimizer whose update and state are named with ``_fresh``, ``_advance`` and ``_rule``; src/ops/ops.def has
    the formulas.  A subclass with a ``step`` of its own has state of its own too.  ValueError: an option out of
    range."""

    _offload = False  # are moments in the host's memory?
    # limits of the options: (name, least, below); all are finite
    _ranges: tuple[tuple[str, float, float], ...] = (("lr", 0, math.inf), ("weight_decay", 0, math.inf))

    def _check(self, group: Group) -> None:
        """Are the parameters floats, and the options in range?  An lr that is a tensor is kept as a number."""
        if group.get("differentiable"):
            raise ValueError(
                "differentiable=True is not supported: a step changes parameters in place and is not recorded"
            )
        members = group["params"]
        if len({id(p) for p in members}) < len(members):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        for p in members:
            if not p.is_floating_point():
                raise ValueError(
                    f"optimizer can only optimize floating point Tensors, but one of the params is {p.dtype}"
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

    @Optimizer.profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step(group)
        return loss

    def _begin(self, group: Group, p: Tensor) -> State:
        state = self._fresh(group, p) or {}
        if state:
            self.state[p] = state
            if _core._recording():
                self._refuse("the first step makes moments, which a replay would make again: run a step before")
        return state

    def _step(self, group: Group) -> None:
        together: dict[Hashable, list[tuple[Tensor, Tensor, State]]] = {}
        down = group.get("maximize", False)
        recording = _core._recording()
        state_of, advance = self.state.get, self._advance
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = state_of(p) or self._begin(group, p)
                kind = advance(group, p, state), "master" in state  # a master: the update also writes p, as its copy
                together.setdefault(kind, []).append((p, -grad if down else grad, state))
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
        for p, _, state in members:
            names = [*moments, *(["master"] if "master" in state else [])]
            for name in names:
                note(state, name)
            if names:
                note(self.state, p)

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
        fits = False
        try:
            if plan is not None:
                if members[0][1]:
                    before[:] = [state.copy() for _, state in members]
                keys = {(self._advance(group, p, state), "master" in state) for p, state in members}
                rule, _, options = self._rule_of(group, keys.pop())
                if not keys and rule == name:
                    options["scale"] = self._scale
                    _core._plan_set_params(plan, number, name, options, group)
                    fits = True
        except Exception:  # the step itself raises it, or does not
            pass
        finally:  # also behind an interrupt
            if not fits:
                for (_, state), old in zip(members, before, strict=False):
                    state.update(old)
        return fits

    # ---- state dicts ----

    @property
    def _foreign(self) -> bool:
        """Is ``step`` that of a subclass which does not describe its state by ``_fresh``?"""
        for cls in type(self).__mro__:
            if "_fresh" in cls.__dict__:
                return False
            if "step" in cls.__dict__:
                return True
        return False

    def _saved(self, p: Any, entries: Any) -> Any:
        """ "step" is a tensor, as PyTorch's."""
        if self._foreign or not isinstance(p, Tensor):
            return entries
        return {k: _core.tensor(float(v)) if k in NUMBERS else v for k, v in entries.items()}

    def _loaded_group(self, theirs: Group, mine: Group) -> Group:
        group = {**self.defaults, **super()._loaded_group(theirs, mine)}
        self._check(group)
        return group

    def _check_state(self, entry_of: Mapping[Any, tuple[Group, Tensor]], given: Mapping[Any, Any]) -> None:
        """ValueError: entries that are missing, of another update, of another shape or no tensors, all named."""
        if self._foreign:
            return
        wrong = [f"{n} is not a parameter" for n in given if isinstance(n, int) and n not in entry_of]
        wrong += [
            f"{misfit} of parameter {n}"
            for n, entries in given.items()
            if n in entry_of and entries != {}
            for misfit in self._misfits(*entry_of[n], entries)
        ]
        if wrong:
            raise ValueError("loaded state dict doesn't fit the optimizer: " + "; ".join(wrong))

    def _misfits(self, group: Group, p: Tensor, entries: Any) -> Iterator[str]:
        """Why a state cannot become p's.  Entries of other names are a user's, unless the update would read them or
        they replace those that are missing."""
        if not isinstance(entries, Mapping):
            yield f"a {type(entries).__name__}, not a dict,"
            return
        wanted = self._fresh(group, p)
        if wanted is None:
            return
        missing = [name for name in wanted if name not in entries]
        yield from (f"missing '{name}'" for name in missing)
        yield from (f"unexpected '{name}'" for name in entries if name not in wanted and (missing or name == "master"))
        for name, fresh in wanted.items():
            value: Any = entries.get(name)
            if name not in entries or (value is None and fresh is None):
                continue
            if isinstance(fresh, int | float):
                if not isinstance(value, int | float) and getattr(value, "shape", None) not in ((), (1,)):
                    yield f"'{name}', which is not a number,"
            elif not hasattr(value, "__array__"):
                yield f"'{name}', a {type(value).__name__}, not a tensor,"
            elif tuple(value.shape) != tuple(shape := (p if fresh is None else fresh).shape):
                yield f"'{name}' with the shape {tuple(value.shape)} in place of {tuple(shape)}"

    def _loaded_state(self, group: Group, p: Tensor, entries: Any) -> Any:
        if self._foreign:
            return super()._loaded_state(group, p, entries)
        known = self._fresh(group, p)
        own = {name: value for name, value in entries.items() if known is None or name in known}
        return {
            **super()._loaded_state(group, p, {k: v for k, v in entries.items() if k not in own}),
            **{name: self._loaded(name, value, p) for name, value in own.items()},
        }

    def _loaded(self, name: str, value: Any, p: Tensor) -> Any:
        """One entry of the update's: numbers as numbers, moments as tensors of our own."""
        if name in NUMBERS:
            return (int if name == "step" else float)(value)
        if value is None:
            return None
        return moment(p, self._offload).copy_(
            (value if isinstance(value, Tensor) else _core.asarray(value)).to(p.device)
        )
