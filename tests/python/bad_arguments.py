"""Calls every function, method, operator, constructor and setter with bad arguments: whatever
comes, a Python exception and no crash.

use: bad_arguments.py SEED CALLS TRACE      calls of each callable; the call under way is written to the file TRACE

Run by test_bad_arguments.py under limits of memory and time.  Good calls of table.py are spoiled:
an argument replaced, left out, added or given twice.  Exits with 1 and a message when an exception
is lost, is not of a kind that Python code can expect, or when memory grows."""

from __future__ import annotations

import operator
import os
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(
    0, str(Path(os.environ.get("CHAINRULE_BUILD", Path(__file__).parents[2] / "build" / "release")) / "python")
)

import chainrule as cr  # noqa: E402
import compare  # noqa: E402
import table  # noqa: E402


class Boom(Exception):
    """Raised by arguments; it must come out of the call that met it."""

    met = 0

    def __init__(self) -> None:
        Boom.met += 1


class Raises:
    def __index__(self) -> int:
        raise Boom

    def __float__(self) -> float:
        raise Boom

    def __len__(self) -> int:
        raise Boom

    def __iter__(self) -> Any:
        raise Boom

    def __getitem__(self, i: int) -> int:
        raise Boom


class RaisesIndex:
    def __index__(self) -> int:
        raise Boom


class RaisesFloat:
    def __float__(self) -> float:
        raise Boom


class Lies:
    """Says 5, has 2."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, i: int) -> int:
        if i < 2:
            return 1
        raise IndexError


class LiesNegative(Lies):
    def __len__(self) -> int:
        return -5


class LiesHuge(Lies):
    def __len__(self) -> int:
        return 2**62


class NoIndex:
    def __index__(self) -> Any:
        return "1"


class NoFloat:
    def __float__(self) -> Any:
        return None


class Clears:
    """Empties the list that holds it, while it is read; makes and frees tensors."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held

    def __index__(self) -> int:
        self.held.clear()
        cr.zeros(3).add_(1)
        return 1

    __float__ = __index__


class Grows:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __index__(self) -> int:
        self.held.extend([1] * 100)
        return 1


class Fails:
    """__index__ fails inside the library and leaves no trace there."""

    def __index__(self) -> int:
        try:
            cr.zeros(2, 3) @ cr.zeros(2, 3)
        except RuntimeError:
            pass
        return 1


class Int(int):
    def __index__(self) -> int:
        raise Boom


class Float(float):
    def __float__(self) -> float:
        raise Boom


class List(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter([1, "x"])

    def __len__(self) -> int:
        return 99


class Str(str):
    def __eq__(self, other: object) -> bool:
        raise Boom

    __hash__ = str.__hash__


class Sub(cr.Tensor):
    pass


def holding(kind: Callable[[list[Any]], Any], at: int, n: int = 3) -> list[Any]:
    held: list[Any] = [1] * n
    held[at] = kind(held)
    return held


def recursive() -> list[Any]:
    x: list[Any] = [1]
    x.append(x)
    return x


def deep(n: int) -> Any:
    x: Any = 1
    for _ in range(n):
        x = [x]
    return x


def needs_grad() -> cr.Tensor:
    return cr.ones(3, 5, dtype=cr.float64).requires_grad_()


PLAIN: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    7,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**400,
    1.5,
    -0.0,
    1e308,
    1e-320,
    float("nan"),
    float("inf"),
    -float("inf"),
    1j,
    "",
    "x",
    "cpu",
    "cuda",
    "cpu:99999999999999999999",
    "cuda:-1",
    "float32",
    "\udc80",
    "a\0b",
    "%s%n",
    "trunc",
    b"",
    b"abc",
    (),
    (1,),
    (2, 3),
    (-1,),
    (2**40, 2**40),
    (0, 2**62),
    (2**62, 0),
    (-1, -1),
    (1,) * 9,
    (1,) * 100,
    (None,),
    ("1",),
    (1.5,),
    ((1, 2), 3),
    [[1, 2], [3]],
    [[], 1],
    [[]],
    [None],
    {},
    {1: 2},
    {1, 2},
    range(3),
    range(10**15),
    slice(None),
    ...,
    NotImplemented,
    int,
    float,
    bool,
    str,
    object,
    len,
    sys,
    cr,
    cr.float32,
    cr.int8,
    cr.bool,
    cr.bfloat16,
    cr.Tensor,
    cr.default_generator,
]


def same(x: Any) -> Any:
    return x


