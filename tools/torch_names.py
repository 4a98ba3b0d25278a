"""Which names of a list are in ``chainrule.torch``: lines "scripts repositories name", or only a name.

A name is torch.x.y, Tensor.x or Module.x; "torch.x(a=, b=)" asks for arguments, "torch.x(3 positional)" for their
number.
use: torch_names.py FILE"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from typing import Any

cr = import_module("chainrule")
_advice = import_module("chainrule.torch._advice")


def found(name: str) -> Any:
    """The thing of a name.  AttributeError or ImportError: there is none."""
    first, *rest = name.split(".")
    thing: Any = {"Tensor": cr.Tensor, "Module": cr.nn.Module}.get(first)
    if thing is None:
        thing = import_module(_advice.PACKAGE)
    at = _advice.PACKAGE
    for part in rest:
        at += "." + part
        try:
            thing = getattr(thing, part)
        except AttributeError:
            if not inspect.ismodule(thing):
                raise
            thing = import_module(at)
    return thing


def for_imports(name: str) -> bool:
    """Is it one of the names that exist for imports only?"""
    try:
        kind = type(found(name.partition("(")[0]))
    except (AttributeError, ImportError):
        return False
    module = sys.modules.get(f"{_advice.PACKAGE}._absent")
    return module is not None and issubclass(kind, (module.Absent, module._Dtype))


def takes(thing: Any, wanted: str) -> bool:
    """Does a call take these arguments, as "a=, b=" or "3 positional"?"""
    names = re.findall(r"(\w+)=", wanted)
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return False
    kinds = [p.kind for p in parameters.values()]
    positional = re.match(r"(\d+) positional", wanted)
    if positional:
        usual = sum(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds)
        return inspect.Parameter.VAR_POSITIONAL in kinds or usual >= int(positional[1])
    return inspect.Parameter.VAR_KEYWORD in kinds or set(names) <= set(parameters)


def is_there(line: str) -> bool:
    """Is the name, with the arguments that the line asks for?"""
    name, _, arguments = line.partition("(")
    try:
        thing = found(name)
    except (AttributeError, ImportError):
        return False
    return not arguments or takes(thing, arguments.rstrip(")"))


def report(arguments: list[str]) -> int:
    """Prints what is missing, and the shares."""
    if len(arguments) != 1:
        print("use: torch_names.py FILE")
        return 2
    rows: list[tuple[Any, ...]] = []
    with open(arguments[0]) as file:
        for line in file:
            parts = re.match(r"\s*(?:(\d+)\s+(\d+)\s+)?([A-Za-z_][\w.]*(?:\(.*\))?)\s*$", line)
            if parts:
                scripts, repositories, name = parts.groups()
                rows.append((int(scripts or 1), int(repositories or 1), name))
    imported = [row for row in rows if for_imports(row[2])]
    missing = [row for row in rows if row in imported or not is_there(row[2])]
    for scripts, repositories, name in missing:
        note = "  (can be imported)" * for_imports(name)
        print(f"{scripts:5} {repositories:4}  {name}{note}")
    for at, what in ((0, "by scripts"), (1, "by repositories")):
        total, lost = sum(row[at] for row in rows), sum(row[at] for row in missing)
        print(f"{100 * (total - lost) / max(total, 1):.1f} % of the uses are there, counted {what}")
    print(f"{len(imported)} of the missing names can be imported, which is enough where they are not used")
    often = [row for row in missing if row[1] >= 3]
    print(f"{len(rows) - len(missing)} of {len(rows)} names are there; missing in 3 repositories or more: {len(often)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(report(sys.argv[1:]))
