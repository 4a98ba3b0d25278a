"""Pickles that can do no harm: an interpreter of pickle's opcodes, and the list of names that a file may use.

Python's own unpickler calls what a file names.  This interpreter has no access to modules: a name of
the file is looked up in a list, and only entries of this list are called, with arguments that they
check.  Objects of any other class are refused by name."""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .. import _core

__all__ = ["Allowed", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "interpret", "safe_globals"]

MOST_KEY_PARTS = 1000  # of a tuple that is a key: hashing visits each, and recurses
RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # modules of Python 2, whose names protocol 2 keeps
# No advice to allow a name of these.
DANGEROUS = {"os", "posix", "nt", "sys", "subprocess", "shutil", "socket", "builtins", "runpy", "importlib", "ctypes"}


class Allowed(NamedTuple):
    """A function that a file may call under a name of PyTorch's; ``context`` comes first among its arguments."""

    name: str
    call: Callable[..., Any]

    def __repr__(self) -> str:
        return self.name


# ---- names that a program adds ----
_added: dict[str, Any] = {}


def _named(entry: Any) -> tuple[str, Any]:
    if isinstance(entry, tuple):
        if len(entry) != 2 or not isinstance(entry[1], str):
            raise ValueError(f"a safe global is a class or function, or (class, 'module.name'), not {entry!r}")
        return entry[1], entry[0]
    if not hasattr(entry, "__module__") or not hasattr(entry, "__qualname__"):
        raise TypeError(f"a safe global is a class or function, or (class, 'module.name'), not {entry!r}")
    return f"{entry.__module__}.{entry.__qualname__}", entry


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Classes and functions that ``load`` may use, in addition to those of tensors: loading a file
    may call them with any arguments.  An entry may be ``(class, "module.name")``, with the name that
    files have for it."""
    _added.update(dict(map(_named, safe_globals)))


def get_safe_globals() -> list[Any]:
    """What ``add_safe_globals`` added."""
    return [*_added.values()]


def clear_safe_globals() -> None:
    """Removes what ``add_safe_globals`` added."""
    _added.clear()


class safe_globals:  # noqa: N801, PyTorch's name
    """``with safe_globals([A, B]): ...``: adds safe globals for the time of the block."""

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._entries = [*safe_globals]

    def __enter__(self) -> None:
        self._before = dict(_added)
        add_safe_globals(self._entries)

    def __exit__(self, *exception: object) -> None:
        _added.clear()
        _added.update(self._before)


# ---- values ----
def checked_key(key: Any) -> Any:
    """``key``, if it can be hashed in a bounded time."""
    waiting, parts = [key], 0
    while waiting:
        part = waiting.pop()
        parts += 1
        if parts > MOST_KEY_PARTS:
            raise ValueError(f"a key with more than {MOST_KEY_PARTS} parts")
        if isinstance(part, tuple | frozenset):
            waiting.extend(part)
    return key


def _encode(context: Any, text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise ValueError(f"the encoding {encoding!r}")
    return str.encode(text, encoding)


def _bytearray(context: Any, *args: Any) -> bytearray:
    if not args:
        return bytearray()
    return bytearray(args[0] if isinstance(args[0], bytes) else _encode(context, *args))


def _ordered(context: Any, items: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(k), v) for k, v in (items.items() if isinstance(items, dict) else items))


def _counter(context: Any, items: dict[Any, int] | None = None) -> Counter[Any]:
    return Counter(dict((items or {}).items()))


def _set(context: Any, items: Any = ()) -> set[Any]:
    return {checked_key(x) for x in items}


def _number(x: Any) -> Any:
    if not isinstance(x, int | float):
        raise TypeError(f"a number is expected, not a {type(x).__name__}")
    return x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _encode,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": lambda context: b"",
    "builtins.complex": lambda context, real, imag: complex(_number(real), _number(imag)),
    "builtins.frozenset": lambda context, items=(): frozenset(_set(context, items)),
    "builtins.set": _set,
    "collections.Counter": _counter,
    "collections.OrderedDict": _ordered,
}


# ---- the interpreter ----
class Machine:
    """The state of one pickle: the stack, the stacks below its marks, and the memo."""

    def __init__(
        self, data: memoryview, at: int, names: Callable[[str], Any], persistent: Callable[[Any], Any], context: Any
    ):
        self.data, self.at, self.names, self.persistent, self.context = data, at, names, persistent, context
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    # reading
    def take(self, n: int) -> bytes:
        start, self.at = self.at, self.at + n
        if n < 0 or self.at > len(self.data):
            raise EOFError("pickle data was truncated")
        return bytes(self.data[start : self.at])

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def line(self) -> str:
        for size in (64, 4096):  # no number and no name is longer
            found = bytes(self.data[self.at : self.at + size]).find(b"\n")
            if found >= 0:
                return self.take(found + 1)[:-1].decode()
        raise EOFError("a line does not end")

    # the stack
    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack:
            raise ValueError("the stack is empty")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack:
            raise ValueError("the stack is empty")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        if not self.below:
            raise ValueError("there is no mark")
        items, self.stack = self.stack, self.below.pop()
        return items

    # containers
    def append(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not list:
            raise TypeError(f"APPEND to a {type(target).__name__}")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, dict) or len(items) % 2:
            raise TypeError(f"SETITEMS of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[checked_key(key)] = value

    def add_items(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not set:
            raise TypeError(f"ADDITEMS to a {type(target).__name__}")
        target.update(map(checked_key, items))

    def tuple_of(self, n: int) -> None:
        self.push(tuple([self.pop() for _ in range(n)][::-1]))

    # names and calls
    def find(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a name that is not a string")
        full = f"{RENAMED.get(module, module)}.{name}"
        if full in _added:
            found = _added[full]
        elif full in FUNCTIONS:
            found = Allowed(full, FUNCTIONS[full])
        else:
            found = self.names(full)
        if found is None:
            raise pickle.UnpicklingError(refusal(full))
        self.push(found)

    def call(self, function: Any, arguments: Any, named: dict[str, Any] | None = None) -> Any:
        if type(arguments) is not tuple:
            raise TypeError("the arguments of a call are not a tuple")
        if isinstance(function, Allowed):
            return function.call(self.context, *arguments)
        if not any(function is added for added in _added.values()):
            raise pickle.UnpicklingError(
                f"a call of {type(function).__name__} {str(function)[:60]!r}, which is not allowed"
            )
        try:
            return function(*arguments, **(named or {}))
        except Exception as error:  # of the program's own class
            raise Foreign(error) from error

    def make(self, named: dict[str, Any] | None = None) -> None:
        arguments = self.pop()
        kind = self.pop()
        if isinstance(kind, type) and any(kind is added for added in _added.values()):
            self.push(self.call_new(kind, arguments, named or {}))
        else:
            self.push(self.call(kind, arguments))

    def call_new(self, kind: type, arguments: Any, named: dict[str, Any]) -> Any:
        try:
            return kind.__new__(kind, *arguments, **named)
        except Exception as error:
            raise Foreign(error) from error

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if type(target) is OrderedDict:
            known = [name for name in state if not isinstance(name, str) or hasattr(OrderedDict, name)]
            if type(state) is not dict or known:
                raise TypeError(f"an OrderedDict with the attributes {known}")
            vars(target).update(state)
        elif any(type(target) is added for added in _added.values()):
            try:
                set_state(target, state)
            except Exception as error:
                raise Foreign(error) from error
        else:
            raise pickle.UnpicklingError(f"attributes are set on a {type(target).__name__}, which is not allowed")

    def run(self) -> Any:
        while True:
            code = self.take(1)
            if code == pickle.STOP:
                value = self.pop()
                if self.stack or self.below:
                    raise ValueError("values are left on the stack")
                return value
            action = OPCODES.get(code)
            if action is None:
                raise ValueError(f"the opcode {code!r} is not allowed")
            action(self)


class Foreign(Exception):
    """Wraps an exception of a class or function of the program, which ``load`` raises as it is."""


def set_state(target: Any, state: Any) -> None:
    """As pickle gives an object its attributes."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    vars(target).update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def refusal(full: str) -> str:
    """Why a name is refused."""
    if full.partition(".")[0] in DANGEROUS:
        return f"unsupported global {full}: a file of weights has no use for it"
    return (
        f"unsupported global {full}: it is not on the list of allowed names. If you trust the file and this class,"
        f" allow it by chainrule.serialization.add_safe_globals([{full.rpartition('.')[2]}]), or load with"
        " weights_only=False, which runs code of the file"
    )


