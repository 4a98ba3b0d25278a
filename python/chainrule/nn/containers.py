"""Modules that hold modules: in a row, in a list, in a dict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_int
from typing import Any, Self, overload

from .module import MODULE, Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


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
        return self._slice(i) if isinstance(i, slice) else self.__dict__[self._name_at(i)]

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

    def _parts(self) -> list[str]:
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

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
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
        """Adds modules, or puts them in the places of those of the same names."""
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module

    def pop(self, key: str) -> Any:
        """Takes a module out and returns it."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Takes all modules out."""
        for name in self.keys():
            del self[name]
