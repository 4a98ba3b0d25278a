"""The parts of the reference are complete: a docstring for every public name, an entry for every
function of the header.  The blocks of the pages are run by tests/check_pages.py; that each name is
on a page is checked by `make docs`."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import Any

import differences
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import reference  # noqa: E402


def test_differences() -> None:
    assert differences.PAGE.read_text() == differences.page(), (
        f"{differences.PAGE} is not current: run python tests/python/differences.py"
    )


def of_drop_in(member: Any) -> bool:
    """Importing chainrule.torch, as another test may have done, adds members to Tensor."""
    return str(getattr(getattr(member, "fget", member), "__module__", "")).startswith("chainrule.torch")


@pytest.mark.parametrize("module", reference.MODULES)
def test_docstrings(module: str) -> None:
    """The docstrings of every public name and of the methods and properties that a class defines."""
    package = importlib.import_module("chainrule" + module)
    named = {name: getattr(package, name) for name in package.__all__}
    for name, thing in list(named.items()):
        if inspect.isclass(thing) and thing.__module__.startswith("chainrule"):
            named |= {
                f"{name}.{member}": value
                for member, value in vars(thing).items()
                if member[0] != "_" and member != "forward" and not of_drop_in(value)
            }
    assert not [name for name, thing in named.items() if not inspect.getdoc(thing)]


def test_header() -> None:
    text = reference.public_header()
    declared = set(re.findall(r"^(?!typedef|inline)\w[\w ]*[ *](cr_\w+)\(", text, re.MULTILINE))
    made = re.findall(r"{c:function} [^(]*?(\w+)\(", reference.header(text))
    assert len(declared) > 400 and set(made) == declared and len(made) == len(declared)


def test_signatures() -> None:
    """A class of nn names its arguments; those that take any arguments are PyTorch's."""
    nn = importlib.import_module("chainrule.nn")
    kinds = [
        x for name in nn.__all__ if inspect.isclass(x := getattr(nn, name)) and x.__module__.startswith("chainrule")
    ]
    wide = {
        kind.__name__
        for kind in kinds
        if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(kind).parameters.values())
    }
    assert wide == {"Identity", "LazyModuleMixin"} and len(kinds) > 150


LINES = {"docs/design.md": 200, "docs/performance.md": 100, "README.md": 150}


def test_pages_stay_short() -> None:
    """A page of a room has at most 80 lines, the newest version of the changelog 60."""
    rooms = [*(ROOT / "src").rglob("*.md"), ROOT / "python" / "README.md"]
    limits = {**{ROOT / name: most for name, most in LINES.items()}, **dict.fromkeys(rooms, 80)}
    lines = {page: len(page.read_text(encoding="utf-8").splitlines()) for page in limits}
    assert not [(page, n) for page, n in lines.items() if n > limits[page]] and len(rooms) > 12
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert len(newest.splitlines()) <= 60
