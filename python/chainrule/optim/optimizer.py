"""``Optimizer``: the base class of all optimizers, and what a subclass of a user's relies on: groups of
parameters, state of any kind, hooks and state dicts.  The library's own are ``fused.Fused``."""

from __future__ import annotations

import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy, deepcopy
from functools import wraps
from typing import Any, NamedTuple

from .. import _core
from .._core import Tensor
from ..autograd import no_grad
from ..nn.module import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Params = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]
ParamsT = Params
Group = dict[str, Any]  # "params", a list of Tensor, and the options of these
Hooks = dict[RemovableHandle, Callable[..., Any]]


class _Required:
    """The default of an option that each group must have."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class _Hooks(NamedTuple):
    """Hooks of one optimizer; those of steps also of all."""

    step_pre: Hooks
    step_post: Hooks
    save_pre: Hooks
    save_post: Hooks
    load_pre: Hooks
    load_post: Hooks

    @staticmethod
    def add(hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        handle = RemovableHandle(hooks)
        others = list(hooks.items()) if prepend else []
        if prepend:
            hooks.clear()
        hooks[handle] = hook
        hooks.update(others)
        return handle


_GLOBAL = _Hooks({}, {}, {}, {}, {}, {})


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Optimizer.register_step_pre_hook`` of all optimizers."""
    return _Hooks.add(_GLOBAL.step_pre, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Optimizer.register_step_post_hook`` of all optimizers."""
    return _Hooks.add(_GLOBAL.step_post, hook)


class Optimizer:
    """Changes parameters by their gradients: ``step()``, which a subclass defines.

    params: tensors, or (name, tensor) pairs, or dicts {"params": tensors, "lr": 0.1, ...}, groups
    with options of their own; defaults: the options that a group does not name. ``state[p]`` is a
    dict of a parameter's state, of any names and types; ``state_dict`` and ``load_state_dict`` keep it.
    ValueError: no parameters, or one twice."""

    param_groups: list[Group]
    state: defaultdict[Any, Any]
    _scales = False  # does the update multiply gradients by the option scale?
    _scale = 1.0  # of the gradients in the step that runs
    _counts = False  # has the state of a parameter a "step"?
    _masters = False  # do steps change float32 copies of half-precision parameters?
    _stepping = False  # a step runs: one that it calls, of its base class, has no hooks

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        self._patch_step_function()
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        """All but hooks, for copies and pickles."""
        return {name: value for name, value in self.__dict__.items() if name != "_own_hooks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes attributes over: those of a copy or a pickle; the state and the groups of ``load_state_dict``."""
        self.__dict__.update(state)
        self._patch_step_function()
        self.__dict__.setdefault("defaults", {}).setdefault("differentiable", False)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group of parameters, the dict itself; options that it does not name are the optimizer's."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets"
                " will change between runs. Please use a list instead."
            )
        given: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        names = [m[0] for m in given if isinstance(m, tuple)]
        members = [m[1] if isinstance(m, tuple) else m for m in given]
        if names and len(names) < len(members):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        for p in members:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not (p.is_leaf or getattr(p, "retains_grad", False) or self.defaults.get("differentiable")):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
        named = "param_names" in param_group or bool(names)
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group"
                    f" {'with' if named else 'without'} names to the optimizer"
                )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in known for p in members):
            raise ValueError("some parameters appear in more than one parameter group")
        param_group["params"] = members
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            param_group.setdefault(name, default)
        self._check(param_group)
        self.param_groups.append(param_group)

    def _check(self, group: Group) -> None:
        """Warns of a parameter that is there twice; a subclass raises for options that its update does not take."""
        if len({id(p) for p in group["params"]}) < len(group["params"]):
            warnings.warn("optimizer contains a parameter group with duplicate parameters", stacklevel=4)

    def _kept(self, group: Group) -> tuple[str, ...] | None:
        """The entries of a parameter's state that a checkpoint keeps; None: a checkpoint cannot hold them."""
        return None

    # ---- stepping ----

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient.  closure: called first, with gradients
        recorded, to compute them; its result is returned."""
        raise NotImplementedError

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
                _core._scale_grads(grads, scale)
        try:
            self.step()
        finally:
            self._scale = 1.0
        return norm

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Frees all gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif (grad := p.grad) is not None:
                    p.grad = (grad.detach() if grad.requires_grad else grad).zero_()

    # ---- hooks ----

    @property
    def _hooks(self) -> _Hooks:
        """The hooks of this optimizer, for a class too whose ``__init__`` is not that of its base."""
        made: _Hooks | None = self.__dict__.get("_own_hooks")
        if made is None:
            made = self.__dict__["_own_hooks"] = _Hooks({}, {}, {}, {}, {}, {})
        return made

    def _patch_step_function(self) -> None:
        """Lets ``step`` of this class run hooks; an older name of it is ``_hook_for_profile``."""
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)

    _hook_for_profile = _patch_step_function

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """``func``, a step, with the hooks around it."""

        @wraps(func)
        def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            hooks: _Hooks = self.__dict__.get("_own_hooks") or self._hooks
            if self._stepping or not (_GLOBAL.step_pre or hooks.step_pre or hooks.step_post or _GLOBAL.step_post):
                return func(self, *args, **kwargs)
            before = [*_GLOBAL.step_pre.values(), *hooks.step_pre.values()]
            after = [*hooks.step_post.values(), *_GLOBAL.step_post.values()]
            if _core._recording():
                _core._record_refuse("step", "a hook of an optimizer would run: a replay runs kernels only")
            passed: tuple[Any, ...] = (self, *args)
            self._stepping = True
            try:
                for hook in before:
                    found = hook(self, passed, kwargs)
                    if found is None:
                        continue
                    if not (isinstance(found, tuple) and len(found) == 2):
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but got {found}."
                        )
                    passed, kwargs = found
                result = func(*passed, **kwargs)
                for hook in after:
                    hook(self, passed, kwargs)
            finally:
                self._stepping = False
            return result

        step.hooked = True  # type: ignore[attr-defined]
        return step

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step, args with the optimizer first.  A result other than
        None replaces (args, kwargs)."""
        return _Hooks.add(self._hooks.step_pre, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return _Hooks.add(self._hooks.step_post, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before each ``state_dict``."""
        return _Hooks.add(self._hooks.save_pre, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after each ``state_dict``.  A result other than None replaces it."""
        return _Hooks.add(self._hooks.save_post, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` with a shallow copy before each ``load_state_dict``.  A result other
        than None replaces it."""
        return _Hooks.add(self._hooks.load_pre, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after each ``load_state_dict``."""
        return _Hooks.add(self._hooks.load_post, hook, prepend)

    # ---- state dicts: PyTorch's layout ----

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number of a parameter: its state}, "param_groups": [options, with "params" as
        numbers]}; entries of the state that are no parameter's keep their keys."""
        for hook in [*self._hooks.save_pre.values()]:
            hook(self)
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        packed: dict[str, Any] = {
            "state": {
                (numbers[id(p)] if isinstance(p, Tensor) else p): self._saved(p, entries)
                for p, entries in self.state.items()
            },
            "param_groups": [
                {
                    **{name: value for name, value in group.items() if name != "params"},
                    "params": [numbers[id(p)] for p in group["params"]],
                }
                for group in self.param_groups
            ],
        }
        for hook in [*self._hooks.save_post.values()]:
            found = hook(self, packed)
            packed = packed if found is None else found
        return packed

    def _saved(self, p: Any, entries: Any) -> Any:
        """The state of p as the state dict has it."""
        return entries

    @no_grad
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over options and state, PyTorch's too.  Tensors are copied to the parameter's device, and to its dtype
        if that is a float, but those named "step"; all else stays as it is. ValueError: other groups, or groups of
        other sizes; nothing has changed."""
        state_dict = dict(state_dict)
        for hook in [*self._hooks.load_pre.values()]:
            found = hook(self, state_dict)
            state_dict = state_dict if found is None else found
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
        groups = [self._loaded_group(theirs, mine) for theirs, mine in zip(saved, self.param_groups, strict=True)]
        entry_of = {
            n: (group, p)
            for theirs, group in zip(saved, groups, strict=True)
            for n, p in zip(theirs["params"], group["params"], strict=True)
        }
        given = state_dict["state"]
        self._check_state(entry_of, given)
        loaded: defaultdict[Any, Any] = defaultdict(dict)
        for n, entries in given.items():
            if n in entry_of:
                p = entry_of[n][1]
                loaded[p] = self._loaded_state(entry_of[n][0], p, entries)
            else:
                loaded[n] = deepcopy(entries)
        self.__setstate__({"state": loaded, "param_groups": groups})
        for hook in [*self._hooks.load_post.values()]:
            hook(self)

    def _loaded_group(self, theirs: Group, mine: Group) -> Group:
        names = {"param_names": mine["param_names"]} if "param_names" in mine else {}
        return {**names, **theirs, "params": mine["params"]}

    def _check_state(self, entry_of: Mapping[Any, tuple[Group, Tensor]], given: Mapping[Any, Any]) -> None:
        """Raises for a state that the optimizer cannot take."""

    def _loaded_state(self, group: Group, p: Tensor, entries: Any) -> Any:
        return _cast(entries, p)

    def __repr__(self) -> str:
        groups = [
            "\n".join(
                [
                    f"\nParameter Group {i}",
                    *(f"    {key}: {group[key]}" for key in sorted(group) if key != "params"),
                    "",
                ]
            )
            for i, group in enumerate(self.param_groups)
        ]
        return f"{type(self).__name__} ({''.join(groups)})"


def _cast(value: Any, p: Tensor, name: Hashable = None) -> Any:
    """A copy of a value of p's state with the tensors inside on p's device, in its dtype where that is a float's."""
    if isinstance(value, Tensor):
        wanted = p.dtype if p.is_floating_point() and name != "step" else value.dtype
        return value.detach().to(p.device, wanted, copy=True)
    if isinstance(value, dict):
        made = copy(value)
        made.update((key, _cast(x, p, key)) for key, x in value.items())
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(x, p) for x in value))
    if isinstance(value, list | tuple | set | frozenset | deque):
        return type(value)(_cast(x, p) for x in value)
    return value
