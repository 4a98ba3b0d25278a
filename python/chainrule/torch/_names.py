"""Where the names of ``chainrule.torch`` come from, and what is said of a name that is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any

from ._missing import ANSWERS, IMPORT_ONLY, MISSING

PACKAGE = __package__  # chainrule.torch
ROOT = PACKAGE.rpartition(".")[0]  # chainrule
MODULES = [name.removesuffix(".*") for name in IMPORT_ONLY if name.endswith(".*")]
PACKAGES = {*MODULES, *(name.rpartition(".")[0] for name in MODULES)}  # modules that have modules inside


def advice(name: str) -> str:
    """What to use in place of a missing name."""
    parts = name.split(".")
    return next(MISSING[key] for n in range(len(parts), 0, -1) if (key := ".".join(parts[:n])) in MISSING)


def listed(name: str) -> bool:
    """Does a name exist for imports only?"""
    parts = name.split(".")
    return (
        name in IMPORT_ONLY
        or name in ANSWERS
        or (name.startswith("torchvision.models.") and name.endswith("_Weights"))
        or any(".".join(parts[:n]) + ".*" in IMPORT_ONLY for n in range(2, len(parts) + 1))
    )


def _asking() -> FrameType | None:
    """The innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__package__") or "").startswith(PACKAGE):
        frame = frame.f_back
    return frame


def place() -> str:
    """ "train.py:12": the line outside this package and the import system that is running."""
    frame = _asking()
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def message(name: str) -> str:
    """What is said of a missing name."""
    return f"{name} is not in chainrule ({place()}): {advice(name)}"


def missing(name: str) -> Exception:
    """The exception for a name that a module was asked for: in ``from module import name`` an ImportError."""
    from opcode import opmap

    module, _, last = name.rpartition(".")
    frame = _asking()
    if frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(message(name), name=module)
    return AttributeError(message(name), name=last)


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
