"""Where the names of ``chainrule.torch`` come from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ._advice import PACKAGE, missing
from ._missing import ANSWERS, IMPORT_ONLY

ROOT = PACKAGE.rpartition(".")[0]  # chainrule
MODULES = [name.removesuffix(".*") for name in IMPORT_ONLY if name.endswith(".*")]
PACKAGES = {*MODULES, *(name.rpartition(".")[0] for name in MODULES)}  # modules that have modules inside


def listed(name: str) -> bool:
    """Does a name exist for imports only?"""
    parts = name.split(".")
    return (
        name in IMPORT_ONLY
        or name in ANSWERS
        or (name.startswith("torchvision.models.") and name.endswith("_Weights"))
        or any(".".join(parts[:n]) + ".*" in IMPORT_ONLY for n in range(2, len(parts) + 1))
    )


def forward(module: str, *sources: str, names: dict[str, str] | None = None) -> Callable[[str], Any]:
    """``__getattr__`` of a module that has the public names of other modules: ``from chainrule.optim import *`` at
    the first use, so that names which those gain are there.  names: single names and where they are."""

    def get(name: str) -> Any:
        if name == "__all__":
            return public(module, sources)
        full = f"{module}.{name}".replace(PACKAGE, "torch", 1)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        here = sys.modules[module]
        for source in [names[name]] if names and name in names else sources:
            try:
                found = getattr(import_module(source), name)
            except (AttributeError, ImportError):
                continue
            if not (isinstance(found, ModuleType) and hasattr(here, "__path__")):
                setattr(here, name, found)
                return found
        for_imports = listed(full)
        is_module = not for_imports or f"{full}.*" in IMPORT_ONLY
        if is_module and hasattr(here, "__path__") and find_spec(f"{module}.{name}"):
            return import_module(f"{here.__name__}.{name}")  # as torch.x.y where torch is a name of this package
        if for_imports:
            from ._absent import absent

            setattr(here, name, absent(full))
            return getattr(here, name)
        raise missing(full)

    if module.replace(PACKAGE, "torch", 1) in PACKAGES:
        sys.modules[module].__dict__.setdefault("__path__", [])  # a package: modules in it can be imported
    if module.startswith((f"{PACKAGE}.nn.modules.", f"{PACKAGE}.optim")):  # packages look for classes in vars(module)
        for source in map(import_module, sources):
            for name in getattr(source, "__all__", ()):
                if isinstance(found := getattr(source, name, None), type):
                    sys.modules[module].__dict__.setdefault(name, found)
    sys.modules[module].__dict__.setdefault("__dir__", lambda: sorted({*vars(sys.modules[module]), *get("__all__")}))
    return get


def public(module: str, sources: tuple[str, ...]) -> list[str]:
    """The names that ``from module import *`` brings."""
    own = {
        name
        for name, value in vars(sys.modules[module]).items()
        if name[0] != "_" and not isinstance(value, ModuleType) and getattr(value, "__module__", module) == module
    }
    for source in sources:
        try:
            found = import_module(source)
        except ImportError:
            continue
        own |= set(getattr(found, "__all__", ()))
    return sorted(own)