def _put(m: Machine, key: int) -> None:
    m.memo[key] = m.top()


def _get(m: Machine, key: int) -> None:
    if key not in m.memo:
        raise ValueError(f"memo {key} is not set")
    m.push(m.memo[key])


def _decimal(m: Machine) -> None:
    text = m.line()
    m.push({"00": False, "01": True}[text] if text in ("00", "01") else int(text.removesuffix("L")))


def _long(m: Machine, n: int) -> None:
    m.push(int.from_bytes(m.take(n), "little", signed=True))


def _old_text(m: Machine, n: int) -> None:
    raw = m.take(n)  # str of Python 2: text or bytes
    try:
        m.push(raw.decode())
    except UnicodeDecodeError:
        m.push(raw)


MOST_MARKS = 100_000  # of lists in lists; each takes many times its byte


def _mark(m: Machine) -> None:
    if len(m.below) >= MOST_MARKS:
        raise ValueError(f"more than {MOST_MARKS} values are inside each other")
    m.below.append(m.stack)
    m.stack = []


def _stack_global(m: Machine) -> None:
    name, module = m.pop(), m.pop()
    m.find(module, name)


def _reduce(m: Machine) -> None:
    arguments, function = m.pop(), m.pop()
    m.push(m.call(function, arguments))


def _new_with_names(m: Machine) -> None:
    named = m.pop()
    if type(named) is not dict:
        raise TypeError("the arguments of a call are not a dict")
    m.make(named)


