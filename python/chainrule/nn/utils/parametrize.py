"""``chainrule.nn.utils.parametrize``: a parameter of a module computed from others by modules.

``register_parametrization(layer, "weight", Symmetric())`` moves the weight to
``layer.parametrizations.weight.original``; reading ``layer.weight`` computes it from there, and
assigning to it runs ``right_inverse`` of the parametrizations."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._core import Tensor
from ...autograd import no_grad
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

_cache: dict[tuple[int, str], Tensor] | None = None  # what is computed inside of ``cached``


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once, when it is first read."""
    global _cache
    outer = _cache
    _cache = {} if outer is None else outer
    try:
        yield
    finally:
        _cache = outer


def _put(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _described(what: str, tensor: Tensor) -> str:
    return f"{what}: shape {tuple(tensor.shape)}, dtype {tensor.dtype}"


def _check_same(before: str, computed: Any) -> None:
    """The computed tensor has the shape and dtype of the one whose place it takes, as ``_described``."""
    if not isinstance(computed, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(computed).__name__}.")
    if _described("unparametrized", computed) != before:
        raise ValueError(
            "Registering a parametrization may not change the dtype or the shape of the tensor, unless the `unsafe`"
            f" flag is enabled: {before}, {_described('parametrized', computed)}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, with what they compute it from: ``original``, or
    ``original0``, ``original1``, ... where ``right_inverse`` of the first gives several."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        before = _described("unparametrized", original)
        super().__init__(modules)
        self.unsafe = unsafe
        try:
            with no_grad():
                new = self._inverse(original) if all(hasattr(m, "right_inverse") for m in modules) else original
        except NotImplementedError:  # the original is where the parametrization starts
            new = original
        self.is_tensor = isinstance(new, Tensor)
        if isinstance(new, Tensor):
            if new.dtype != original.dtype or new.device != original.device:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype or device: "
                    + _described("original", original)
                    + ", "
                    + _described("right_inverse(original)", new)
                )
            if new is not original:
                original.data = new.clone()
            _put(self, "original", original)
        elif not isinstance(new, Sequence) or not all(isinstance(x, Tensor) for x in new):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors, got {type(new).__name__}."
            )
        else:
            for i, x in enumerate(new):
                x = x.detach()
                _put(
                    self, f"original{i}", Parameter(x, original.requires_grad) if isinstance(original, Parameter) else x
                )
        self.ntensors = 1 if self.is_tensor else len(new)
        if not unsafe:
            _check_same(before, self())

    @property
    def originals(self) -> list[Tensor]:
        """What the tensor is computed from."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def _inverse(self, value: Any) -> Any:
        for module in reversed([*self]):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        return value

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Puts into the originals what gives, or comes near, this value."""
        found = self._inverse(value)
        new = [found] if isinstance(found, Tensor) else [*found]
        if len(new) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length"
                f" {len(new)}."
            )
        for original, x in zip(self.originals, new, strict=True):
            if original.dtype != x.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {x.dtype} while `original` has dtype"
                    f" {original.dtype}"
                )
            original.data = x.clone()

    def forward(self) -> Tensor:
        first, *others = [*self]
        x: Tensor = first(*self.originals)
        for module in others:
            x = module(x)
        return x


def _property(name: str) -> property:
    def read(self: Module) -> Tensor:
        if _cache is None:
            return self.parametrizations[name]()  # type: ignore[no-any-return]
        key = id(self), name
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    return property(read)


def _inject_class(module: Module, names: list[str]) -> None:
    """Gives the module a class of its own, where the parametrized tensors are properties."""
    kind = type(module)

    def assign(self: Module, name: str, value: Any) -> None:
        if is_parametrized(self, name):
            self.parametrizations[name].right_inverse(value)
        else:
            kind.__setattr__(self, name, value)

    def copied(self: Module, memo: dict[int, Any]) -> Module:
        twin: Module = object.__new__(kind)
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        _inject_class(twin, [*twin.parametrizations])
        return twin

    def refuse_pickle(self: Module, protocol: object) -> Any:
        raise RuntimeError("A parametrized module cannot be pickled: save its state_dict().")

    body = {"__setattr__": assign, "__deepcopy__": copied, "__reduce_ex__": refuse_pickle, "__module__": __name__}
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), body | {name: _property(name) for name in names})


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module parametrized tensors, or is this one of them?"""
    there = module.__dict__.get("parametrizations")
    if not isinstance(there, ModuleDict):
        return False
    return len(there) > 0 if tensor_name is None else tensor_name in there


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Computes a parameter or buffer by ``parametrization(original)`` from now on; one more is
    applied behind those that are there. unsafe: shape and dtype may change, unchecked."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        there = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            _check_same(_described("unparametrized", before), parametrization(before))
        there.append(parametrization)
        there.unsafe |= unsafe
        return module
    if module._kinds.get(tensor_name) not in ("parameter", "buffer", "transient buffer"):
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name"
            f" '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    if not is_parametrized(module):
        _inject_class(module, [])
        module.parametrizations = ModuleDict()
    delattr(module, tensor_name)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = parametrizations
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Takes the parametrizations of a tensor away; it has then the computed value, in the memory of
    the original, or the original's where not ``leave_parametrized``."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    original = parametrizations.originals[0]
    if leave_parametrized:
        computed = getattr(module, tensor_name).detach()
        if parametrizations.is_tensor:
            original.data = computed
        else:
            original = Parameter(computed, original.requires_grad) if isinstance(original, Parameter) else computed
    elif not parametrizations.is_tensor:
        raise ValueError(
            "You can only pass `leave_parametrized=False` when the tensor is parametrized by one tensor, not by"
            f" {parametrizations.ntensors}"
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before its first parametrization."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)
