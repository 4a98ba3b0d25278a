"""``Module``, a tree of named parameters, buffers and modules, and ``Parameter``, a tensor that a module learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from .. import _core
from .._core import Device, Tensor
from ..autograd import Function, no_grad

__all__ = [
    "Buffer",
    "Module",
    "Parameter",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]

DeviceLike = Device | str | None
Hooks = dict["RemovableHandle", tuple[Callable[..., Any], bool]]  # hook, does it take keyword arguments, or a module


class Parameter(Tensor):
    """A tensor that a module learns: a leaf over the memory of ``data`` that collects a gradient.
    Assigned to a module, it is among its parameters."""

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        parameter: Parameter = _core._alias(_core.empty(0) if data is None else data, cls, requires_grad)
        return parameter

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor over the memory of ``data`` that moves with a module but is not learned.  Assigned to
    a module, it is among its buffers, and in the state dict where ``persistent``."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        buffer: Buffer = _core._alias(_core.empty(0) if data is None else data, cls, False)
        buffer.persistent = persistent
        return buffer


class RemovableHandle:
    """A registered hook: ``remove()``, or the end of a ``with``, removes it."""

    always_call = False  # of a hook behind a call: also where that raises

    def __init__(self, hooks: Hooks) -> None:
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
        """Before each call ``hook(module, args)``, or ``hook(module, args, kwargs)``: a result
        other than None replaces the arguments."""
        return self._add_hook("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """After each call ``hook(module, args, output)``, or ``hook(module, args, kwargs,
        output)``: a result other than None replaces the output.  always_call: after a call that
        raised too, with the output None."""
        handle = self._add_hook("_forward_hooks", hook, prepend, with_kwargs)
        handle.always_call = always_call
        return handle

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Once the gradients of a call's positional arguments are there, ``hook(module, grad_input,
        grad_output)``, tuples with None where there is no gradient: a result other than None
        replaces grad_input."""
        return self._add_hook("_backward_hooks", hook, prepend, False)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Once the gradients of a call's results are there, ``hook(module, grad_output)``: a result
        other than None replaces grad_output."""
        return self._add_hook("_backward_pre_hooks", hook, prepend, False)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``register_full_backward_hook``, by an older name."""
        return self.register_full_backward_hook(hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Before each ``state_dict`` of this module ``hook(module, prefix, keep_vars)``."""
        return self._add_hook("_state_dict_pre_hooks", hook, False, True)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """After each ``state_dict`` of this module ``hook(module, state_dict, prefix, {})``, which may change it."""
        return self._add_hook("_state_dict_hooks", hook, False, True)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Before this module is loaded ``hook(module, state_dict, prefix, {}, strict, missing_keys,
        unexpected_keys, error_messages)``, which may change the dict, a copy, and add messages."""
        return self._add_hook("_load_state_dict_pre_hooks", hook, False, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return self._add_hook("_load_state_dict_pre_hooks", hook, False, with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """After this module was loaded ``hook(module, incompatible_keys)``."""
        return self._add_hook("_load_state_dict_post_hooks", hook, False, True)

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = self.__dict__.get("_kinds")
        kind = PARAMETER if isinstance(value, Parameter) else MODULE if isinstance(value, Module) else None
        if kind:
            if kinds is None:
                raise AttributeError(f"cannot assign a {kind} before Module.__init__() call")
            self._register(kind, name, value)
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
            from ..serialization.full import adopt

            adopt(self, state)
        else:
            self.__dict__.update(state)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._kinds.pop(name, None)

    def _register(self, kind: str, name: str, value: Any) -> None:
        if self._kinds.get(name) != kind:  # an attribute that changes its kind goes to the end
            self._kinds.pop(name, None)
            self._kinds[name] = kind
        self.__dict__[name] = value

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
        self._register(PARAMETER, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that moves with the module but is not learned; the state dict has it where ``persistent``."""
        self._check_name(BUFFER, name, (BUFFER, TRANSIENT))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (Tensor or None required)"
            )
        self._register(BUFFER if persistent else TRANSIENT, name, tensor)

    def register_module(self, name: str, module: Module | None) -> None:
        """Adds a module under a name that need not be an identifier."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(MODULE, name, (MODULE,))
        self._register(MODULE, name, module)

    add_module = register_module

    # ---- looking ----

    def _own(self, *kinds: str) -> list[tuple[str, Any]]:
        """Names and values of those kinds, without those of modules inside."""
        return [(name, self.__dict__[name]) for name, kind in self._kinds.items() if kind in kinds]

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

    def _named(
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
        return self._named((PARAMETER,), prefix, recurse, remove_duplicate)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their full names."""
        return self._named((BUFFER, TRANSIENT), prefix, recurse, remove_duplicate)

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

    def _get(self, target: str, kinds: tuple[str, ...]) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        value = getattr(module, name)
        if module._kinds.get(name) not in kinds:
            raise AttributeError(f"`{name}` is not a {kinds[0]}")
        return value

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a full name, "layers.0.weight".  AttributeError: there is none."""
        parameter: Parameter = self._get(target, (PARAMETER,))
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a full name.  AttributeError: there is none."""
        buffer: Tensor = self._get(target, (BUFFER, TRANSIENT))
        return buffer

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module in the place of a full name, "layers.0"; strict: only where there is one."""
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
        object that optimizers know."""
        with no_grad():
            for p in self.parameters():
                grad = p.grad
                p.data = fn(p.data)
                if grad is not None:
                    p.grad = fn(grad)
            for module in self.modules():
                for name, buffer in module._own(BUFFER, TRANSIENT):
                    if isinstance(buffer, Buffer):
                        buffer.data = fn(buffer.data)
                    elif buffer is not None:
                        module.__dict__[name] = fn(buffer)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self._convert(fn)

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values."""
        place = None if device is None else Device(device)
        return self._convert(lambda t: _core.empty_like(t, device=place or t.device))

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
        place = None if device is None else Device(device)
        return self._convert(lambda t: t.to(device=place, dtype=dtype if t.is_floating_point() else None))

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
                p.grad = _core.zeros_like(p.grad)

    # ---- state dicts ----

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by full name, over the same memory; a shared one under each of its names.
        keep_vars: the parameters themselves, else tensors without a graph."""
        state = {} if destination is None else destination
        for hook, _ in [*self._state_dict_pre_hooks.values()]:
            hook(self, prefix, keep_vars)
        for kind in (PARAMETER, BUFFER):
            for name, value in self._own(kind):
                if value is not None:
                    state[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._own(MODULE):
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        if self._has_extra_state:
            state[prefix + EXTRA] = self.get_extra_state()
        for hook, _ in [*self._state_dict_hooks.values()]:
            found = hook(self, state, prefix, {})
            state = state if found is None else found
        return state

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
        mis-shaped or no tensors, and nothing has changed.  TypeError: no mapping."""
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}")
        problems: list[str] = []
        state_dict = self._before_load(dict(state_dict), strict, problems)
        homes = self._homes()
        extra = {
            f"{start}.{EXTRA}" if start else EXTRA: module
            for start, module in self.named_modules(remove_duplicate=False)
            if module._has_extra_state
        }
        missing = [key for key in [*homes, *extra] if key not in state_dict]
        unexpected = [key for key in state_dict if key not in homes and key not in extra]
        for what, keys in (("Missing", missing), ("Unexpected", unexpected)):
            if strict and keys:
                problems.append(f"{what} key(s) in state_dict: " + ", ".join(f'"{key}"' for key in keys) + ".")
        found = {}
        for key, (module, name) in homes.items():
            if key not in state_dict:
                continue
            given, mine = state_dict[key], module.__dict__[name]
            if not isinstance(given, Tensor) and not hasattr(given, "__array__"):
                problems.append(f'"{key}" is a {type(given).__name__}, not a tensor.')
                continue
            try:
                found[key] = given if isinstance(given, Tensor) else _core.asarray(given)
            except (TypeError, ValueError, RuntimeError) as e:  # an array of text, of objects
                problems.append(f'"{key}" cannot be a tensor: {e}.')
                continue
            if assign and isinstance(mine, Parameter) and mine.requires_grad and not found[key].is_floating_point():
                problems.append(f'"{key}" is {found[key].dtype}, which has no gradient.')
            if found[key].shape != mine.shape:
                problems.append(
                    f"size mismatch for {key}: copying a param with shape {tuple(given.shape)} from checkpoint, the"
                    f" shape in current model is {tuple(mine.shape)}."
                )
        if problems:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *problems]))
        with no_grad():
            for key, given in found.items():
                module, name = homes[key]
                mine = module.__dict__[name]
                if not assign:
                    mine.copy_(given.to(mine.device))
                elif isinstance(mine, Parameter):
                    module.__dict__[name] = Parameter(given, mine.requires_grad)
                else:
                    module.__dict__[name] = given
        for key, module in extra.items():
            if key in state_dict:
                module.set_extra_state(state_dict[key])
        incompatible = IncompatibleKeys(missing, unexpected)
        for module in self.modules():
            for hook, _ in [*module._load_state_dict_post_hooks.values()]:
                if hook(module, incompatible) is not None:
                    raise AssertionError("a hook of load_state_dict returned a value: it changes its argument instead")
        return incompatible

    def _before_load(self, state_dict: dict[str, Any], strict: bool, problems: list[str]) -> dict[str, Any]:
        """The state dict after the hooks of all modules; lazy parameters take the shapes that it has."""
        for start, module in self.named_modules(remove_duplicate=False):
            prefix = f"{start}." if start else ""
            for hook, with_module in [*module._load_state_dict_pre_hooks.values()]:
                mine = (module,) if with_module else ()
                hook(*mine, state_dict, prefix, {}, strict, [], [], problems)
        return state_dict

    # ---- printing ----

    def extra_repr(self) -> str:
        """What ``repr`` says between the brackets of this module's line; a subclass defines it."""
        return ""

    def _parts(self) -> list[str]:
        """The lines of the modules inside."""
        return [f"({name}): {module!r}" for name, module in self._own(MODULE)]

    def __repr__(self) -> str:
        said, parts = self.extra_repr().splitlines(), self._parts()
        if len(said) <= 1 and not parts:
            return f"{type(self).__name__}({''.join(said)})"
        return f"{type(self).__name__}(" + "\n".join(["", *said, *parts]).replace("\n", "\n  ") + "\n)"
