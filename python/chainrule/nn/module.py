"""``Module``, a tree of named parameters, buffers and modules."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

from .. import _core
from .._core import Device, Tensor
from ..autograd import Function, no_grad
from .parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]

DeviceLike = Device | str | None
Hooks = dict["RemovableHandle", tuple[Callable[..., Any], bool]]  # hook, does it take keyword arguments, or a module


class RemovableHandle:
    """A registered hook: ``remove()``, or the end of a ``with``, removes it."""

    always_call = False  # of a hook behind a call: also where that raises

    def __init__(self, hooks: dict[RemovableHandle, Any]) -> None:
        self._hooks = hooks

    def remove(self) -> None:
        self._hooks.pop(self, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` found."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class _Gradients(Function):
    """The tensors themselves; ``hook`` maps their gradients."""

    _pure = True  # the hook refuses a recording itself

    @staticmethod
    def forward(ctx: Any, hook: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.hook = hook
        ctx.set_materialize_grads(False)
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return None, *ctx.hook(grads)


def _hook_gradients(values: tuple[Any, ...], hook: Callable[..., Any]) -> tuple[Any, ...]:
    """The values, with those tensors that require gradients behind a hook of all their gradients,
    in the order of the values, None for others."""
    at = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
    if not at or not _core.is_grad_enabled():
        return values

    def spread(grads: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        every: list[Tensor | None] = [None] * len(values)
        for i, grad in zip(at, grads, strict=True):
            every[i] = grad
        if _core._recording():
            _core._record_refuse("record", "a backward hook of a module would run: a replay runs kernels only")
        found = hook(tuple(every))
        return [found[i] for i in at]

    made = list(values)
    for i, x in zip(at, _Gradients.apply(spread, *(values[i] for i in at)), strict=True):
        made[i] = x
    return tuple(made)


# The kind of a registered name.  A transient buffer is not part of the state dict.
PARAMETER, BUFFER, TRANSIENT, MODULE = "parameter", "buffer", "transient buffer", "module"
EXTRA = "_extra_state"  # its key in a state dict


class _GlobalHooks(NamedTuple):
    """Hooks of all modules."""

    forward_pre: Hooks
    forward: Hooks
    backward_pre: Hooks
    backward: Hooks

    def add(self, kind: str, hook: Callable[..., Any], with_kwargs: bool = False) -> RemovableHandle:
        hooks: Hooks = getattr(self, kind)
        handle = RemovableHandle(hooks)
        hooks[handle] = hook, with_kwargs
        Module._hooked = True
        return handle


_GLOBAL = _GlobalHooks({}, {}, {}, {})


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Module.register_forward_pre_hook`` of all modules."""
    return _GLOBAL.add("forward_pre", hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
    """``Module.register_forward_hook`` of all modules."""
    return _GLOBAL.add("forward", hook, with_kwargs)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Module.register_full_backward_pre_hook`` of all modules."""
    return _GLOBAL.add("backward_pre", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """``Module.register_full_backward_hook`` of all modules."""
    return _GLOBAL.add("backward", hook)


class _Entries(OrderedDict[str, Any]):
    """A state dict: the versions of its modules and, while it is loaded, what is done once all of it fits."""

    later: list[Callable[[], None]] | None = None  # None: each entry is taken at once

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._metadata: dict[str, dict[str, Any]] = {}

    def __reduce__(self) -> Any:
        return OrderedDict, (), {"_metadata": self._metadata}, None, iter(self.items())

    @staticmethod
    def part_of(whole: _Entries) -> _Entries:
        """Some of the entries of another, none yet."""
        part = _Entries()
        part._metadata, part.later = whole._metadata, whole.later
        return part

    def below(self, prefix: str) -> dict[str, _Entries]:
        """The entries of each module inside the one of a prefix, by its name."""
        found: dict[str, _Entries] = {}
        for key, value in self.items():
            if isinstance(key, str) and key.startswith(prefix):
                first, dot, _ = key[len(prefix) :].partition(".")
                if dot:
                    found.setdefault(first, _Entries.part_of(self))[key] = value
        return found


def _fitting(key: str, given: Any, mine: Tensor, assign: bool, problems: list[str]) -> Tensor | None:
    """An entry as a tensor for ``mine``; or None and why it does not fit."""
    if not isinstance(given, Tensor) and not hasattr(given, "__array__"):
        problems.append(f'"{key}" is a {type(given).__name__}, not a tensor.')
        return None
    try:
        tensor = given if isinstance(given, Tensor) else _core.asarray(given)
    except (TypeError, ValueError, RuntimeError) as e:  # an array of text, of objects
        problems.append(f'"{key}" cannot be a tensor: {e}.')
        return None
    if assign and isinstance(mine, Parameter) and mine.requires_grad and not tensor.is_floating_point():
        problems.append(f'"{key}" is {tensor.dtype}, which has no gradient.')
        return None
    if tuple(tensor.shape) == (1,) and tuple(mine.shape) == ():
        tensor = tensor[0]  # PyTorch 0.3 had no 0-d tensors
    if tensor.shape != mine.shape:
        problems.append(
            f"size mismatch for {key}: copying a param with shape {tuple(tensor.shape)} from checkpoint, the"
            f" shape in current model is {tuple(mine.shape)}."
        )
        return None
    return tensor


class Module:
    """The base class of layers and models.  A subclass makes its parts in ``__init__`` and computes in ``forward``::

        class Net(Module):
            def __init__(self):
                super().__init__()
                self.hidden, self.out = Linear(2, 16), Linear(16, 1)

            def forward(self, x):
                return self.out(self.hidden(x).relu())

    Parameters and modules become known by being assigned, buffers by ``register_buffer``.  They are
    ordinary attributes, so that reading them costs nothing; ``_kinds`` says which attributes they
    are."""

    training: bool  # dropout, batch norm: is this training, or use?
    _kinds: dict[str, str]  # name -> PARAMETER, BUFFER, TRANSIENT or MODULE, in the order of registration
    _covered: dict[str, Any] = {}  # values of those names that are also names of methods; an instance has its own
    _version = 1  # of the class, for its state dicts
    _hooked = False  # has a hook of calls, or had one
    _forward_pre_hooks: Hooks = {}  # of the class: none; an instance with hooks has its own
    _forward_hooks: Hooks = {}
    _backward_pre_hooks: Hooks = {}
    _backward_hooks: Hooks = {}
    _state_dict_pre_hooks: Hooks = {}
    _state_dict_hooks: Hooks = {}
    _load_state_dict_pre_hooks: Hooks = {}
    _load_state_dict_post_hooks: Hooks = {}

    def __init__(self) -> None:
        self.__dict__["_kinds"] = {}
        self.training = True

    # ---- calling ----

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module, which a subclass defines.  Call the module instead: only that runs hooks."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._hooked:
            return self.forward(*args, **kwargs)
        for hook, with_kwargs in [*_GLOBAL.forward_pre.values(), *self._forward_pre_hooks.values()]:
            found = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if found is not None and with_kwargs:
                args, kwargs = found
            elif found is not None:
                args = found if isinstance(found, tuple) else (found,)
        try:
            output = self._forward_and_back(args, kwargs)
        except Exception:
            for handle, (hook, with_kwargs) in [*self._forward_hooks.items()]:
                if handle.always_call:
                    hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
            raise
        for hook, with_kwargs in [*_GLOBAL.forward.values(), *self._forward_hooks.values()]:
            found = hook(self, args, kwargs, output) if with_kwargs else hook(self, args, output)
            output = output if found is None else found
        return output

    def _forward_and_back(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``forward``, with the backward hooks between its results, its arguments and the graph."""
        before = [hook for hook, _ in [*_GLOBAL.backward_pre.values(), *self._backward_pre_hooks.values()]]
        after = [hook for hook, _ in [*_GLOBAL.backward.values(), *self._backward_hooks.values()]]
        if not before and not after:
            return self.forward(*args, **kwargs)
        grad_output: tuple[Any, ...] = ()
        reaches_inputs = any(isinstance(x, Tensor) and x.requires_grad for x in args)

        def of_inputs(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            for hook in after:
                found = hook(self, grads, grad_output)
                if found is not None:
                    grads = found if isinstance(found, tuple) else (found,)
            return grads

        def of_outputs(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            nonlocal grad_output
            for hook in before:
                found = hook(self, grads)
                if found is not None:
                    grads = found if isinstance(found, tuple) else (found,)
            grad_output = grads
            if not reaches_inputs:  # the hooks still see the gradients of the results
                of_inputs((None,) * len(args))
            return grads

        output = self.forward(*_hook_gradients(args, of_inputs), **kwargs)
        if isinstance(output, tuple):
            hooked = _hook_gradients(output, of_outputs)
            return type(output)(*hooked) if hasattr(output, "_fields") else hooked
        return _hook_gradients((output,), of_outputs)[0]

    @property
    def _has_hooks(self) -> bool:
        """Would a call run hooks?  A module that reads the parameters of its parts, in place of
        calling them, asks first."""
        return bool(
            self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_pre_hooks
            or self._backward_hooks
            or any(_GLOBAL)
        )

    def _add_hook(self, hooks: str, hook: Callable[..., Any], prepend: bool, with_kwargs: bool) -> RemovableHandle:
        mine: Hooks = self.__dict__.setdefault(hooks, {})
        self.__dict__["_hooked"] = True
        handle = RemovableHandle(mine)
        others = list(mine)
        mine[handle] = hook, with_kwargs
        for other in others if prepend else []:
            mine[other] = mine.pop(other)
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before each call of the module, or ``hook(module, args, kwargs)`` with
        with_kwargs.  A result other than None replaces the arguments."""
        return self._add_hook("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after each call of the module, or ``hook(module, args, kwargs,
        output)`` with with_kwargs.  A result other than None replaces the output.  always_call: also after a call
        that raised, with the output None."""
        handle = self._add_hook("_forward_hooks", hook, prepend, with_kwargs)
        handle.always_call = always_call
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)`` once the gradients of a call's positional arguments are
        there; both are tuples, with None where there is no gradient.  A result other than None replaces
        grad_input."""
        return self._add_hook("_backward_hooks", hook, prepend, False)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` once the gradients of a call's results are there.  A result other than
        None replaces grad_output."""
        return self._add_hook("_backward_pre_hooks", hook, prepend, False)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """An older name of ``register_full_backward_hook``."""
        return self.register_full_backward_hook(hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before each ``state_dict`` of this module."""
        return self._add_hook("_state_dict_pre_hooks", hook, False, True)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, metadata)`` after each ``state_dict`` of this module; the hook may
        change the dict.  RuntimeError: a result other than None."""
        return self._add_hook("_state_dict_hooks", hook, False, False)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The same, but a result other than None takes the place of the dict."""
        return self._add_hook("_state_dict_hooks", hook, False, True)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_messages)``
        before this module is loaded.  The dict is a copy of the entries of this module and those inside; the hook may
        change it, and add messages."""
        return self._add_hook("_load_state_dict_pre_hooks", hook, False, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return self._add_hook("_load_state_dict_pre_hooks", hook, False, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after this module and those inside were loaded; the hook may change
        the lists of these keys before they are an error."""
        return self._add_hook("_load_state_dict_post_hooks", hook, False, True)

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = self.__dict__.get("_kinds")
        kind = PARAMETER if isinstance(value, Parameter) else MODULE if isinstance(value, Module) else None
        if kind:
            if kinds is None:
                raise AttributeError(f"cannot assign a {kind} before Module.__init__() call")
            if kind == PARAMETER and name not in kinds and hasattr(type(self), name):
                raise KeyError(f"attribute '{name}' already exists")
            self._register_as(kind, name, value)
            return
        if isinstance(value, Buffer) and (kinds is None or name not in kinds):
            self.register_buffer(name, value, value.persistent)
            return
        if (
            kinds
            and name in kinds
            and value is not None
            and not (isinstance(value, Tensor) and kinds[name] in (BUFFER, TRANSIENT))
        ):
            wanted = {PARAMETER: "Parameter", MODULE: "Module"}.get(kinds[name], "Tensor")
            raise TypeError(
                f"cannot assign '{type(value).__name__}' as {kinds[name]} '{name}' ({wanted} or None expected)"
            )
        if kinds and name in kinds:
            self._store_as(name, value)
            return
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Called for unknown attributes, and by scripts for any; type checkers read from it that a module
        may have attributes that they do not see."""
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The attributes of a pickled module, of PyTorch's too."""
        if "_parameters" in state:
            _adopt(self, state)
        else:
            self.__dict__.update(state)
            for name in ("_kinds", "_covered"):  # a shallow copy gets parts of its own
                if name in state:
                    self.__dict__[name] = dict(state[name])

    def __delattr__(self, name: str) -> None:
        if name in self._covered:
            del self._covered[name]
        else:
            object.__delattr__(self, name)
        self._kinds.pop(name, None)

    def _register_as(self, kind: str, name: str, value: Any) -> None:
        if self._kinds.get(name) != kind:  # an attribute that changes its kind goes to the end
            self._kinds.pop(name, None)
            self._kinds[name] = kind
            self.__dict__.pop(name, None)
        self._store_as(name, value)

    def _store_as(self, name: str, value: Any) -> None:
        """Gives a registered name a value.  The attribute of such a name that is a method of the class stays it."""
        known = getattr(type(self), name, None)
        if hasattr(known, "__get__") and not hasattr(known, "__set__"):
            self.__dict__.setdefault("_covered", {})[name] = value
        else:
            self.__dict__[name] = value

    def _value_of(self, name: str) -> Any:
        """The value of a registered name."""
        return self._covered[name] if name in self._covered else self.__dict__[name]

    def _check_name(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        if "_kinds" not in self.__dict__:
            raise AttributeError(f"cannot assign a {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if not name or "." in name:
            raise KeyError(f'{kind} name can\'t be empty or contain ".", got: {name!r}')
        if hasattr(self, name) and self._kinds.get(name) not in known:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None is one that is absent, as the bias of a layer without."""
        self._check_name(PARAMETER, name, (PARAMETER,))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (nn.Parameter or None required)"
            )
        self._register_as(PARAMETER, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that moves with the module but is not learned; the state dict has it where ``persistent``."""
        self._check_name(BUFFER, name, (BUFFER, TRANSIENT))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (Tensor or None required)"
            )
        self._register_as(BUFFER if persistent else TRANSIENT, name, tensor)

    def register_module(self, name: str, module: Module | None) -> None:
        """Adds a module under a name that need not be an identifier."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(MODULE, name, (MODULE,))
        self._register_as(MODULE, name, module)

    add_module = register_module

    # ---- looking ----

    def _own(self, *kinds: str) -> list[tuple[str, Any]]:
        """Names and values of those kinds, without those of modules inside."""
        values = self.__dict__ | self._covered if self._covered else self.__dict__
        return [(name, values[name]) for name, kind in self._kinds.items() if kind in kinds]

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all inside it with their full names, "layers.0"; each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._own(MODULE):
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def _named_as(
        self, kinds: tuple[str, ...], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for start, module in modules:
            for name, value in module._own(*kinds):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{start}.{name}" if start else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their full names, "layers.0.weight"; a shared one under its first."""
        return self._named_as((PARAMETER,), prefix, recurse, remove_duplicate)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their full names."""
        return self._named_as((BUFFER, TRANSIENT), prefix, recurse, remove_duplicate)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, each once."""
        seen = set()
        for name, module in self._own(MODULE):
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters: ``named_parameters`` without names."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """``named_buffers`` without names."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """``named_modules`` without names."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def children(self) -> Iterator[Module]:
        """``named_children`` without names."""
        return (m for _, m in self.named_children())

    def get_submodule(self, target: str) -> Module:
        """The module of a full name, "layers.0"; "" is this one.  AttributeError: there is none."""
        module = self
        for name in target.split(".") if target else []:
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _get_as(self, target: str, kinds: tuple[str, ...]) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        value = getattr(module, name)
        if module._kinds.get(name) not in kinds:
            raise AttributeError(f"`{name}` is not a {kinds[0]}")
        return value

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a full name, "layers.0.weight".  AttributeError: there is none."""
        parameter: Parameter = self._get_as(target, (PARAMETER,))
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a full name.  AttributeError: there is none."""
        buffer: Tensor = self._get_as(target, (BUFFER, TRANSIENT))
        return buffer

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Sets the module with a full name, "layers.0"; strict: only where there is one."""
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        parent.register_module(name, module)

    # ---- changing all of it ----

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Calls ``fn`` with every module inside and then with this one, as to initialise them."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Puts ``fn`` of each parameter, gradient and buffer in its place; a parameter stays the
        object that optimizers know, with its hooks."""
        with no_grad():
            for p in self.parameters():
                p.data = fn(p.data)
                if p.grad is not None:
                    p.grad.data = fn(p.grad.data)
            for module in self.modules():
                for name, buffer in module._own(BUFFER, TRANSIENT):
                    if isinstance(buffer, Buffer):
                        buffer.data = fn(buffer.data)
                    elif buffer is not None:
                        module._store_as(name, fn(buffer))
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self._convert(fn)

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values."""
        new_device = None if device is None else Device(device)
        return self._convert(lambda t: _core.empty_like(t, device=new_device or t.device))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: there is no compiler of whole modules, and the eager result is the same."""

    def share_memory(self) -> Self:
        """NotImplementedError: tensors are not in memory that processes share.  Threads share them as they are."""
        raise NotImplementedError("share_memory: tensors are not in memory that processes share; threads share them")

    def to(
        self,
        *target: Tensor | _core.dtype | DeviceLike | bool,
        device: DeviceLike = None,
        dtype: _core.dtype | None = None,
        non_blocking: bool = False,
        memory_format: object = None,
    ) -> Self:
        """Moves parameters and buffers to a device, or casts those that are floats to a dtype, in
        place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(other)``.  TypeError: a
        dtype that is not a float's.  memory_format changes nothing."""
        for x in target:
            if isinstance(x, Tensor):
                device, dtype = x.device, x.dtype
            elif isinstance(x, _core.dtype):
                dtype = x
            elif x is not None and not isinstance(x, bool):  # a bool is non_blocking
                device = x
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")
        new_device = None if device is None else Device(device)
        return self._convert(lambda t: t.to(device=new_device, dtype=dtype if t.is_floating_point() else None))

    def type(self, dst_type: _core.dtype) -> Self:
        """Casts all parameters and buffers."""
        return self._convert(lambda t: t.to(dst_type))

    def float(self) -> Self:
        """``to(float32)``."""
        return self.to(_core.float32)

    def double(self) -> Self:
        """``to(float64)``."""
        return self.to(_core.float64)

    def half(self) -> Self:
        """``to(float16)``."""
        return self.to(_core.float16)

    def bfloat16(self) -> Self:
        """``to(bfloat16)``."""
        return self.to(_core.bfloat16)

    def cpu(self) -> Self:
        """``to("cpu")``."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Self:
        """``to`` a CUDA device, the first where none is named."""
        return self.to(Device.cuda(device or 0))

    def train(self, mode: bool = True) -> Self:
        """Sets ``training`` here and in all modules inside: dropout and batch norm differ between training and use."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """``train(False)``"""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters collect gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Frees all gradients, or fills them with zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = (p.grad.detach() if p.grad.requires_grad else p.grad).zero_()

    # ---- state dicts ----

    def state_dict(
        self,
        *args: Any,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by full name, over the same memory; a shared one under each of its names.
        keep_vars: the parameters themselves, else tensors without a graph.  Its attribute ``_metadata`` has the
        version of each module.  args: destination, prefix and keep_vars by position, an older form."""
        options: tuple[Any, ...] = (destination, prefix, keep_vars)
        state, prefix, keep_vars = (*args, *options[len(args) :])
        state = _Entries() if state is None else state
        metadata = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = metadata
        for hook, _ in [*self._state_dict_pre_hooks.values()]:
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._own(MODULE):
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, private in [*self._state_dict_hooks.values()]:
            found = hook(self, state, prefix, metadata)
            if found is not None and not private:
                raise RuntimeError("state_dict post-hook must return None")
            state = state if found is None else found
        return state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Puts the entries of this module, without those inside, into ``destination``; a subclass may add others."""
        for kind in (PARAMETER, BUFFER):
            for name, value in self._own(kind):
                if value is not None:
                    destination[prefix + name] = value if keep_vars else value.detach()
        if self._has_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """The entry "_extra_state" of the state dict, of a subclass that defines it; ``set_extra_state`` gets it."""
        raise RuntimeError("get_extra_state is not defined by this module: a subclass defines it with set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Takes the result of ``get_extra_state`` of a saved module."""
        raise RuntimeError("set_extra_state is not defined by this module: a subclass defines it with get_extra_state")

    @property
    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not Module.get_extra_state

    def _homes(self) -> dict[str, tuple[Module, str]]:
        """Where each entry of the state dict lives: the module and the name there."""
        homes = {}
        for start, module in self.named_modules(remove_duplicate=False):
            for name, value in module._own(PARAMETER, BUFFER):
                if value is not None:
                    homes[f"{start}.{name}" if start else name] = module, name
        return homes

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies the entries of a state dict, tensors or arrays of any library, into parameters and
        buffers; with ``assign`` they take their places. strict=False: entries may be missing or not
        be wanted; the result lists them. RuntimeError names all that are missing, not wanted,
        mis-shaped or no tensors, and nothing has changed, unless a module loads in a way of its own
        (``_load_from_state_dict``) or has a hook behind its load.  TypeError: no mapping."""
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}")
        entries = _Entries(state_dict)
        entries._metadata.update(getattr(state_dict, "_metadata", None) or {})
        if not any(_loads_itself(module) for module in self.modules()):
            entries.later = []
        missing: list[str] = []
        unexpected: list[str] = []
        problems: list[str] = []
        _load_all(self, entries, "", assign, missing, unexpected, problems)
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    named = ", ".join(f'"{key}"' for key in keys)
                    problems.insert(0, f"{what} key(s) in state_dict: {named}.")
        if problems:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *problems]))
        for take in entries.later or ():
            take()
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Takes the entries of this module, without those inside, from those below ``prefix``, which a subclass may
        change first.  What does not fit goes to the lists."""
        for hook, with_module in [*self._load_state_dict_pre_hooks.values()]:
            mine = (self,) if with_module else ()
            hook(*mine, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        self._upgrade_state(state_dict, prefix, local_metadata)
        takes: list[Callable[[], None]] = []
        assign = bool(local_metadata.get("assign_to_params_buffers"))
        own = {name: v for kind in (PARAMETER, BUFFER) for name, v in self._own(kind) if v is not None}
        extra = prefix + EXTRA
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                given = _fitting(key, state_dict[key], value, assign, error_msgs)
                if given is not None:
                    takes.append(partial(_take_entry, self, name, given, assign))
            elif strict:
                missing_keys.append(key)
        if self._has_extra_state and extra in state_dict:
            takes.append(partial(self.set_extra_state, state_dict[extra]))
        elif self._has_extra_state and strict:
            missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        parts = dict(self._own(MODULE))
        for key in state_dict if strict else ():
            if isinstance(key, str) and (key == extra or not key.startswith(prefix)):
                continue
            first, dot, _ = key[len(prefix) :].partition(".") if isinstance(key, str) else ("", "", "")
            if first not in (parts if dot else own):
                unexpected_keys.append(key)
        later = getattr(state_dict, "later", None)
        for take in takes:
            if later is None:
                take()
            else:
                later.append(take)

    def _upgrade_state(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]) -> None:
        """Changes entries that an older version of the class has saved."""

    # ---- printing ----

    def extra_repr(self) -> str:
        """What ``repr`` says between the brackets of this module's line; a subclass defines it."""
        return ""

    def _get_name(self) -> str:
        """The name that ``repr`` says; a subclass may define another."""
        return type(self).__name__

    def _repr_parts(self) -> list[str]:
        """The lines of the modules inside."""
        return [f"({name}): {module!r}" for name, module in self._own(MODULE)]

    def __repr__(self) -> str:
        said, parts = self.extra_repr().splitlines(), self._repr_parts()
        if len(said) <= 1 and not parts:
            return f"{self._get_name()}({''.join(said)})"
        return f"{self._get_name()}(" + "\n".join(["", *said, *parts]).replace("\n", "\n  ") + "\n)"


def _loads_itself(module: Module) -> bool:
    """Has it a hook behind its load, or a ``_load_from_state_dict`` that may change it at once?"""
    method = getattr(module._load_from_state_dict, "__func__", None)
    return bool(module._load_state_dict_post_hooks) or method is not Module._load_from_state_dict


def _load_all(
    module: Module,
    entries: _Entries,
    prefix: str,
    assign: bool,
    missing: list[str],
    unexpected: list[str],
    problems: list[str],
) -> None:
    """Loads a module and those inside, and calls the hooks behind each."""
    metadata = dict(entries._metadata.get(prefix[:-1]) or {})
    if assign:
        metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(entries, prefix, metadata, True, missing, unexpected, problems)
    below = entries.below(prefix)
    for name, inner in module._own(MODULE):
        if inner is not None:
            there = below.get(name) or _Entries.part_of(entries)
            _load_all(inner, there, f"{prefix}{name}.", assign, missing, unexpected, problems)
    incompatible = IncompatibleKeys(missing, unexpected)
    for hook, _ in [*module._load_state_dict_post_hooks.values()]:
        if hook(module, incompatible) is not None:
            raise AssertionError("a hook of load_state_dict returned a value: it changes its argument instead")


@no_grad()
def _take_entry(module: Module, name: str, given: Tensor, assign: bool) -> None:
    """Copies an entry into a parameter or buffer, or puts it in its place."""
    mine = module._value_of(name)
    if not assign:
        if mine.is_meta and not given.is_meta:
            warnings.warn(
                f"{name} is on the meta device, so its value is not copied: load_state_dict(assign=True) takes it",
                stacklevel=4,
            )
        mine.copy_(given.to(mine.device))
        return
    if isinstance(mine, Parameter):
        given = (
            given.requires_grad_(mine.requires_grad)
            if isinstance(given, Parameter)
            else Parameter(given, mine.requires_grad)
        )
    module._store_as(name, given)


def _adopt(module: Any, state: dict[str, Any]) -> None:
    """Gives a module the state of PyTorch's module of the same class, which has its parameters,
    buffers and modules in dicts.  A layer of chainrule's is first made with the arguments that are
    among the attributes."""
    from inspect import signature

    from ..random import fork_rng

    theirs = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
    parameters, buffers, modules, transient = (state.get(name) or {} for name in theirs)
    own = {name: x for name, x in state.items() if name not in theirs and "_hooks" not in name}
    module.__dict__["_kinds"] = {}
    if type(module).__module__.startswith("chainrule."):
        known = {**own, "bias": parameters.get("bias") is not None} if "bias" in parameters else own
        wanted = signature(type(module)).parameters.values()
        given = {p.name: known[p.name] for p in wanted if p.name in known}
        required = [p for p in wanted if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        if all(p.name in given for p in required):
            with fork_rng():
                module.__init__(**given)
    for name, x in own.items():
        setattr(module, name, x)
    for kind, members in ((PARAMETER, parameters), (BUFFER, buffers), (MODULE, modules)):
        for name, x in members.items():
            module._register_as(TRANSIENT if name in transient else kind, name, x)