BAD: list[Callable[[], Any]] = [
    *[partial(same, v) for v in PLAIN],
    object,
    Raises,
    RaisesIndex,
    RaisesFloat,
    Lies,
    LiesNegative,
    LiesHuge,
    NoIndex,
    NoFloat,
    Fails,
    recursive,
    lambda: deep(7),
    lambda: deep(9),
    lambda: deep(100000),
    lambda: holding(Clears, 0),
    lambda: holding(Clears, 1),
    lambda: holding(Clears, 2),
    lambda: tuple(holding(Clears, 1)),
    lambda: [holding(Clears, 1), [1, 2, 3]],
    lambda: holding(Grows, 1),
    lambda: [Raises()],
    lambda: [[RaisesIndex()]],
    lambda: (1, RaisesFloat()),
    lambda: [Fails(), 2],
    lambda: Int(3),
    lambda: Float(2.5),
    lambda: List([1, 2]),
    lambda: Str("cpu"),
    lambda: [Int(3)],
    lambda: [Float(2)],
    lambda: bytearray(b"abcdefgh"),
    lambda: memoryview(b"abcdefgh"),
    lambda: memoryview(bytearray(8)).cast("d"),
    lambda: (i for i in range(3)),
    lambda: iter([1]),
    lambda: map(int, "12"),
    lambda: cr.Device("cpu"),
    lambda: cr.Device.ref(),
    cr.Generator,
    lambda: cr.zeros(2, 3).shape,
    lambda: cr.tensor(1),
    lambda: cr.tensor(2.5),
    lambda: cr.tensor(True),
    lambda: cr.zeros(0),
    lambda: cr.zeros(3, 0, 2),
    lambda: cr.ones(3, 5),
    lambda: cr.ones(5, 3).T,
    lambda: cr.ones(3, 5, dtype=cr.bool),
    lambda: cr.arange(15).reshape(3, 5),
    lambda: cr.arange(6) - 3,
    lambda: cr.full((3, 5), 2**62),
    lambda: cr.ones(1).expand(1000, 7),
    lambda: cr.ones(3, 5, dtype=cr.float16),
    lambda: cr.ones(3, 5, device="ref"),
    needs_grad,
    lambda: needs_grad().mul(2),
    lambda: needs_grad().mul(2)[1:],
    lambda: needs_grad().mul(2).grad_fn,
    lambda: cr.full((3,), float("nan")),
    lambda: cr.zeros(*[1] * 8),
    lambda: Sub([1.0, 2.0]),
    lambda: [cr.ones(3), None],
    lambda: [cr.ones(3)] * 50,
    lambda: (cr.ones(3), cr.ones(2)),
    lambda: [cr.zeros(0), 1],
    lambda: [cr.ones(1, device="ref"), cr.ones(1)],
    lambda: {"dim": 0},
    Exception,
    lambda: Exception("x"),
    lambda: type("T", (), {"__index__": None})(),
    lambda: type("F", (), {"__float__": 5})(),
    lambda: type("I", (), {"__iter__": None, "__len__": 3})(),
]
KEYWORDS = [
    "dim",
    "axis",
    "keepdim",
    "keepdims",
    "dtype",
    "device",
    "input",
    "other",
    "x",
    "x1",
    "x2",
    "size",
    "shape",
    "out",
    "requires_grad",
    "alpha",
    "generator",
    "self",
    "",
    "\udc80",
    "copy",
    "correction",
    "dims",
    "value",
]


def constructors() -> list[tuple[str, Any]]:
    return [
        (n, getattr(cr, n))
        for n in ("Tensor", "Device", "Generator", "Size", "dtype", "Error", "DtypeError", "OutOfMemoryError")
    ] + [("Sub", Sub)]


def reflected(f: Any) -> Any:
    return lambda a, b: f(b, a)


def operators() -> list[tuple[str, Any]]:
    names = (
        "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge getitem setitem"
        " delitem contains neg abs invert pos index iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift"
        " irshift imatmul concat countOf"
    ).split()
    more: list[tuple[str, Any]] = [
        (f.__name__, f)
        for f in (
            bool,
            int,
            float,
            len,
            list,
            hash,
            str,
            divmod,
            round,
            reversed,
            complex,
            format,
            bytes,
            dir,
            vars,
            iter,
            sum,
            pow,
        )
    ]
    return (
        [(n, getattr(operator, n)) for n in names]
        + [("r" + n, reflected(getattr(operator, n))) for n in names[:19]]
        + more
    )


def setters() -> list[tuple[str, Any]]:
    found = []
    for owner in (cr.Tensor, cr.Device, cr.dtype, cr.Generator, cr.Node):
        for name in dir(owner):
            if type(getattr(owner, name, None)).__name__ in ("getset_descriptor", "member_descriptor"):
                found += [
                    (f"get {name}", lambda x, n=name: getattr(x, n)),
                    (f"set {name}", lambda x, v, n=name: setattr(x, n, v)),
                    (f"del {name}", lambda x, n=name: delattr(x, n)),
                ]
    return found


def methods(owner: Any) -> list[tuple[str, Any]]:
    return [
        (n, getattr(owner, n))
        for n in dir(owner)
        if callable(getattr(owner, n, None))  # Device.Gpu is there where a GPU is
        and (
            not n.startswith("__")
            or n in {"__reduce__", "__array__", "__dlpack__", "__dlpack_device__", "__deepcopy__", "__copy__"}
        )
    ]


