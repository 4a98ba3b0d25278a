"""What a recorded step reads from Python: found while it runs, written down as guards, compared before each replay.

A profile function notes the code that runs.  Its names say which globals, cells, attributes and entries of containers
the step may read; ``Walk`` visits what is reachable by these names.  Numbers and texts are compared by value, other
objects by identity, containers item by item.  A step that reads what cannot be compared (a clock, a file, an iterator,
random numbers of Python) is refused, and so is one that changes what it reads: a replay would not.  src/plan/README.md
has the rule ("What a step may read")."""

from __future__ import annotations

import gc
import inspect
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from . import _core
from ._core import Device, Tensor
from ._noted import Fixed, Planned, noted
from ._trace import INSTALLED, OWN, STANDARD, USER, Code, Refused, Trace, file_origin, origin_of

ITEM, INDEX, SIZE, ATTRIBUTE, TYPE, TENSOR, VALUE, ENTRIES = range(8)  # the kinds, as in python/src/plan.c
MOST = 100_000  # guards of a step
BYTES = 1 << 16  # of an array of another library
PLAIN = {int, float, complex, str, bytes, bool, type(None), type(...), range, slice, _core.dtype, Device}
# a special method -> those that Python would prefer to it
_PREFERRED = {
    "__len__": ("__bool__",),
    "__getitem__": ("__iter__", "__contains__"),
    "__iter__": ("__contains__",),
    "__index__": ("__float__", "__int__", "__complex__"),
    "__repr__": ("__str__", "__format__"),
    "__str__": ("__format__",),
    "__getattr__": ("__getattribute__",),
}


ABSENT = ...  # the value of an entry that a dict must not have


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


_Cached = type(lru_cache(len))
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)


def _names_of(kind: type) -> dict[str, Any]:
    """The dict of a class, of which ``vars`` is a view."""
    names: dict[str, Any] = gc.get_referents(vars(kind))[0]
    return names


def _called(f: Callable[[], Any]) -> Any:
    return f()


def _behind(proxy: Any) -> Any:
    """The object of a weak proxy; None: it has ended."""
    try:
        return proxy.__repr__.__self__
    except ReferenceError:
        return None


