"""The code that a recorded step runs, noted by a profile function, and what its instructions show: which names it
reads.  A step that reads what differs from call to call is refused (_guards.py)."""

from __future__ import annotations

import dis
import gc
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable
from random import Random
from typing import Any

from . import _core

OWN, STANDARD, INSTALLED, USER = range(4)  # where code comes from
_FOLDERS = (
    (os.path.dirname(os.path.abspath(__file__)) + os.sep, OWN),
    (os.sep + "site-packages" + os.sep, INSTALLED),
    (os.sep + "dist-packages" + os.sep, INSTALLED),
    (sysconfig.get_paths()["stdlib"] + os.sep, STANDARD),
    ("<frozen importlib", OWN),
    ("<frozen ", STANDARD),
)
_ENVIRONMENT = type(os.environ).__getitem__.__code__
_UNREPEATABLE = {"_contextvars", "_datetime", "_io", "_random", "_socket", "io", "posix", "random", "select", "time"}
_NEVER = (id, input, globals, __import__)
_OF_THE_MOMENT = {"data_ptr", "get_rng_state", "get_state", "initial_seed", "memory_stats", "untyped_storage"}


class Refused(Exception):
    """The step reads what a replay cannot compare."""


def file_origin(file: str) -> int:
    return next((kind for folder, kind in _FOLDERS if folder in file), USER)


def origin_of(kind: type) -> int:
    module = sys.modules.get(kind.__module__)
    return file_origin(getattr(module, "__file__", None) or "<frozen " if module else "")


class Trace:
    """The code that a step runs: ``with trace`` notes what this thread calls, without the finalizers that a garbage
    collection happens to call there."""

    def __init__(self) -> None:
        self.codes: dict[types.CodeType, tuple[int, dict[str, Any]]] = {}  # -> origin, globals
        self.settings: set[Callable[[], Any]] = set()  # that it asks for
        self.refused = ""
        self.collects: set[int] = set()  # threads in a garbage collection
        self.note = self._note  # Python's call of a profile function does not hold it, and a collection may come there

    def __enter__(self) -> Trace:
        self.outer = sys.getprofile()
        gc.callbacks.insert(0, self._leave_out)  # before callbacks of others, which are left out too
        gc.callbacks.append(self._go_on)
        sys.setprofile(self.note)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(self.outer)
        gc.callbacks.remove(self._leave_out)
        gc.callbacks.remove(self._go_on)

    def _leave_out(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and sys.getprofile() is self.note:
            self.collects.add(threading.get_ident())
            sys.setprofile(None)

    def _go_on(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and threading.get_ident() in self.collects:
            self.collects.discard(threading.get_ident())
            sys.setprofile(self.note)

    def _note(self, frame: types.FrameType, event: str, function: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code not in self.codes:
                self.codes[code] = file_origin(code.co_filename), frame.f_globals
            if code.co_name in _OF_THE_MOMENT and self.codes[code][0] == OWN:
                self._refuse(frame.f_back, f"{code.co_name}()")
            if code is _ENVIRONMENT:
                self._refuse(frame, "an environment variable")
        elif event == "c_call":
            origin = self.codes.get(code, (OWN,))[0]
            if origin != OWN:
                self._look(frame, origin, function)

    def _look(self, frame: types.FrameType, origin: int, function: Any) -> None:
        """Does a function written in C read what differs from call to call?"""
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Random) or function is os.urandom or type(owner).__module__.startswith("numpy.random"):
            self._refuse(frame, "random numbers that are not chainrule's")
        elif origin == USER:
            module = function.__module__ or (owner if isinstance(owner, type) else type(owner)).__module__
            name = function.__name__
            if function is _core.get_num_threads:
                self.settings.add(function)
            if (module in _UNREPEATABLE and name != "sleep") or function in _NEVER or name in _OF_THE_MOMENT:
                self._refuse(frame, f"{name}()")

    def _refuse(self, frame: types.FrameType | None, what: str) -> None:
        while frame and file_origin(frame.f_code.co_filename) != USER:
            if file_origin(frame.f_code.co_filename) == OWN:
                return
            frame = frame.f_back
        if frame and not self.refused:
            source = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            self.refused = f"the step reads {what} ({source}): pass the value as an argument"


_EMPTY = {"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG"}  # instructions between those that belong together


class Code:
    """What the instructions of a code object show."""

    def __init__(self, code: types.CodeType) -> None:
        self.globals: set[str] = set()  # names that it looks up there, or sets
        self.modules: set[str] = set()  # that it imports
        self.written: set[str] = set()  # names with ``append`` and its like behind them
        self.read: set[str] = set()  # names with anything else behind them
        self.every_name = "__dict__" in code.co_names  # it reads attributes by names that it does not show
        steps = [step for step in dis.get_instructions(code) if step.opname not in _EMPTY]
        for i, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
                self.globals.add(step.argval)
            if step.opname == "IMPORT_NAME":
                self.modules.add(step.argval)
            if not step.opname.startswith("LOAD_") or not isinstance(step.argval, str):
                continue
            after = steps[i + 1]
            adds = after.opname in ("LOAD_METHOD", "LOAD_ATTR") and after.argval in ("append", "add", "extend")
            (self.written if adds else self.read).add(step.argval)
            if step.opname == "LOAD_GLOBAL" and step.argval in ("getattr", "vars", "dir"):
                self.every_name |= not self._shows_name(steps[i + 1 :])

    @staticmethod
    def _shows_name(steps: list[dis.Instruction]) -> bool:
        """Is the attribute that ``getattr`` reads a text in the code?"""
        call = next((i for i, step in enumerate(steps) if step.opname == "CALL"), 0)
        name = call - 1 if steps[call].arg == 2 else call - 2
        return steps[call].arg in (2, 3) and name >= 0 and steps[name].opname == "LOAD_CONST"
