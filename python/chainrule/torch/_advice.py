"""What is said of a name of PyTorch that is missing."""

from __future__ import annotations

import sys
from types import FrameType

from ._missing import MISSING

PACKAGE = __package__  # chainrule.torch


def advice(name: str) -> str:
    """What to use in place of a missing name."""
    parts = name.split(".")
    return next(MISSING[key] for n in range(len(parts), 0, -1) if (key := ".".join(parts[:n])) in MISSING)


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