class Walk:
    """The guards of what ``roots`` and the code of a trace reach."""

    def __init__(self, trace: Trace, roots: Iterable[tuple[str, Any]]) -> None:
        from .nn.module import Module
        from .optim.fused import Fused

        self._module, self._optimizer = Module, Fused
        self.codes = trace.codes
        if trace.refused:
            raise Refused(trace.refused)
        self.settings = trace.settings
        self.names: set[str] = set()
        self.user_names: set[str] = set()
        self._roots = [*roots]
        known = -1
        while len(self.names) + len(self.codes) > known:  # a walk may find more names, and code
            known = len(self.names) + len(self.codes)
            self._read()
            self._walk()
        self._put_together()
        self.capsule = _core._guards(self.entries)
        self.retired, self.lost = False, ""  # an object that the guards name has ended; the path of the first one

    def _read(self) -> None:
        """The names in the code."""
        for code, (origin, _) in self.codes.items():
            texts = [c for c in code.co_consts if type(c) is str and c.isidentifier()]
            self.names.update(code.co_names, texts)
            if origin == USER:
                self.user_names.update(code.co_names, texts)
        self.names.update(code.co_name for code in self.codes if code.co_name.startswith("__"))  # what operators call
        self.user_names -= set(dir(Tensor))
        self._shown = shown = {code: Code(code) for code, (origin, _) in self.codes.items() if origin == USER}
        self.every_name = any(code.every_name for code in shown.values())
        read = {name for code in shown.values() for name in code.read}
        self.logs = {name for code in shown.values() for name in code.written} - read
        self.optional: set[str] = set()  # names that an object may not have: ``getattr(x, "name", None)``
        for code in shown:
            self.optional.update(c for c in code.co_consts if type(c) is str and c.isidentifier())
            if code.co_exceptiontable:  # of ``try``
                self.optional.update(code.co_names)
        if any("_version" in code.co_names for code in shown):
            raise Refused("the step reads _version, which each write changes")

    def _walk(self) -> None:
        self.logged: list[tuple[str, Any, int]] = []  # containers that the step only adds to, with their lengths
        self.entries: list[tuple[Any, ...]] = []
        self.paths: list[str] = []
        self.captured: list[Tensor] = []
        self._seen: dict[int, Any] = {}
        self._known: set[tuple[int, int, Any]] = set()
        for path, root in self._roots:
            self._visit(root, path)
        for code, (origin, names) in [*self.codes.items()]:
            if origin != USER:
                self._globals(code.co_names, origin, names)
            elif code in self._shown:  # else found by this walk
                self._globals(self._shown[code].globals, origin, names)
                for name in self._shown[code].modules:
                    self._visit(sys.modules.get(name), name)
        for f in self.settings:
            self._guard(VALUE, f, _called, f(), f"{f.__name__}()")
        for of, key in noted.entries:
            self._guard(ITEM, of, key, of.get(key, ABSENT), "the state of an optimizer")
            if isinstance(of.get(key), Tensor):
                self._visit(of[key], "the state of an optimizer")

    def _put_together(self) -> None:
        """Guards of one dict follow each other: they are compared only where the dict has changed."""
        first: dict[int, int] = {}
        order = [first.setdefault(id(x[1]), i) if isinstance(x[1], dict) else i for i, x in enumerate(self.entries)]
        by_dict = sorted(range(len(order)), key=order.__getitem__)
        self.entries[:] = [self.entries[i] for i in by_dict]
        self.paths[:] = [self.paths[i] for i in by_dict]

    @property
    def reached(self) -> Container[int]:
        """Identities of objects from outside."""
        return self._seen

    def let_go(self) -> None:
        """From now on objects may end.  The guards of one that does are retired; what has no weak references stays."""
        kept: dict[int, Any] = {}
        ends: dict[int, weakref.ref[Any]] = {}
        paths: dict[int, str] = {}

        me, retire = weakref.ref(self), _core._guards_retire  # not by global names: the interpreter may be ending

        def ended(end: Any) -> None:
            walk = me()
            if walk is not None:
                walk.retired = True
                walk.lost = walk.lost or paths.get(id(end), "")
                if retire(walk.capsule):
                    walk._held.clear()

        for (kind, of, key, was), path in zip(self.entries, self.paths, strict=True):
            kept[id(key)] = key
            for x in (of, *(was if kind == ENTRIES else (was,))):
                if id(x) in kept or id(x) in ends:
                    continue
                try:
                    ends[id(x)] = weakref.ref(x, ended)
                    paths[id(ends[id(x)])] = path
                except TypeError:
                    kept[id(x)] = x
        self._held = [*kept.values()]
        self._ends = [*ends.values()]
        self._seen = dict.fromkeys(self._seen)
        self.entries, self.captured, self._roots = [], [], []

    def changed(self) -> str:
        """The first thing that is not as it was; empty: all is."""
        at = _core._guards_fail(self.capsule)
        if at == len(self.paths):
            return self.lost or "whether an object lives"
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
        if kind in PLAIN or issubclass(kind, Fixed) or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if kind in _PROXIES:
            self._visit(_behind(x), path)
        elif isinstance(x, Tensor):
            self._tensor(x, path)
        elif isinstance(x, Planned):
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
        elif isinstance(x, _Cached):
            self._add_code(x)
            self._visit(x.__wrapped__, path)
            self._object(x, path)
        elif isinstance(x, attrgetter):
            self.names.update(name for path in x.__reduce__()[1] for name in path.split("."))
        elif isinstance(x, types.ModuleType):
            if x is sys and "modules" in self.user_names:
                raise Refused("the step reads sys.modules: import what it needs")
            if file_origin(getattr(x, "__file__", None) or ("<frozen " if x.__spec__ else "")) == USER:
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
            self._visit(x(), path)
        elif isinstance(x, list | set | deque) and path.rpartition(".")[2] in self.logs:
            self.logged.append((path, x, len(x)))
        elif isinstance(x, list | tuple | dict | set | frozenset | deque):
            self._container(x, path)
            if origin_of(kind) == USER:
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
        if x.__dict__ or (self.optional and file_origin(x.__code__.co_filename) == USER):
            self._named(x.__dict__, path)
        if x.__code__ not in self.codes:
            return
        own = self.codes[x.__code__][0] == OWN  # the library does not change its own functions
        if self.codes[x.__code__][0] == USER:
            self._guard(ATTRIBUTE, x, "__code__", x.__code__, path)
        for name in () if own else ("__defaults__", "__kwdefaults__"):
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
            if not own:
                self._guard(ATTRIBUTE, cell, "cell_contents", value, name)
            self._visit(value, name)

    def _add_code(self, x: Any) -> None:
        """The code behind a cache may have run before the recordings, with all that it calls."""
        if isinstance(x, _Cached):
            x = x.__wrapped__
        if not isinstance(x, types.FunctionType) or x.__code__ in self.codes:
            return
        if file_origin(x.__code__.co_filename) == USER:
            self.codes[x.__code__] = USER, x.__globals__
            for name in Code(x.__code__).globals:
                self._add_code(x.__globals__.get(name))
            for value in inspect.getclosurevars(x).nonlocals.values():
                self._add_code(value)

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
        user = origin_of(kind) == USER
        for owner in kind.__mro__[:-1]:
            mine = vars(owner)
            for name in self._of_one_class(owner, mine):
                yield kind if user and name not in found else owner, owner, name
                found.add(name)

    def _of_one_class(self, owner: type, mine: Mapping[str, Any]) -> Collection[str]:
        if origin_of(owner) != USER:
            return self.names.intersection(mine)
        if self.every_name:
            return [*mine]
        # an operator may have another name than its code: ``__rmul__ = __mul__``
        run = {name for name, x in mine.items() if getattr(x, "__code__", None) in self.codes}
        return run | self.names.intersection(mine)

    def _of_class(self, at: type, owner: type, name: str, path: str) -> bool:
        """An attribute that instances find in their class.  Is it one that an attribute of theirs would hide?"""
        value = vars(owner)[name]
        inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(inner, property):
            if origin_of(owner) == USER or getattr(inner.fget, "__code__", None) in self.codes:
                self._found(at, owner, name, path)
            self._visit(inner.fget, path)
            return False
        if isinstance(inner, types.FunctionType):
            while inner.__code__ not in self.codes and hasattr(inner, "__wrapped__"):
                inner = inner.__wrapped__
            if inner.__code__ not in self.codes:
                return False
            self._found(at, owner, name, path)
            self._visit(value, f"{path}.{name}")
            for other in _PREFERRED.get(name, ()):
                self._hidden(at.__mro__, other, path)
            return True
        if isinstance(inner, _Cached):
            self._visit(inner, f"{path}.{name}")
        if hasattr(type(inner), "__get__"):
            if origin_of(owner) == USER and not isinstance(inner, types.MemberDescriptorType):
                self._found(at, owner, name, path)
            return False
        if origin_of(owner) != USER and type(inner) not in PLAIN:
            return False
        self._found(at, owner, name, path)
        self._visit(value, f"{path}.{name}")
        return True

    def _found(self, at: type, owner: type, name: str, path: str) -> None:
        """The attribute of ``at`` is that of ``owner``, which no class in front of it hides."""
        mro = at.__mro__
        self._hidden(mro[: mro.index(owner)], name, path)
        self._guard(ITEM, _names_of(owner), name, vars(owner)[name], f"{path}.{name}")

    def _hidden(self, classes: Iterable[type], name: str, path: str) -> None:
        for kind in classes:
            if origin_of(kind) == USER:
                self._guard(ITEM, _names_of(kind), name, vars(kind).get(name, ABSENT), f"{path}.{name}")

    def _object(self, x: Any, path: str) -> None:
        mine = getattr(x, "__dict__", None)
        if not isinstance(mine, dict):
            mine = None
        elif isinstance(x, self._module):
            self._module_of(x, path)
        if mine is not None:
            self._named(mine, path)
            if any("__getattr__" in vars(owner) for owner in type(x).__mro__ if origin_of(owner) == USER):
                for name in self.user_names.difference(mine):  # may be given by __getattr__ now
                    self._guard(ITEM, mine, name, ABSENT, f"{path}.{name}")
        self._found_in_class(x, mine, path)

    def _found_in_class(self, x: Any, mine: dict[str, Any] | None, path: str) -> None:
        """What x, whose own attributes are ``mine``, has from its class."""
        kind = type(x)
        self._guard(TYPE, x, None, kind, path)
        for at, owner, name in self._of_classes(kind):
            if name[0] == "_" and name not in ("_hooked", "__call__") and origin_of(owner) == OWN:
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
        if origin_of(type(x)) == OWN:
            self._found_in_class(x, mine, path)
        else:
            self._object(x, path)