def _discard(m: Machine) -> None:
    if m.stack:
        m.pop()
    else:
        m.since_mark()


def _pair(m: Machine) -> list[Any]:
    value, key = m.pop(), m.pop()
    return [key, value]


def _dict(m: Machine) -> None:
    items = m.since_mark()
    m.push({})
    m.set_items(items)


def _protocol(m: Machine) -> None:
    if (n := m.number("B")) > 5:
        raise ValueError(f"pickle protocol {n}")


OPCODES: dict[bytes, Callable[[Machine], None]] = {
    pickle.PROTO: _protocol,
    pickle.FRAME: lambda m: m.number("Q"),
    pickle.POP: _discard,
    pickle.POP_MARK: lambda m: _forget(m.since_mark()),
    pickle.DUP: lambda m: m.push(m.top()),
    pickle.MARK: _mark,
    # numbers
    pickle.NONE: lambda m: m.push(None),
    pickle.NEWTRUE: lambda m: m.push(True),
    pickle.NEWFALSE: lambda m: m.push(False),
    pickle.INT: _decimal,
    pickle.LONG: _decimal,
    pickle.BININT: lambda m: m.push(m.number("i")),
    pickle.BININT1: lambda m: m.push(m.number("B")),
    pickle.BININT2: lambda m: m.push(m.number("H")),
    pickle.LONG1: lambda m: _long(m, m.number("B")),
    pickle.LONG4: lambda m: _long(m, m.number("i")),
    pickle.FLOAT: lambda m: m.push(float(m.line())),
    pickle.BINFLOAT: lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    # text and bytes
    pickle.SHORT_BINSTRING: lambda m: _old_text(m, m.number("B")),
    pickle.BINSTRING: lambda m: _old_text(m, m.number("i")),
    pickle.SHORT_BINUNICODE: lambda m: m.push(m.take(m.number("B")).decode("utf-8", "surrogatepass")),
    pickle.BINUNICODE: lambda m: m.push(m.take(m.number("I")).decode("utf-8", "surrogatepass")),
    pickle.BINUNICODE8: lambda m: m.push(m.take(m.number("Q")).decode("utf-8", "surrogatepass")),
    pickle.SHORT_BINBYTES: lambda m: m.push(m.take(m.number("B"))),
    pickle.BINBYTES: lambda m: m.push(m.take(m.number("I"))),
    pickle.BINBYTES8: lambda m: m.push(m.take(m.number("Q"))),
    pickle.BYTEARRAY8: lambda m: m.push(bytearray(m.take(m.number("Q")))),
    # containers
    pickle.EMPTY_LIST: lambda m: m.push([]),
    pickle.LIST: lambda m: m.push(m.since_mark()),
    pickle.APPEND: lambda m: m.append([m.pop()]),
    pickle.APPENDS: lambda m: m.append(m.since_mark()),
    pickle.EMPTY_TUPLE: lambda m: m.push(()),
    pickle.TUPLE: lambda m: m.push(tuple(m.since_mark())),
    pickle.TUPLE1: lambda m: m.tuple_of(1),
    pickle.TUPLE2: lambda m: m.tuple_of(2),
    pickle.TUPLE3: lambda m: m.tuple_of(3),
    pickle.EMPTY_DICT: lambda m: m.push({}),
    pickle.DICT: _dict,
    pickle.SETITEM: lambda m: m.set_items(_pair(m)),
    pickle.SETITEMS: lambda m: m.set_items(m.since_mark()),
    pickle.EMPTY_SET: lambda m: m.push(set()),
    pickle.ADDITEMS: lambda m: m.add_items(m.since_mark()),
    pickle.FROZENSET: lambda m: m.push(frozenset(map(checked_key, m.since_mark()))),
    # names, calls, storages
    pickle.GLOBAL: lambda m: m.find(m.line(), m.line()),
    pickle.STACK_GLOBAL: _stack_global,
    pickle.REDUCE: _reduce,
    pickle.NEWOBJ: lambda m: m.make(),
    pickle.NEWOBJ_EX: _new_with_names,
    pickle.BUILD: lambda m: m.build(),
    pickle.BINPERSID: lambda m: m.push(m.persistent(m.pop())),
    # the memo
    pickle.PUT: lambda m: _put(m, int(m.line())),
    pickle.BINPUT: lambda m: _put(m, m.number("B")),
    pickle.LONG_BINPUT: lambda m: _put(m, m.number("I")),
    pickle.MEMOIZE: lambda m: _put(m, len(m.memo)),
    pickle.GET: lambda m: _get(m, int(m.line())),
    pickle.BINGET: lambda m: _get(m, m.number("B")),
    pickle.LONG_BINGET: lambda m: _get(m, m.number("I")),
}


def _forget(_: object) -> None:
    """Does nothing; an action has no result."""


def interpret(
    data: memoryview,
    label: str,
    names: Callable[[str], Any],
    persistent: Callable[[Any], Any],
    context: Any = None,
    at: int = 0,
) -> tuple[Any, int]:
    """The value of a pickle, and where the pickle ends.  names: what a name of the file stands for,
    None where it is refused; persistent: what a persistent id stands for.  UnpicklingError: a pickle
    that is damaged, or names something else."""
    machine = Machine(data, at, names, persistent, context)
    try:
        return machine.run(), machine.at
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(f"[load] '{label}': {error}") from None
    except (EOFError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, _core.Error) as error:
        where = f"[load] '{label}': damaged pickle at byte {machine.at - at}"
        raise pickle.UnpicklingError(f"{where}: {error or type(error).__name__}") from error
