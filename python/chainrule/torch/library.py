"""``torch.library``: ops by name.  An op is a function of Python, which ``torch.ops.namespace.name`` finds; its
gradient is the one that it was registered with, or that of what it calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import chainrule as cr

from . import _names

__getattr__ = _names.forward(__name__)
_OPS: dict[str, CustomOpDef] = {}  # "namespace::name" -> op


class CustomOpDef:
    """An op: ``op(*args)`` calls its function."""

    def __init__(self, name: str, function: Callable[..., Any] | None = None) -> None:
        self._qualname, self._name, self._init_fn = name, name.rpartition("::")[2], function
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self.__name__, self.default = self._name, self

    def _function(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        kinds = [x.device.type for x in args if isinstance(x, cr.Tensor)] or ["cpu"]
        found = self._kernels.get(kinds[0], self._init_fn)
        if found is None:
            raise NotImplementedError(f"torch.ops.{self._qualname.replace('::', '.')} has no function for {kinds[0]}")
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self._function(args)
        if kwargs or self._setup_context:  # it gets every argument
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        if self._backward is None:
            return function(*args)
        op = self

        class _Op(cr.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                output = function(*inputs)
                if op._setup_context:
                    op._setup_context(ctx, inputs, output)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return op._backward(ctx, *grads)  # type: ignore[misc]

        return _Op.apply(*args)

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """backward(ctx, *grads) gives the gradients of the arguments; setup_context(ctx, inputs, output) saves."""
        self._backward, self._setup_context = backward, setup_context

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """The function for a type of device, or several."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in [device_types] if isinstance(device_types, str) else device_types or ["default"]:
                if kind in ("default", None):
                    self._init_fn = function
                else:
                    self._kernels[kind.lower()] = function
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Any = None, /) -> Any:
        """Does nothing; shapes are found by computing."""
        return (lambda found: found) if fn is None else fn

    register_vmap = register_autocast = register_torch_dispatch = register_fake


def _op(name: Any) -> CustomOpDef:
    if isinstance(name, CustomOpDef):
        return name
    return _OPS.setdefault(name, CustomOpDef(name))


def custom_op(name: str, fn: Any = None, /, *, mutates_args: Any, **options: Any) -> Any:
    """Makes a function an op; a decorator without ``fn``."""

    def make(function: Callable[..., Any]) -> CustomOpDef:
        _OPS[name] = CustomOpDef(name, function)
        return _OPS[name]

    return make if fn is None else make(fn)


triton_op = custom_op


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    _op(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    return _op(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Does nothing; shapes are found by computing."""
    return (lambda found: found) if func is None else func


impl_abstract = register_vmap = register_autocast = register_torch_dispatch = register_fake


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Names an op; ``impl`` gives it a function."""
    _op(qualname)


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The function of an op, for "default", "cpu", "cuda" or several types of devices."""
    return _op(qualname).register_kernel(types, func)


class Library:
    """Ops of a namespace: ``define("name(Tensor x) -> Tensor")`` and ``impl("name", function)``."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        name = schema.partition("(")[0]
        _op(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """dispatch_key: CPU or CUDA is the type of device; Meta and Autograd have no use; others are all devices."""
        op = _op(f"{self.ns}::{str(op_name).rpartition('::')[2]}")
        if dispatch_key in ("CPU", "CUDA"):
            op.register_kernel(dispatch_key, fn)
        elif not dispatch_key.startswith(("Meta", "Autograd", "Autocast")):
            op.register_kernel("default", fn)

    def fallback(self, *args: Any, **options: Any) -> None:
        """Does nothing."""