def everything() -> list[tuple[str, Any]]:
    functions = [(n, getattr(cr, n)) for n in dir(cr) if type(getattr(cr, n)).__name__ == "builtin_function_or_method"]
    owned = [
        (f"{o.__name__}.{n}", f)
        for o in (cr.Tensor, cr.Device, cr.Generator, cr.Size, cr.dtype, cr.Node)
        for n, f in methods(o)
    ]
    bound = [(f"cpu.{n}", f) for n, f in methods(cr.Device("cpu"))]
    pictures = [(f"viz.{n}", getattr(cr.viz, n)) for n in cr.viz.__all__]
    return functions + pictures + owned + bound + constructors() + operators() + setters()


def good_call(name: str, r: random.Random, known: dict[str, list[table.Call]]) -> tuple[list[Any], dict[str, Any]]:
    plain = name.split(".")[-1]
    if plain not in known:
        rows = table.ROWS.get(plain) or table.ROWS.get(plain.removesuffix("_"))
        known[plain] = list(rows()) if rows else []
    if not known[plain]:
        return [cr.ones(3, 5) if r.random() < 0.7 else r.choice(BAD)() for _ in range(r.randrange(4))], {}
    args, kwargs = r.choice(known[plain])
    leaves: list[Any] | None = [] if r.random() < 0.3 else None
    try:
        return [compare.build(x, cr, leaves) for x in args], {
            k: compare.build(x, cr, leaves) for k, x in kwargs.items()
        }
    except Exception:
        return [cr.ones(3, 5)], {}


def spoil(args: list[Any], kwargs: dict[str, Any], r: random.Random) -> None:
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        what = r.random()
        if what < 0.65 and args:
            args[r.randrange(len(args))] = r.choice(BAD)()
        elif what < 0.75 and kwargs:
            kwargs[r.choice(list(kwargs))] = r.choice(BAD)()
        elif what < 0.85:
            kwargs[r.choice(KEYWORDS)] = r.choice(BAD)()
        elif what < 0.92:
            args.insert(r.randrange(len(args) + 1), r.choice(BAD)())
        elif args:
            args.pop(r.randrange(len(args)))


def describe(x: Any) -> str:
    if isinstance(x, cr.Tensor):
        return f"Tensor{tuple(x.shape)} {x.dtype}"
    try:
        return f"{type(x).__name__} {x!r:.60}"
    except Exception:
        return type(x).__name__


def complain(text: str) -> None:
    print(text.encode("utf-8", "backslashreplace").decode(), flush=True)
    sys.exit(1)


SKIPPED = {
    "set_num_threads",
    "Tensor.cuda",
    "Tensor.gpu",
    "__reduce__",
}  # threads by the million; devices that are not there


def once(name: str, f: Any, args: list[Any], kwargs: dict[str, Any], trace: int) -> None:
    text = f"{name}({', '.join(map(describe, args))}, **{ {k: describe(v) for k, v in kwargs.items()} })"
    os.pwrite(trace, text.encode("utf-8", "backslashreplace")[:1000].ljust(1000), 0)
    Boom.met = 0
    try:
        f(*args, **kwargs)
        error: BaseException | None = None
    except Exception as e:
        error = e
    if isinstance(error, SystemError):
        complain(f"{text}: {error!r}")
    if error and not str(error) and type(error) not in (Boom, MemoryError, IndexError, StopIteration):
        complain(f"{text}: {error!r} has no message")
    if Boom.met and not isinstance(error, Boom) and not isinstance(error, TypeError):
        complain(f"{text}: an argument's exception was lost: {error!r}")


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    seed, calls, trace = sys.argv[1], int(sys.argv[2]), os.open(sys.argv[3], os.O_RDWR | os.O_CREAT)
    cr.set_num_threads(2)
    known: dict[str, list[table.Call]] = {}
    pythons = {name for name, _ in operators()}
    done = 0
    callables = everything()  # a call may delete an attribute of a module that it is given
    for name, f in callables:
        if name in SKIPPED:
            continue
        r = random.Random(f"{seed} {name}")
        for _ in range(calls):
            args, kwargs = good_call(name, r, known)
            spoil(args, kwargs, r)
            if name[:4] in ("get ", "set ", "del "):  # an owner and a value, no name of an attribute
                args, kwargs = args[: 1 + name.startswith("set ")], {}
            if name in pythons and not any(isinstance(x, cr.Tensor) for x in args):
                continue  # Python's own work, such as 3 ** 10 ** 400
            once(name, f, args, kwargs, trace)
            cr._core._set_grad_enabled(True)
            done += 1
            if done % 256 == 0 and (cr.ones(2) + 1).tolist() != [2, 2]:
                complain(f"{name}: something stayed behind")
    print(f"{done} calls of {len(callables)} callables, {resident() >> 20} MiB resident")


if __name__ == "__main__":
    main()
