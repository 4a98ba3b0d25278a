"""Modules that hold modules, in a row, in a list, in a dict, or parameters, in a list, in a dict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_int
from typing import Any, Self, overload

from .._core import Tensor
from .module import MODULE, Module
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Row(Module):
    """Modules under the names "0", "1", ... with the operations of a list."""

    def __init__(self, modules: Iterable[Module]) -> None:
        super().__init__()
        self.extend(modules)

    def _renumber(self, modules: list[Module]) -> None:
        for name, _ in self._own(MODULE):
            delattr(self, name)
        self.extend(modules)

    def _name_at(self, i: int) -> str:
        names = [name for name, _ in self._own(MODULE)]
        if not -len(names) <= as_int(i) < len(names):
            raise IndexError(f"index {i} is out of range for {len(names)} modules")
        return names[as_int(i)]

    def _slice(self, part: slice) -> Self:
        return type(self)([*self][part])

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Self: ...
    def __getitem__(self, i: int | slice) -> Any:
        return self._slice(i) if isinstance(i, slice) else self._value_of(self._name_at(i))

    def __setitem__(self, i: int, module: Module) -> None:
        self.register_module(self._name_at(i), module)

    def __delitem__(self, i: int | slice) -> None:
        modules = [*self]
        if not isinstance(i, slice):
            self._name_at(i)  # IndexError
        del modules[i]
        self._renumber(modules)

    def __len__(self) -> int:
        return len(self._own(MODULE))

    def __iter__(self) -> Iterator[Any]:
        return iter([module for _, module in self._own(MODULE)])

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before the one at ``index``."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} modules")
        modules = [*self]
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, index: int = -1) -> Any:
        """Takes a module out and returns it."""
        module = self[index]
        del self[index]
        return module

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class Sequential(_Row):
    """Modules in a row, each called with the output of the one before: ``Sequential(Linear(2, 16),
    ReLU(), Linear(16, 1))``, or names and modules in one dict."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        first = modules[0] if len(modules) == 1 else None
        if isinstance(first, Mapping):
            super().__init__([])
            for name, module in first.items():
                self.register_module(name, module)
        else:
            super().__init__(modules)  # type: ignore[arg-type]  # a dict among several is refused there

    def _slice(self, part: slice) -> Self:
        return type(self)(dict(self._own(MODULE)[part]))

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)

    def forward(self, input: Any) -> Any:
        """The last module's result."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Row):
    """A list of registered modules: ``self.layers = ModuleList(Block() for _ in range(12))``.  It
    computes nothing itself."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def _repr_parts(self) -> list[str]:
        """Neighbours that print alike on one line, as PyTorch has it: "(0-3): 4 x Linear(...)"."""
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        return [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in runs]


class ModuleDict(Module):
    """A dict of registered modules by name.  It computes nothing itself."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:  # a subclass may have an update that needs its own __init__
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return dict(self._own(MODULE))[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.register_module(key, module)

    def __delitem__(self, key: str) -> None:
        self[key]  # KeyError
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._own(MODULE))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names, in order."""
        return [name for name, _ in self._own(MODULE)]

    def values(self) -> list[Any]:
        """The modules, in order."""
        return [module for _, module in self._own(MODULE)]

    def items(self) -> list[tuple[str, Any]]:
        """(name, module), in order."""
        return self._own(MODULE)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules; a module of the same name is replaced."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got"
                f" {type(modules).__name__}"
            )
        if isinstance(modules, Mapping | ModuleDict):
            modules = modules.items()
        for i, pair in enumerate(modules):
            if not isinstance(pair, Iterable):
                raise TypeError(f"ModuleDict update sequence element #{i} should be Iterable; is {type(pair).__name__}")
            if len(pair) != 2:
                raise ValueError(f"ModuleDict update sequence element #{i} has length {len(pair)}; 2 is required")
            self[pair[0]] = pair[1]

    def pop(self, key: str) -> Any:
        """Takes a module out and returns it."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Takes all modules out."""
        for name in self.keys():
            del self[name]


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    device_text = "" if str(value.device) == "cpu" else f" ({value.device})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}{device_text}]"


class _Parameters(Module):
    """Values under names; a tensor among them becomes a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []

    def _put(self, name: str, value: Any) -> None:
        setattr(
            self, name, Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value
        )
        if name not in self._names:
            self._names.append(name)

    def __len__(self) -> int:
        return len(self._names)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} should not be called.")

    def __repr__(self) -> str:
        lines = [f"\n    ({name}): {_described(getattr(self, name))}" for name in self._names]
        return f"{type(self).__name__}({''.join(lines)}\n)" if lines else f"{type(self).__name__}()"


class ParameterList(_Parameters):
    """A list of registered parameters; tensors become parameters, other values stay as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def _name_at(self, i: int) -> str:
        if not -len(self) <= as_int(i) < len(self):
            raise IndexError(f"index {i} is out of range")
        return self._names[as_int(i)]

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> ParameterList: ...
    def __getitem__(self, i: int | slice) -> Any:
        return type(self)([*self][i]) if isinstance(i, slice) else getattr(self, self._name_at(i))

    def __setitem__(self, i: int, value: Any) -> None:
        self._put(self._name_at(i), value)

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, name) for name in self._names])

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        self._put(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)


class ParameterDict(_Parameters):
    """A dict of registered parameters by name; tensors become parameters, other values stay as they are."""

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def _known(self, key: str) -> str:
        if key not in self._names:
            raise KeyError(key)
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._known(key))

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"Index given to ParameterDict cannot be used as a key as it is not a string (type is"
                f" '{type(key).__name__}')"
            )
        if key not in self._names and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        self._put(key, value)

    def __delitem__(self, key: str) -> None:
        delattr(self, self._known(key))
        self._names.remove(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def keys(self) -> list[str]:
        """The names, in order."""
        return [*self._names]

    def values(self) -> list[Any]:
        """The values, in order."""
        return [getattr(self, name) for name in self._names]

    def items(self) -> list[tuple[str, Any]]:
        """(name, value), in order."""
        return [(name, getattr(self, name)) for name in self._names]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or ``default``."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, put in first where it is absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, parameters: Mapping[str, Any] | ParameterDict | Iterable[tuple[str, Any]]) -> None:
        """Puts values in under their names; those of a plain dict in sorted order, as PyTorch does."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                f"ParametersDict.update should be called with an iterable of key/value pairs, but got"
                f" {type(parameters).__name__}"
            )
        if isinstance(parameters, ParameterDict | OrderedDict):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items(), key=lambda item: item[0])
        for key, value in parameters:
            self[key] = value

    def pop(self, key: str) -> Any:
        """Takes a value out and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes the last name and value out and returns them."""
        if not self._names:
            raise KeyError("the ParameterDict is empty")
        key = self._names[-1]
        return key, self.pop(key)

    def clear(self) -> None:
        """Takes all values out."""
        for key in self.keys():
            del self[key]

    def copy(self) -> ParameterDict:
        """Another dict of the same values."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with one value under all names."""
        return ParameterDict((key, default) for key in keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        return ParameterDict([*self.items(), *other.items()])

    def __ior__(self, other: Mapping[str, Any] | ParameterDict) -> Self:
        self.update(other)
        return self
