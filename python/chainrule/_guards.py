"""What a recorded step reads from Python: found while it runs, written down as guards, compared before each replay.

A profile function notes the code that runs.  Its names say which globals, cells, attributes and entries of containers
the step may read; ``Walk`` visits what is reachable by these names.  Numbers and texts are compared by value, other
objects by identity, containers item by item.  A step that reads what cannot be compared (a clock, a file, an iterator,
random numbers of Python) is refused, and so is one that changes what it reads: a replay would not.  src/plan/README.md
has the rule ("What a step may read")."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter, methodcaller
from random import Random
from typing import Any

from . import _core
from ._core import Device, Tensor

ITEM, INDEX, SIZE, ATTRIBUTE, TYPE, TENSOR, VALUE, ENTRIES = range(8)  # the kinds, as in python/src/plan.c
MOST = 100_000  # guards of a step
BYTES = 1 << 16  # of an array of another library
PLAIN = {int, float, complex, str, bytes, bool, type(None), type(...), range, slice, _core.dtype, Device}
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


class Refused(Exception):
    """The step reads what a replay cannot compare."""


def _origin(file: str) -> int:
    return next((kind for folder, kind in _FOLDERS if folder in file), USER)


class Trace:
    """The code that a step runs: ``with trace`` notes what this thread calls."""

    def __init__(self) -> None:
        self.codes: dict[types.CodeType, tuple[int, dict[str, Any]]] = {}  # -> origin, globals
        self.refused = ""

    def __enter__(self) -> Trace:
        self.outer = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(self.outer)

    def _note(self, frame: types.FrameType, event: str, function: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code not in self.codes:
                self.codes[code] = _origin(code.co_filename), frame.f_globals
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
            if (module in _UNREPEATABLE and function.__name__ != "sleep") or function in _NEVER:
                self._refuse(frame, f"{function.__name__}()")

    def _refuse(self, frame: types.FrameType | None, what: str) -> None:
        while frame and _origin(frame.f_code.co_filename) != USER:
            if _origin(frame.f_code.co_filename) == OWN:
                return
            frame = frame.f_back
        if frame and not self.refused:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            self.refused = f"the step reads {what} ({place}): pass the value as an argument"


class _Noted(threading.local):
    """Entries of dicts that the step which this thread records has named itself."""

    def __init__(self) -> None:
        self.entries: list[tuple[dict[Any, Any], Any]] = []


noted = _Noted()
ABSENT = ...  # the value of an entry that a dict must not have


def note(of: dict[Any, Any], key: Any) -> None:
    """The step that is recorded reads this entry."""
    noted.entries.append((of, key))


_EMPTY = {"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG"}  # instructions between those that belong together


class _Code:
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


def _identities(items: Iterable[Any]) -> str:
    return str([id(x) for x in items])


def _identities_sorted(items: Iterable[Any]) -> str:
    return str(sorted(id(x) for x in items))


def _entries(mapping: Any) -> str:
    return str([(id(key), id(value)) for key, value in mapping.items()])


def _contents(array: Any) -> bytes:
    return bytes(memoryview(array).tobytes() if not hasattr(array, "tobytes") else array.tobytes())


def _has_contents(x: Any) -> bool:
    try:
        return memoryview(x) is not None
    except (TypeError, ValueError, BufferError):
        return hasattr(type(x), "__array_interface__")


def _alive(reference: Any) -> str:
    return str(id(reference()))


class Walk:
    """The guards of what ``roots`` and the code of a trace reach."""

    def __init__(self, trace: Trace, roots: Iterable[tuple[str, Any]]) -> None:
        from ._compile import Compiled
        from .nn.module import Module
        from .optim.fused import Fused

        self._compiled, self._module, self._optimizer = Compiled, Module, Fused
        self.codes = trace.codes
        if trace.refused:
            raise Refused(trace.refused)
        self.names: set[str] = set()
        self.user_names: set[str] = set()
        for code, (origin, _) in self.codes.items():
            texts = [c for c in code.co_consts if type(c) is str and c.isidentifier()]
            self.names.update(code.co_names, texts)
            if origin == USER:
                self.user_names.update(code.co_names, texts)
        self.names.update(code.co_name for code in self.codes if code.co_name.startswith("__"))  # what operators call
        self.user_names -= set(dir(Tensor))
        shown = {code: _Code(code) for code, (origin, _) in self.codes.items() if origin == USER}
        self.every_name = any(code.every_name for code in shown.values())
        read = {name for code in shown.values() for name in code.read}
        self.logs = {name for code in shown.values() for name in code.written} - read
        self.optional: set[str] = set()  # names that an object may not have: ``getattr(x, "name", None)``
        for code in shown:
            self.optional.update(c for c in code.co_consts if type(c) is str and c.isidentifier())
            if code.co_exceptiontable:  # of ``try``
                self.optional.update(code.co_names)
        self.logged: list[tuple[str, Any, int]] = []  # containers that the step only adds to, with their lengths
        self._shown, self._roots = shown, [*roots]
        known = -1
        while len(self.names) > known:  # a walk may find more names
            known = len(self.names)
            self._walk()
        self.capsule = _core._guards(self.entries)

    def _walk(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.paths: list[str] = []
        self.captured: list[Tensor] = []
        self._seen: dict[int, Any] = {}
        self._known: set[tuple[int, int, Any]] = set()
        for path, root in self._roots:
            self._visit(root, path)
        for code, (origin, names) in [*self.codes.items()]:
            self._globals(self._shown[code].globals if origin == USER else code.co_names, origin, names)
            for name in self._shown[code].modules if origin == USER else ():
                self._visit(sys.modules.get(name), name)
        for of, key in noted.entries:
            self._guard(ITEM, of, key, of.get(key, ABSENT), "the state of an optimizer")
            if isinstance(of.get(key), Tensor):
                self._visit(of[key], "the state of an optimizer")

    @property
    def reached(self) -> dict[int, Any]:
        """Objects from outside, by identity."""
        return self._seen

    def changed(self) -> str:
        """The first thing that is not as it was; empty: all is."""
        at = _core._guards_fail(self.capsule)
        kept = (path for path, x, n in self.logged if any(type(item) not in PLAIN for item in [*x][n:]))
        return self.paths[at] if at >= 0 else next(kept, "")

    def _guard(self, kind: int, of: Any, key: Any, was: Any, path: str) -> None:
        at = kind, id(of), key if type(key) in PLAIN else id(key)
        if at in self._known:
            return
        if len(self.entries) == MOST:
            raise Refused(f"the step reads more than {MOST} values from outside: pass what it needs as arguments")
        self._known.add(at)
        self.entries.append((kind, of, key, was))
        self.paths.append(path)

    def _globals(self, read: Iterable[str], origin: int, names: dict[str, Any]) -> None:
        for name in read:
            if name not in names and origin == USER:  # a builtin, which a global of that name would hide
                self._guard(ITEM, names, name, ABSENT, name)
            if name not in names or origin == STANDARD:
                continue
            value = names[name]
            if origin == USER or (origin == INSTALLED and type(value) in PLAIN) or name.startswith("_GLOBAL"):
                self._guard(ITEM, names, name, value, name)
                self._visit(value, name)

    def _visit(self, x: Any, path: str) -> None:
        kind = type(x)
        if kind in PLAIN or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, Tensor):
            self._tensor(x, path)
        elif isinstance(x, self._compiled):
            self._visit(x.f, path)
        elif isinstance(x, self._optimizer):
            self._optimizer_of(x, path)
        elif isinstance(x, types.FunctionType):
            self._function(x, path)
        elif isinstance(x, types.MethodType):
            self._visit(x.__self__, path)
            self._visit(x.__func__, path)
        elif isinstance(x, partial):
            for part in (x.func, x.args, x.keywords):
                self._visit(part, path)
        elif isinstance(x, attrgetter):
            self.names.update(name for path in x.__reduce__()[1] for name in path.split("."))
        elif isinstance(x, types.ModuleType):
            if x is sys and "modules" in self.user_names:
                raise Refused("the step reads sys.modules: import what it needs")
            if _origin(getattr(x, "__file__", None) or ("<frozen " if x.__spec__ else "")) == USER:
                self._named(x.__dict__, path)
        elif isinstance(x, type):
            self._class(x, path)
        elif isinstance(x, staticmethod | classmethod):
            self._visit(x.__func__, path)
        elif isinstance(x, property):
            self._visit(x.fget, path)
        elif isinstance(x, types.BuiltinFunctionType):
            if not isinstance(x.__self__, types.ModuleType):
                self._visit(x.__self__, path)
        elif isinstance(x, weakref.ref):
            self._guard(VALUE, x, _alive, _alive(x), path)
            self._visit(x(), path)
        elif isinstance(x, list | set | deque) and path.rpartition(".")[2] in self.logs:
            self.logged.append((path, x, len(x)))
        elif isinstance(x, list | tuple | dict | set | frozenset | deque):
            self._container(x, path)
            if _origin_of(kind) == USER:
                self._object(x, path)
        elif hasattr(kind, "__next__") or isinstance(x, types.CoroutineType):
            raise Refused(f"the step reads {path}, a {kind.__name__}, which changes as it is read: pass the next item")
        elif isinstance(x, types.MappingProxyType):
            self._guard(VALUE, x, _entries, _entries(x), path)
            for key, value in x.items():
                self._visit(value, f"{path}[{key!r:.40}]")
        elif _has_contents(x):
            self._array(x, path)
        else:
            self._object(x, path)

    def _tensor(self, x: Tensor, path: str) -> None:
        self.captured.append(x)
        self._guard(TENSOR, x, None, None, path)
        for name in self.user_names:  # attributes that a user set
            if hasattr(x, name):
                value = getattr(x, name)
                self._guard(ATTRIBUTE, x, name, value, f"{path}.{name}")
                self._visit(value, f"{path}.{name}")
        for name in self.optional - {*dir(x)}:
            self._guard(ITEM, x.__dict__, name, ABSENT, f"{path}.{name}")

    def _array(self, x: Any, path: str) -> None:
        contents = _contents(x)
        if len(contents) > BYTES:
            raise Refused(f"the step reads {path}, an array of {len(contents)} bytes: make it a tensor before the step")
        self._guard(VALUE, x, _contents, contents, path)

    def _container(self, x: Any, path: str) -> None:
        if isinstance(x, dict):
            if isinstance(x, OrderedDict):  # its order is not that of its memory
                self._guard(VALUE, x, _entries, _entries(x), path)
            self._guard(ENTRIES, x, None, tuple(part for item in x.items() for part in item), path)
            for key, value in [*x.items()]:
                self._visit(value, f"{path}[{key!r:.40}]")
            return
        if isinstance(x, list):
            self._guard(SIZE, x, None, None, path)
            for i, value in enumerate([*x]):
                self._guard(INDEX, x, i, value, f"{path}[{i}]")
        elif isinstance(x, set | deque):
            if len(x) > MOST:
                raise Refused(f"the step reads {path}, which has {len(x)} items")
            look: Callable[[Any], str] = _identities if isinstance(x, deque) else _identities_sorted
            self._guard(VALUE, x, look, look(x), path)
        for i, value in enumerate([*x]):
            self._visit(value, f"{path}[{i}]")

    def _function(self, x: types.FunctionType, path: str) -> None:
        if x.__dict__ or (self.optional and _origin(x.__code__.co_filename) == USER):
            self._named(x.__dict__, path)
        if x.__code__ not in self.codes:
            return
        if self.codes[x.__code__][0] == USER:
            self._guard(ATTRIBUTE, x, "__code__", x.__code__, path)
        for name in ("__defaults__", "__kwdefaults__"):
            if (value := getattr(x, name)) is not None:
                self._guard(ATTRIBUTE, x, name, value, path)
        first = x.__code__.co_argcount - len(x.__defaults__ or ())
        for name, value in zip(x.__code__.co_varnames[first:], x.__defaults__ or (), strict=False):
            self._visit(value, name)
        if x.__kwdefaults__:
            self._container(x.__kwdefaults__, path)
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # empty
                continue
            self._guard(ATTRIBUTE, cell, "cell_contents", value, name)
            self._visit(value, name)

    def _named(self, names: dict[str, Any], path: str) -> None:
        """Attributes by the names that the code has."""
        if self.every_name:
            self._guard(SIZE, names, None, None, path)
        for name in [*names] if self.every_name else self.names.intersection(names):
            self._guard(ITEM, names, name, names[name], f"{path}.{name}")
            self._visit(names[name], f"{path}.{name}")
        for name in self.optional.difference(names):
            self._guard(ITEM, names, name, ABSENT, f"{path}.{name}")

    def _class(self, x: type, path: str) -> None:
        for at, owner, name in self._of_classes(x):
            self._of_class(at, owner, name, path)

    def _of_classes(self, kind: type) -> Iterator[tuple[type, type, str]]:
        """Attributes of a class by the names that the code has: where they are looked up, in which class they are, and
        their names.  A subclass of a user may get one that hides that of its base."""
        found: set[str] = set()
        user = _origin_of(kind) == USER
        for owner in kind.__mro__[:-1]:
            mine = vars(owner)
            for name in [*mine] if self.every_name and _origin_of(owner) == USER else self.names.intersection(mine):
                yield kind if user and name not in found else owner, owner, name
                found.add(name)

    def _of_class(self, at: type, owner: type, name: str, path: str) -> bool:
        """An attribute that instances find in their class.  Is it one that an attribute of theirs would hide?"""
        value = vars(owner)[name]
        inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(inner, property):
            if _origin_of(owner) == USER or getattr(inner.fget, "__code__", None) in self.codes:
                self._guard(ATTRIBUTE, at, name, getattr(at, name), f"{path}.{name}")
            self._visit(inner.fget, path)
            return False
        if isinstance(inner, types.FunctionType):
            while inner.__code__ not in self.codes and hasattr(inner, "__wrapped__"):
                inner = inner.__wrapped__
            if inner.__code__ not in self.codes:
                return False
            if isinstance(value, classmethod):  # each look-up binds it anew
                self._guard(VALUE, at, attrgetter(f"{name}.__func__"), getattr(at, name).__func__, f"{path}.{name}")
            else:
                self._guard(ATTRIBUTE, at, name, getattr(at, name), f"{path}.{name}")
            self._visit(value, f"{path}.{name}")
            return True
        if hasattr(type(inner), "__get__"):
            if _origin_of(owner) == USER and not isinstance(inner, types.MemberDescriptorType):
                for kind in {owner, at}:
                    get = methodcaller("get", name)
                    self._guard(VALUE, vars(kind), get, get(vars(kind)), f"{path}.{name}")
            return False
        if _origin_of(owner) != USER and type(inner) not in PLAIN:
            return False
        self._guard(ATTRIBUTE, at, name, value, f"{path}.{name}")
        self._visit(value, f"{path}.{name}")
        return True

    def _object(self, x: Any, path: str) -> None:
        mine = getattr(x, "__dict__", None)
        if not isinstance(mine, dict):
            mine = None
        elif isinstance(x, self._module):
            self._module_of(x, path)
        if mine is not None:
            self._named(mine, path)
            if any("__getattr__" in vars(owner) for owner in type(x).__mro__ if _origin_of(owner) == USER):
                for name in self.user_names.difference(mine):  # may be given by __getattr__ now
                    self._guard(ITEM, mine, name, ABSENT, f"{path}.{name}")
        self._found_in_class(x, mine, path)

    def _found_in_class(self, x: Any, mine: dict[str, Any] | None, path: str) -> None:
        """What x, whose own attributes are ``mine``, has from its class."""
        kind = type(x)
        self._guard(TYPE, x, None, kind, path)
        for at, owner, name in self._of_classes(kind):
            if name[0] == "_" and name not in ("_hooked", "__call__") and _origin_of(owner) == OWN:
                continue  # of the library, for itself
            if isinstance(vars(owner)[name], types.MemberDescriptorType):  # of __slots__
                value = getattr(x, name, ABSENT)
                self._guard(ATTRIBUTE, x, name, value, f"{path}.{name}")
                self._visit(value, f"{path}.{name}")
            elif self._of_class(at, owner, name, path) and mine is not None and name not in mine and name[:2] != "__":
                self._guard(ITEM, mine, name, ABSENT, f"{path}.{name}")

    def _module_of(self, x: Any, path: str) -> None:
        """Parameters, buffers and modules of a module are reached by names that are no part of the code."""
        if "_hooked" in x.__dict__:
            for name in vars(self._module):
                if name.endswith("_hooks"):
                    self._guard(ITEM, x.__dict__, name, x.__dict__.get(name, ABSENT), f"{path}.{name}")
        kinds = x.__dict__.get("_kinds", {})
        self._guard(SIZE, kinds, None, None, path)
        self._seen[id(kinds)] = kinds
        for name in kinds:
            value = x.__dict__.get(name)
            self._guard(ITEM, x.__dict__, name, value, f"{path}.{name}")
            self._visit(value, f"{path}.{name}")

    def _optimizer_of(self, x: Any, path: str) -> None:
        """A step of ours reads options again before each replay, and counts; its moments are noted as it runs."""
        mine = x.__dict__
        for name in mine:
            hooks = "hook" in name or callable(mine[name])
            if hooks or name in ("state", "param_groups"):
                self._guard(ITEM, mine, name, mine[name], f"{path}.{name}")
            if hooks or name in self.user_names:
                self._visit(mine[name], f"{path}.{name}")
        groups = mine.get("param_groups", ())
        self._guard(SIZE, groups, None, None, f"{path}.param_groups")
        for i, group in enumerate(groups):
            at = f"{path}.param_groups[{i}]"
            self._guard(INDEX, groups, i, group, at)
            for name in ("params", "maximize"):
                self._guard(ITEM, group, name, group.get(name, ABSENT), f"{at}[{name!r}]")
            self._visit(group["params"], f"{at}['params']")
        if _origin_of(type(x)) == OWN:
            self._found_in_class(x, mine, path)
        else:
            self._object(x, path)


def _origin_of(kind: type) -> int:
    module = sys.modules.get(kind.__module__)
    return _origin(getattr(module, "__file__", None) or "<frozen " if module else "")
