"""Every function and method by name, with a generator of calls.  A call is (args, kwargs) where an X stands for a tensor, so that
it can be made in chainrule and in PyTorch from the same numbers.  test_names.py walks it; a name without a row fails there."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

FLOATS = ["float64", "float32", "float16", "bfloat16"]
WHOLES = ["int64", "int32", "int16", "int8", "uint8"]
NUMBERS = [*FLOATS, *WHOLES]
ANY = [*NUMBERS, "bool"]
SHAPES = [(3, 5), (), (7,), (0,), (2, 0, 3), (5, 1, 3), (2, 3, 5, 7)]
PAIRS = [((3, 5), (3, 5)), ((3, 5), (5,)), ((5, 1), (1, 7)), ((), (3,)), ((3, 0), (1,)), ((2, 3, 5), (3, 1)), ((1,), (0,)), ((), ())]
LAYOUTS = ["plain", "transposed", "strided"]


def backwards(t: Any) -> Any:
    """Along every axis: a view, but in PyTorch, which has no negative strides."""
    return t.flip(tuple(range(t.dim()))) if type(t).__module__.startswith("torch") else t[(slice(None, None, -1),) * t.dim()]


@dataclass(frozen=True, repr=False)
class X:
    """A tensor of numbers in [low, high), the same for the same seed."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    low: float = -3
    high: float = 3
    layout: str = "plain"
    seed: int = 0
    grad: bool = True  # where the dtype has one
    order: bool = False  # instead: 0, 1, 2... in some order
    kind: str = "any"  # of floats: "whole" numbers, for ties; "special" ones among others

    def __repr__(self) -> str:
        return f"X({self.shape}, {self.dtype}{'' if self.layout == 'plain' else ', ' + self.layout}{'' if self.kind == 'any' else ', ' + self.kind})"

    def base(self) -> tuple[tuple[int, ...], Callable[[Any], Any]]:
        """The shape to be made, and the view of it that has this layout."""
        if self.layout == "transposed":
            return self.shape[::-1], lambda t: t.permute(tuple(range(len(self.shape)))[::-1])
        if self.layout == "strided" and self.shape:
            return (*self.shape[:-1], 2 * self.shape[-1] + 1), lambda t: t[..., 1::2]
        if self.layout == "backwards":
            return self.shape, backwards
        if self.layout == "sorted" and self.shape:  # along the last axis
            return self.shape, lambda t: t.sort(-1)[0]
        if self.layout == "offset" and self.shape:
            return (self.shape[0] + 2, *self.shape[1:]), lambda t: t[1:-1]
        if self.layout == "expanded" and self.shape:
            return (*self.shape[:-1], 1), lambda t: t.expand(self.shape)
        return self.shape, lambda t: t

    def make(self, lib: Any, leaves: list[Any] | None = None) -> Any:
        """The tensor in a library.  With `leaves`, floats are computed from a leaf that is appended there."""
        shape, view = self.base()
        r = random.Random(f"{self.seed} {shape} {self.dtype}")
        n = math.prod(shape)
        if self.order:
            values: list[Any] = r.sample(range(n), n)
        elif self.dtype in FLOATS and self.kind != "whole":
            special = [math.nan, math.inf, -math.inf, 0.0, -0.0] if self.kind == "special" else []
            values = [r.choice(special) if special and r.random() < 0.2 else r.uniform(self.low, self.high) for _ in range(n)]
        elif self.dtype == "bool":
            values = [r.random() < 0.5 for _ in range(n)]
        else:
            low = 0 if self.dtype.startswith("u") and self.low < 0 else math.ceil(self.low)
            values = [r.randrange(low, max(low + 1, math.ceil(self.high))) for _ in range(n)]
        t = lib.tensor(values, dtype=getattr(lib, self.dtype))
        if leaves is not None and self.grad and self.dtype in FLOATS:
            t.requires_grad_(True)
            leaves.append(t)
            t = t.clone()
        return view(t.reshape(shape))


Call = tuple[tuple[Any, ...], dict[str, Any]]
Cases = Callable[[], Iterator[Call]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


# ---- families --------------------------------------------------------------------------------------------------------------------


def unary(low: float = -3, high: float = 3, dtypes: list[str] = ANY, **parameters: list[Any]) -> Cases:
    def cases() -> Iterator[Call]:
        for shape, dtype, layout in product(SHAPES, dtypes, LAYOUTS):
            yield call(X(shape, dtype, low, high, layout))
        for name, values in parameters.items():
            for v in values:
                yield call(X((3, 5), "float64", low, high), **{name: v})
                yield call(X((3, 5), "float32", low, high, "strided"), **{name: v})

    return cases


def binary(low: float = -3, high: float = 3, dtypes: list[str] = ANY, numbers: list[Any] | None = None, **parameters: list[Any]) -> Cases:
    def cases() -> Iterator[Call]:
        for a, b in PAIRS:
            yield call(X(a, "float64", low, high), X(b, "float64", low, high, seed=1))
            yield call(X(a, "float32", low, high, "transposed"), X(b, "float32", low, high, "strided", seed=1))
        for d, e in product(dtypes, dtypes):
            yield call(X((3, 5), d, low, high), X((5,), e, low, high, seed=1))
            yield call(X((3, 5), d, low, high), X((), e, low, high, seed=1))
        for d, number in product(dtypes, [1, 2.5, True] if numbers is None else numbers):
            yield call(X((3, 5), d, low, high), number)
        for name, values in parameters.items():
            for v, d in product(values, dtypes):
                yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), **{name: v})
                yield call(X((3, 5), d, low, high), 2, **{name: v})

    return cases


def reduction(dtypes: list[str] = ANY, dims: bool = True, none: bool = True, shapes: list[tuple[int, ...]] = SHAPES) -> Cases:
    """dims: a tuple of axes is allowed; none: no axis means all"""

    def cases() -> Iterator[Call]:
        for shape, dtype, layout in product(shapes, dtypes, LAYOUTS):
            if none:
                yield call(X(shape, dtype, layout=layout))
            for dim, keep in product(range(-len(shape), len(shape)), (False, True)):
                yield call(X(shape, dtype, layout=layout), dim, keepdim=keep)
            yield call(X(shape, dtype, layout=layout), 0, keepdim=True)
        if dims:
            for axes, keep in product([(0, 2), (-1, 0), (), (1,), [0, 1], (0, 1, 2)], (False, True)):
                yield call(X((2, 3, 5)), axes, keepdim=keep)
                yield call(X((2, 0, 3)), axes, keepdim=keep)
            yield call(X((2, 3, 5)), dim=(0, 0))

    return cases


def listed(*calls: Call) -> Cases:
    return lambda: iter(calls)


def both(*rows: Cases) -> Cases:
    return lambda: chain.from_iterable(f() for f in rows)


def shaped(*rest: Call, shapes: list[tuple[int, ...]] = SHAPES) -> Cases:
    """Views and copies: the same arguments for all shapes; where they do not fit, both must fail in the same way."""

    def cases() -> Iterator[Call]:
        for shape, layout, (args, kwargs) in product(shapes, LAYOUTS, rest):
            yield call(X(shape, layout=layout), *args, **kwargs)
        for args, kwargs in rest:
            yield call(X((3, 5), "int64"), *args, **kwargs)
            yield call(X((3, 5), "bool"), *args, **kwargs)

    return cases


def arranged(*rest: Call) -> Cases:
    """shaped, also of views backwards and of other dtypes."""

    def cases() -> Iterator[Call]:
        yield from shaped(*rest)()
        for dtype, (args, kwargs) in product(ANY, rest):
            yield call(X((3, 5), dtype, layout="backwards"), *args, **kwargs)
        for shape, (args, kwargs) in product(SHAPES, rest):
            yield call(X(shape, layout="backwards"), *args, **kwargs)

    return cases


def created(*calls: Call) -> Cases:
    def cases() -> Iterator[Call]:
        for args, kwargs in calls:
            yield call(*args, **kwargs)
            for dtype in ("float64", "int32", "bool", "bfloat16"):
                yield call(*args, **kwargs, dtype=Dtype(dtype))
            yield call(*args, **kwargs, requires_grad=True)

    return cases


@dataclass(frozen=True, repr=False)
class Dtype:
    name: str

    def __repr__(self) -> str:
        return self.name


SIZES = [
    call(2, 3),
    call((2, 3)),
    call([2, 3]),
    call(),
    call(()),
    call(0),
    call((4, 0, 2)),
    call(size=(2, 3)),
    call(X((), "int64", 2, 3)),
    call(-1),
    call((2, -3)),
    call(2.0),
    call("2"),
    call(None),
    call(2, "3"),
    call((2, 3), 4),
    call(2, 3.5),
]
DIM_PAIRS = [call(a, b) for a, b in product((0, 1, -1, -2, 2, 5), repeat=2)] + [call(0, 1.0), call("0", 1), call(None, 0)]
MATRICES = [
    ((3, 5), (5, 7)),
    ((5,), (5, 7)),
    ((3, 5), (5,)),
    ((5,), (5,)),
    ((2, 3, 5), (2, 5, 7)),
    ((2, 3, 5), (5, 7)),
    ((3, 5), (2, 5, 7)),
    ((4, 1, 3, 5), (2, 5, 7)),
    ((0, 5), (5, 7)),
    ((3, 0), (0, 7)),
    ((3, 5), (7, 5)),
    ((), (3,)),
    ((3,), ()),
    ((2, 3, 5), (3, 5, 7)),
    ((2, 3, 5), (5,)),
    ((5,), (2, 5, 7)),
    ((1, 1), (1, 1)),
    ((3, 2), (3, 2)),
    ((2, 3, 4), (2, 3, 4)),
]


def matrices(*more: Call) -> Cases:
    def cases() -> Iterator[Call]:
        for (a, b), dtype, layout in product(MATRICES, ("float64", "float32"), LAYOUTS):
            yield call(X(a, dtype, layout=layout), X(b, dtype, layout=layout, seed=1))
        for d, e in product(ANY, ANY):
            yield call(X((3, 5), d), X((5, 7), e, seed=1))
            if d == e:
                yield call(X((3,), d), X((3,), e, seed=1))
                yield call(X((2, 3, 5), d), X((2, 5, 7), e, seed=1))
        yield from more

    return cases


def index(shape: tuple[int, ...], high: int, low: int = 0, dtype: str = "int64", seed: int = 9) -> X:
    return X(shape, dtype, low, high, seed=seed)


def gathers() -> Iterator[Call]:
    for dtype, layout in product(ANY, LAYOUTS):
        x = X((3, 5), dtype, layout=layout)
        yield call(x, 0, index((2, 4), 3))
        yield call(x, 1, index((3, 9), 5))
        yield call(x, -1, index((2, 0), 5))
        yield call(x, dim=1, index=index((1, 1), 5))
    x = X((3, 5))
    yield call(x, 2, index((2, 4), 3))
    yield call(x, 0, index((2, 4), 9, 5))
    yield call(x, 0, index((2, 4), 0, -3))
    yield call(x, 0, index((2, 6), 3))
    yield call(x, 0, index((2,), 3))
    yield call(x, 0, index((2, 4), 3, dtype="float32"))
    yield call(x, 0, index((2, 4), 3, dtype="int32"))
    yield call(X(()), 0, index((), 1))
    yield call(X((7,)), 0, index((3,), 7))
    yield call(X((0,)), 0, index((0,), 1))
    yield call(X((0,)), 0, index((1,), 1))
    yield call(X((3, 5)), 1, index((9, 0), 5))


def scatters() -> Iterator[Call]:
    for dtype in ANY:
        yield call(X((3, 5), dtype), 0, index((2, 4), 3), X((2, 4), dtype, seed=3))
        yield call(X((3, 5), dtype, layout="strided"), 1, index((3, 9), 5), X((3, 9), dtype, layout="transposed", seed=3))
    x = X((3, 5))
    yield call(x, 0, index((2, 4), 3), X((3, 5), seed=3))
    yield call(x, 0, index((2, 4), 3), X((1, 4), seed=3))
    yield call(x, 0, index((2, 4), 9, 5), X((2, 4), seed=3))
    yield call(x, 0, index((2, 4), 3), X((2, 4), "float32", seed=3))
    yield call(x, 5, index((2, 4), 3), X((2, 4), seed=3))
    yield call(X(()), 0, index((), 1), X((), seed=3))


def order(*shape: int) -> X:
    """Places that differ: which of two that are written to one place stays is not defined in PyTorch."""
    return X(shape, "int64", order=True)


def scatters_of_values() -> Iterator[Call]:
    for dtype, layout in product(ANY, LAYOUTS):
        x = X((7, 5), dtype, layout=layout)
        yield call(x, 0, order(6, 1), X((6, 1), dtype, seed=3))
        yield call(x, 0, order(2, 3), X((4, 5), dtype, seed=3, layout=layout))
        yield call(x, -2, order(3, 2), 2)
        yield call(x, 0, order(1, 0), 1)
    x = X((7, 5))
    yield call(x, 0, order(3, 2), value=2.5)
    yield call(x, dim=0, index=order(3, 2), src=X((3, 2), seed=3))
    yield call(x, 0, order(3, 2), X((3, 1), seed=3))
    yield call(x, 0, order(3, 2), X((3, 2), "float32", seed=3))
    yield call(x, 0, index((2, 4), 9, 7), 1.0)
    yield call(x, 0, index((2, 4), 0, -3), 1.0)
    yield call(x, 0, order(3, 2))
    yield call(x, 5, order(3, 2), 1.0)
    yield call(X(()), 0, index((), 1), 2.0)


def along_dims() -> Iterator[Call]:
    for dtype, layout in product(ANY, LAYOUTS):
        x = X((3, 5), dtype, layout=layout)
        yield call(x, index((2, 5), 3), 0)
        yield call(x, index((1, 5), 3), 0)
        yield call(x, index((3, 1), 5), dim=1)
        yield call(x, index((4,), 15))
        yield call(x, index((2, 2), 15), None)
    yield call(X((3, 1, 2)), index((1, 4, 2), 1), 1)
    yield call(X((1, 5)), index((3, 2), 5), 1)
    yield call(X((3, 5)), index((2, 4), 3), 0)
    yield call(X((3, 5)), index((2,), 3), 0)
    yield call(X((3, 5)), index((2, 5), 9, 3), 0)
    yield call(X((3, 5)), index((2, 5), 3), 2)
    yield call(X(()), index((), 1))


def takes() -> Iterator[Call]:
    for dtype, layout, shape in product(ANY, LAYOUTS, [(), (4,), (2, 3), (0,)]):
        yield call(X((3, 5), dtype, layout=layout), index(shape, 15, -15))
    yield call(X(()), index((3,), 1, -1))
    yield call(X((3, 5)), index((2,), 20, 15))
    yield call(X((3, 5)), index((2,), -15, -20))
    yield call(X((3, 5)), index((2,), 3, dtype="float32"))
    yield call(X((0,)), index((0,), 1))
    yield call(X((0,)), index((2,), 1))


def index_puts(add: bool) -> Cases:
    """index_add, index_copy: (input, dim, index, source)"""

    def places(n: int) -> X:
        return index((n,), 3) if add else order(n)

    def cases() -> Iterator[Call]:
        for dtype, layout in product(ANY, LAYOUTS):
            for dim in (0, -2):
                yield call(X((3, 5), dtype, layout=layout), dim, places(2), X((2, 5), dtype, seed=3, layout=layout))
            yield call(X((5, 3), dtype, layout=layout), 1, places(3), X((5, 3), dtype, seed=3))
            yield call(X((2, 3, 5), dtype, layout=layout), 1, places(3), X((2, 3, 5), dtype, seed=3, layout=layout))
            yield call(X((7,), dtype, layout=layout), 0, places(3), X((3,), dtype, seed=3))
            yield call(X((3, 5), dtype), 0, places(0), X((0, 5), dtype, seed=3))
        x = X((3, 5))
        yield call(x, 0, places(2), X((2, 4), seed=3))
        yield call(x, 0, places(2), X((3, 5), seed=3))
        yield call(x, 0, places(2), X((2, 5), "float32", seed=3))
        yield call(x, 2, places(2), X((2, 5), seed=3))
        yield call(x, 0, order(1, 2), X((2, 5), seed=3))
        yield call(x, 0, index((2,), 9, 3), X((2, 5), seed=3))
        yield call(x, 0, index((2,), 0, -3), X((2, 5), seed=3))
        yield call(x, dim=0, index=places(2), source=X((2, 5), seed=3))
        if add:
            yield call(x, 0, places(9), X((9, 5), seed=3), alpha=2.5)
            yield call(x, 0, places(9), X((9, 5), seed=3), alpha=-1)
            yield call(X((3, 5), "int32"), 0, places(9), X((9, 5), "int32", seed=3), alpha=3)

    return cases


def index_fills() -> Iterator[Call]:
    for dtype, layout, value in product(ANY, LAYOUTS, (2, 1.5, True)):
        yield call(X((3, 5), dtype, layout=layout), 0, index((2,), 3), value)
        yield call(X((2, 3, 5), dtype, layout=layout), -1, index((4,), 5), value)
    x = X((3, 5))
    yield call(x, 0, index((2,), 3), X((), seed=4))
    yield call(x, 0, index((2,), 3), X((2,), seed=4))
    yield call(x, 0, index((0,), 3), 1.0)
    yield call(x, 0, index((2,), 9, 3), 1.0)
    yield call(x, 3, index((2,), 3), 1.0)
    yield call(x, 0, index((2, 2), 3), 1.0)
    yield call(X((7,)), 0, index((), 7), 1.0)


def key_puts() -> Iterator[Call]:
    """index_put: (input, indices, values, accumulate)"""
    for dtype, layout in product(ANY, LAYOUTS):
        x = X((7, 3, 5), dtype, layout=layout)
        yield call(x, (order(4),), X((4, 3, 5), dtype, seed=3, layout=layout))
        yield call(x, [order(2, 2), index((2, 2), 3, -3)], X((5,), dtype, seed=3))
        yield call(x, (order(4), index((1,), 3), index((4,), 5, -5)), X((), dtype, seed=3))
        yield call(x, (X((7, 3), "bool", seed=5),), X((5,), dtype, seed=3))
        yield call(x, (X((7,), "bool", seed=5),), X((), dtype, seed=3))
        yield call(x, (index((9,), 7, -7), index((9,), 3)), X((9, 5), dtype, seed=3), True)
        yield call(x, (index((9, 1), 7), index((4,), 3)), X((5,), dtype, seed=3), accumulate=True)
    x = X((3, 5))
    yield call(x, (index((2,), 9, 3),), X((), seed=3))
    yield call(x, (index((2,), -3, -9),), X((), seed=3))
    yield call(x, (order(2),), X((3, 5), seed=3))
    yield call(x, (order(2), order(3)), X((), seed=3))
    yield call(x, (order(2), order(2), order(2)), X((), seed=3))
    yield call(x, (X((5,), "bool"),), X((), seed=3))
    yield call(x, (X((2,)),), X((), seed=3))
    yield call(x, order(2), X((), seed=3))
    yield call(x, (order(0),), X((0, 5), seed=3))


def masks(*more: X) -> Cases:
    """masked_select and, with a source, masked_scatter"""

    def cases() -> Iterator[Call]:
        for dtype, layout in product(ANY, LAYOUTS):
            rest = [X((5, 7), dtype, seed=3, layout=layout)] if more else []
            for mask in ((3, 5), (5,), (3, 1), ()):
                yield call(X((3, 5), dtype, layout=layout), X(mask, "bool", seed=5), *rest)
            yield call(X((), dtype), X((), "bool", seed=6), *rest)
        yield call(X((3, 5)), X((3, 4), "bool"), *more)
        yield call(X((3, 5)), X((3, 5), "int64"), *more)
        yield call(X((0, 5)), X((5,), "bool"), *more)
        if not more:
            yield call(X((5,)), X((3, 1), "bool", seed=5))
        else:
            yield call(X((3, 5)), X((3, 5), "bool", seed=5), X((2,)))
            yield call(X((3, 5)), X((3, 5), "bool", seed=5), X((20,), "float32"))

    return cases


def nonzeros(*more: Call) -> Cases:
    def cases() -> Iterator[Call]:
        for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
            yield call(X(shape, dtype, -1, 2, layout))
        yield from more

    return cases


def lists_of(*more: Call) -> Cases:
    def cases() -> Iterator[Call]:
        for shape, dtype in product(SHAPES, ANY):
            yield call([X(shape, dtype), X(shape, dtype, seed=1)])
        for shape, layout in product(SHAPES, LAYOUTS):
            for dim in range(-len(shape) - 1, len(shape) + 1):
                yield call((X(shape, layout=layout), X(shape, seed=1)), dim)
                yield call([X(shape, layout=layout)], dim=dim)
        for d, e in product(ANY, ANY):
            yield call([X((3, 5), d), X((3, 5), e)])
        yield call([X((3, 5)), X((2, 5))])
        yield call([X((3, 5)), X((3, 2))], 1)
        yield call([X((3, 5)), X((3, 5, 1))])
        yield call([X((0,)), X((3, 5))])
        yield call([])
        yield call([X((3,)), 1.0])
        yield call(X((3,)))
        yield call(X((3, 5)))
        yield from more

    return cases


def wheres() -> Iterator[Call]:
    for (a, b), d in product(PAIRS, ("float64", "float32")):
        yield call(X(a, "bool", seed=5), X(a, d), X(b, d, seed=1))
        yield call(X(b, "bool", seed=5, layout="strided"), X(a, d, layout="transposed"), X(b, d, seed=1))
    for d, e in product(ANY, ANY):
        yield call(X((3, 5), "bool", seed=5), X((5,), d), X((3, 1), e))
    for v, w in product([1, 2.5, True], repeat=2):
        yield call(X((3, 5), "bool", seed=5), v, w)
        yield call(X((3, 5), "bool", seed=5), X((3, 5), "float16"), w)
        yield call(X((3, 5), "bool", seed=5), v, X((3, 5), "int32"))
    for shape, d in product(SHAPES, ANY):
        yield call(X(shape, d, -1, 2))
    yield call(X((3, 5), "bool"), X((3, 5)))
    yield call(X((3, 5)), X((3, 5)), X((3, 5)))
    yield call(X((3, 5), "uint8"), X((3, 5)), X((3, 5)))
    yield call(X((3, 5), "bool"), X((2, 5)), X((3, 5)))


def masked_fills() -> Iterator[Call]:
    for d, v in product(ANY, [1, 2.5, True, -math.inf]):
        yield call(X((3, 5), d), X((5,), "bool", seed=5), v)
        yield call(X((3, 5), d, layout="transposed"), X((3, 1), "bool", seed=5), v)
    yield call(X(()), X((), "bool"), 1.0)
    yield call(X((3,)), X((2, 3), "bool"), 1.0)
    yield call(X((3,)), X((2,), "bool"), 1.0)
    yield call(X((3,)), X((3,), "int64"), 1.0)
    yield call(X((3,)), X((3,), "bool"), X((), seed=4))
    yield call(X((3,)), X((3,), "bool"), X((3,), seed=4))


def clamps() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        yield call(X(shape, dtype, layout=layout), -1, 1)
    for d, low, high in product(NUMBERS, [None, -1, -0.5], [None, 1, 0.5]):
        yield call(X((3, 5), d), low, high)
        yield call(X((3, 5), d), min=low, max=high)
    for d, e in product(NUMBERS, NUMBERS):
        yield call(X((3, 5), d), X((5,), e, -1, 0), X((3, 1), e, 0, 1))
    yield call(X((3, 5)), X((5,), low=-1, high=0))
    yield call(X((3, 5)), None, X((5,), low=-1, high=0))
    yield call(X((3, 5)), max=2.0)
    yield call(X((3, 5)), 2.0, -2.0)
    yield call(X((3, 5)), math.nan, 1.0)
    yield call(X((3, 5)), 0.0, X((5,)))
    yield call(X((3, 5), "bool"), 0, 1)
    yield call(X((3, 130)), X((130,), kind="special", grad=False), X((), low=3, high=4))


def ternary(low: float = 0.3, high: float = 3, numbers: bool = False, value: bool = True) -> Cases:
    def cases() -> Iterator[Call]:
        for (a, b), d in product(PAIRS, ("float64", "float32")):
            yield call(X(a, d, low, high), X(b, d, low, high, seed=1), X(a, d, low, high, seed=2))
            yield call(X(b, d, low, high, "strided"), X(a, d, low, high, "transposed", seed=1), X(b, d, low, high, seed=2))
        for d in ANY:
            yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), X((3, 1), d, low, high, seed=2))
            if numbers:
                yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), 0.3)
            if value:
                yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), X((3, 1), d, low, high, seed=2), value=2)
                yield call(X((3, 5), d, low, high), X((5,), d, low, high, seed=1), X((3, 1), d, low, high, seed=2), value=-0.5)
        yield call(X((3, 5)), X((2, 5)), X((3, 5)))
        yield call(X((3, 5)), X((3, 5), "float32"), X((3, 5)))
        yield call(X((3, 5)), X((3, 5)), 2.0)

    return cases


def powers() -> Iterator[Call]:
    yield from binary(0.3, 2, NUMBERS, [0, 1, 2, 3, 0.5, -1, -2, 2.5, -0.5])()
    for e in (0, 1, 2, 3, -1, 2.0):
        yield call(X((3, 5), low=-2, high=2), e)
        yield call(X((3, 5), "int64", 1), e)


def maxima() -> Iterator[Call]:
    yield from reduction(ANY, dims=False)()
    for a, b in PAIRS:
        yield call(X(a), X(b, seed=1))
    for d, e in product(NUMBERS, NUMBERS):
        yield call(X((3, 5), d), X((5,), e, seed=1))
    yield call(X((3, 5)), other=X((5,), seed=1))
    yield call(X((3, 5)), (0, 1))
    yield call(X((3, 5)), "0")
    yield call(X((3, 5)), 1.0)
    yield call(X((3, 5)), 2)
    yield call(X((3, 5)), None)


VIEW_SHAPES = [
    call(15),
    call(5, 3),
    call((5, 3)),
    call(-1),
    call(3, -1),
    call([15, 1]),
    call(0),
    call(2, 0, 3),
    call(),
    call(()),
    call(-1, -1),
    call(-2),
    call(7, 2),
    call(7.0),
    call("7"),
    call(None),
    call(0, -1),
    call(1),
]
TO = [
    call(Dtype("float32")),
    call(Dtype("int64")),
    call("cpu"),
    call("cpu", Dtype("float32")),
    call(dtype=Dtype("float16")),
    call(device="cpu"),
    call(X((), "int32")),
    call(Dtype("bool"), copy=True),
    call("nowhere"),
    call(3.5),
    call(),
    call(Dtype("float32"), Dtype("float32")),
    call(device="cpu", dtype=Dtype("int8")),
    call(X((), "float32"), copy=True),
    call(Dtype("float32"), False, True),
]
REDUCE_DIMS = [(3, 5), (7,), (), (2, 3, 5)]


def softmaxes() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        for dim in range(-len(shape), len(shape)) if shape else (0, -1):
            yield call(X(shape, dtype, layout=layout), dim)
        yield call(X(shape, dtype, layout=layout), -1, dtype=Dtype("float64"))
    yield call(X((3, 5)), 2)
    yield call(X((3, 5)), -3)
    yield call(X((3, 5)), 0.0)
    yield call(X((3, 5)))
    yield call(X((3, 5)), dim=1)


def variances() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        yield call(X(shape, dtype, layout=layout))
    for shape in REDUCE_DIMS:
        for dim, keep, c in product(range(-len(shape), len(shape)), (False, True), (0, 1, 2)):
            yield call(X(shape), dim, keepdim=keep, correction=c)
    yield call(X((2, 3, 5)), (0, 2))
    yield call(X((2, 3, 5)), dim=(0, 2), correction=0)
    yield call(X((2, 3, 5)), True)
    yield call(X((2, 3, 5)), False)
    yield call(X((2, 3, 5)), unbiased=False)
    yield call(X((2, 3, 5)), 1, False)
    yield call(X((2, 3, 5)), 1, True, True)
    yield call(X((2, 3, 5)), dim=1, unbiased=True, keepdim=True)
    yield call(X((2, 3, 5)), 5)


def sums() -> Iterator[Call]:
    yield from reduction()()
    for d, e in product(ANY, ("float64", "int64", "int32", "float16")):
        yield call(X((3, 5), d), dtype=Dtype(e))
        yield call(X((3, 5), d), 0, dtype=Dtype(e))
    yield call(X((3, 5)), 2)
    yield call(X((3, 5)), "0")
    yield call(X((3, 5)), 1.0)
    yield call(X((3, 5)), None, True)
    yield call(X((3, 5)), axis=1)
    yield call(X((3, 5)), axis=1, keepdims=True)
    yield call(X((3, 5)), 1, axis=1)


def products() -> Iterator[Call]:
    yield from reduction(ANY, dims=False)()
    for d, e in product(ANY, ("float64", "int64", "int32", "float16")):
        yield call(X((3, 5), d), dtype=Dtype(e))
        yield call(X((3, 5), d), 0, True, dtype=Dtype(e))
    for layout, zeros in product(LAYOUTS, (0, 1)):  # whole numbers below 2, in floats: many are 0
        yield call(X((4, 3), "int64", -zeros, 2, layout), dtype=Dtype("float64"))
    yield call(X((3, 5)), 2)
    yield call(X((3, 5)), "0")


def scans(dtypes: list[str] = ANY, with_dtype: bool = False) -> Cases:
    def cases() -> Iterator[Call]:
        for shape, dtype, layout in product(SHAPES, dtypes, LAYOUTS):
            for dim in range(-len(shape), len(shape)) if shape else (0, -1):
                yield call(X(shape, dtype, layout=layout), dim)
        for d, e in product(dtypes, ("float64", "int64", "int32", "float16") if with_dtype else ()):
            yield call(X((3, 5), d), 0, dtype=Dtype(e))
        wrong: list[Any] = [2, -3, 0.0, "0", None]
        for d in wrong:
            yield call(X((3, 5)), d)
        yield call(X((3, 5)))
        yield call(X((3, 5)), dim=1)
        yield call(X((3, 5)), axis=1)

    return cases


def differences() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
        yield call(X(shape, dtype, layout=layout))
        for n, dim in product((0, 1, 2, 9), range(-len(shape), len(shape))):
            yield call(X(shape, dtype, layout=layout), n, dim)
    for d in ANY:
        yield call(X((3, 5), d), prepend=X((3, 2), d, seed=1))
        yield call(X((3, 5), d), 1, 0, X((2, 5), d, seed=1), X((1, 5), d, seed=2))
    yield call(X((3, 5)), -1)
    yield call(X((3, 5)), 1, 5)
    yield call(X((3, 5)), 1, 0, append=X((3, 2)))
    yield call(X((3, 5)), 1.5)


def ends() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
        yield call(X(shape, dtype, layout=layout))
        for dim, keep in product(range(-len(shape), len(shape)), (False, True)):
            yield call(X(shape, dtype, layout=layout), dim=dim, keepdim=keep)
    yield call(X((3, 5)), dim=2)
    yield call(X((3, 5)), dim="0")
    yield call(X((3, 5)), keepdim=True)


like = created(*[call(X(shape, d, layout=layout)) for shape, d, layout in product(SHAPES, ("float64", "int64", "bool"), LAYOUTS)])
signed = unary()
test2 = binary(-2, 2)
bits = binary(0, 7, [*WHOLES, "bool"], [1, 3, True])
shifts = binary(0, 5, WHOLES, [0, 1, 3])

ROWS: dict[str, Cases] = {}

# Names whose results have no gradient; of every other one test_names.py wants gradients compared.
CONSTANT = set(
    """
    all any arange argmax argmin argsort argwhere bernoulli bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor bool bucketize can_cast cauchy count_nonzero detach dim element_size empty empty_like eq exponential eye fill floor_divide full
    full_like ge geometric get_num_threads greater greater_equal gt histc int is_contiguous is_floating_point is_grad_enabled is_tensor isfinite isin
    isinf isnan item le less less_equal linspace log_normal logical_and logical_not logical_or logical_xor long lt manual_seed multinomial ne
    new_empty new_full new_ones new_tensor new_zeros nextafter nonzero normal not_equal numel one_hot ones ones_like promote_types rand rand_like
    randint randint_like randn randn_like random randperm requires_grad result_type searchsorted short signbit size stride tensor tolist uniform
    unique unique_consecutive zero zeros zeros_like
    """.split()
)


def row(names: str, cases: Cases) -> None:
    for n in names.split():
        assert n not in ROWS, n
        ROWS[n] = cases


# ---- the rows ------------------------------------------------------------------------------------------------------------------------
DATA: list[Any] = [
    1,
    2.5,
    True,
    [],
    [[]],
    [1, 2],
    [1, 2.5],
    [True, False],
    [True, 2],
    [[1, 2], [3, 4]],
    [[[]], [[]]],
    ((1, 2), [3, 4]),
    range(4),
    "1",
    None,
    [None],
    ["1"],
    [[1], [2, 3]],
    [[1], 2],
    {},
    {1},
    b"12",
    X((3, 5)),
    [X(()), X((), seed=1)],
    [X(()), 2],
    [math.nan, math.inf],
    10**12,
    [10**12],
    2**63,
    2**70,
]
row(
    "tensor",
    listed(
        *[call(v) for v in DATA],
        *[call([1, 0, 3], dtype=Dtype(d)) for d in ANY],
        *[call([1.5, 0, 3.9], dtype=Dtype(d)) for d in ANY],
        call(),
        call(1, 2),
        call([1.5], requires_grad=True),
        call([1], requires_grad=True),
        call(1, dtype="float32"),
        call(1, device="nowhere"),
        call(1, device=3.5),
        call(1, requires_grad=1),
        call(data=[1.0]),
        call(1.5, device="cpu"),
    ),
)
row("zeros ones", created(*SIZES))
row("empty", created(*SIZES))
row("full", created(call((2, 3), 1), call((2, 3), 2.5), call([2], True), call((), 7), call((2, 0), 1), call(size=(2,), fill_value=3)))
row(
    "arange",
    created(
        call(5),
        call(2, 7),
        call(0, 10, 3),
        call(0, 1, 0.25),
        call(5.0),
        call(0),
        call(10, 0, -3),
        call(1, 1),
        call(end=4),
        call(start=1, end=4),
        call(2, 7, step=2),
        call(2, 1),
        call(0, 5, 0),
        call(0, 5, -1),
        call("5"),
        call(),
        call(0.5, 3),
        call(None),
        call(1, None),
    ),
)
row(
    "linspace",
    created(
        call(0, 1, 5),
        call(-2.5, 3, 7),
        call(0, 1, 1),
        call(0, 1, 0),
        call(5, 1, 3),
        call(0, 1, steps=4),
        call(start=0, end=1, steps=2),
        call(0, 1, -1),
        call(0, 1),
        call(0, 1, 2.5),
    ),
)
row("eye", created(call(3), call(3, 5), call(0), call(3, 0), call(n=2), call(2, m=4), call(-1), call(2, -1), call(2.0), call()))
row("rand randn", created(*SIZES))
row(
    "randint",
    created(
        call(5, (2, 3)),
        call(2, 7, (3,)),
        call(5, size=(2,)),
        call(low=2, high=5, size=(2,)),
        call(high=5, size=(2,)),
        call(5, 2, (2,)),
        call(5, 5, (2,)),
        call(0, (2,)),
        call(5),
        call(5, 3),
        call(2, 5, 3),
        call(1.5, (2,)),
        call(5, ()),
        call(5, (0,)),
        call(2, 7, [2, 3]),
    ),
)
row("zeros_like ones_like empty_like", like)
row("rand_like randn_like", created(*[call(X(shape, layout=layout)) for shape, layout in product(SHAPES, LAYOUTS)]))
row(
    "full_like",
    listed(
        *[call(X(shape, d), v) for shape, d, v in product(SHAPES, ANY, (1, 2.5, True))],
        call(X((3,)), 1, dtype=Dtype("int32")),
        call(X((3,))),
        call(X((3,)), "1"),
        call(X((3,)), fill_value=2),
    ),
)
row("manual_seed", listed(call(7), call(0), call(-1), call(2**63), call(2**64 - 1), call("7"), call(), call(None), call(1.5)))

row("numel is_floating_point is_contiguous element_size dim", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)]))
row("is_tensor", listed(call(X((3,))), call(1), call([1]), call(None), call()))
row("size stride", shaped(call(), call(0), call(-1), call(dim=0), call(9), call(0.5), call("0"), call(None)))
row("data_ptr", listed())
row("item", listed(*[call(X(s, d, low=1)) for s, d in product([(), (1,), (1, 1), (0,), (3,)], ANY)]))
row("tolist", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)]))

row("to", shaped(*TO, shapes=[(3, 5)]))
row("cpu", shaped(call(), shapes=[(3, 5), ()]))
row("cuda gpu", listed())  # test_devices
row("float double half bfloat16 int long short bool", listed(*[call(X(s, d, -2, 2, layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)]))
row("contiguous clone detach", shaped(call()))
row("detach_", listed())
row(
    "requires_grad_",
    listed(call(X((3,), grad=False)), call(X((3,), grad=False), False), call(X((3,), "int64")), call(X((3,), grad=False), 1), call(X((3,), "int64"), False)),
)
row("retain_grad backward", listed())  # test_autograd.py

row("reshape", shaped(*VIEW_SHAPES))
row("view", shaped(*VIEW_SHAPES))
row("transpose swapaxes swapdims", shaped(*DIM_PAIRS))
row("t", shaped(call(), call(1)))
row(
    "permute",
    shaped(
        call(0, 1),
        call((1, 0)),
        call([2, 0, 1]),
        call(1, 0, 2),
        call(-1, 0),
        call(),
        call(()),
        call(0),
        call(0, 0),
        call(5, 0),
        call(3, 1, 0, 2),
        call("0"),
        call(0, 1.0),
    ),
)
row("flatten", shaped(call(), call(1), call(0, 1), call(-2, -1), call(1, 0), call(start_dim=1, end_dim=2), call(9), call(0.5), call(0, -1), call(0, 0)))
row(
    "unflatten",
    shaped(
        call(0, (1, -1)),
        call(-1, (5, 1)),
        call(1, [5]),
        call(0, (3, 1)),
        call(0, (-1,)),
        call(0, (2, 2)),
        call(9, (1,)),
        call(0, ()),
        call(0, 3),
        call(0, (-1, -1)),
        call(1, (0, -1)),
        call(0, "3"),
    ),
)
row("squeeze", shaped(call(), call(0), call(1), call(-2), call((0, 1)), call(9), call(0.5), call((1, 1)), call(dim=1), call(())))
row("unsqueeze", shaped(call(0), call(1), call(-1), call(-3), call(9), call(), call(0.5), call(dim=0), call(None)))
row(
    "expand",
    shaped(
        call(2, 3, 5),
        call((3, 5)),
        call(-1, 5),
        call(4, 3, -1),
        call(7),
        call(-1),
        call(3),
        call(),
        call(()),
        call(0),
        call(5, 4, 3),
        call(2, -1, 7, 5, 1, 3),
        call("3"),
        call(1.0),
        call(-2, 5),
        call(-1, 3, 5),
    ),
)
row("broadcast_to", shaped(call((2, 3, 5)), call((3, 5)), call((-1, 5)), call((5, 4, 3)), call((0,)), call(7), call(()), call(), call((2.0,))))
row("expand_as view_as reshape_as", shaped(call(X((3, 5))), call(X((15,))), call(X((2, 3, 5, 7))), call(X(())), call(3), call()))
row(
    "narrow",
    shaped(
        call(0, 0, 1),
        call(1, 1, 2),
        call(-1, -2, 1),
        call(0, 2, 5),
        call(0, 0, 0),
        call(0, -9, 1),
        call(0, 0, -1),
        call(9, 0, 1),
        call(0, 1.0, 1),
        call(0, 9, 1),
        call(dim=0, start=1, length=1),
        call(0, 3, 0),
    ),
)
row("select", shaped(call(0, 0), call(1, -1), call(-1, 2), call(0, 9), call(9, 0), call(0, -9), call(0), call(dim=0, index=1), call(0.5, 0)))
row("slice", listed())  # not PyTorch's: test_own
row(
    "split",
    shaped(
        call(2),
        call(1, 1),
        call([1, 2]),
        call([2, 3], 1),
        call(0),
        call(-1),
        call([]),
        call([1, -1]),
        call(9),
        call(3, dim=-1),
        call(2, 9),
        call(1.5),
        call("2"),
        call((3, 0), 0),
    ),
)
row("chunk", shaped(call(2), call(3, 1), call(1), call(0), call(-1), call(9), call(2, dim=-1), call(2, 9), call(1.5), call()))
row("unbind", shaped(call(), call(1), call(-1), call(9), call(dim=0), call(0.5)))
row(
    "movedim moveaxis",
    shaped(
        call(0, 1),
        call(-1, 0),
        call((0, 1), (1, 0)),
        call([0, 1], [-1, -2]),
        call((0, 0), (0, 1)),
        call((0,), (0, 1)),
        call(9, 0),
        call(0, 0.5),
        call((), ()),
        call(0, 0),
        call((0, 1), (2, 0)),
    ),
)
row(
    "diagonal",
    arranged(call(), call(1), call(-2), call(0, 1, 0), call(2, -1, -2), call(9), call(-(2**62)), call(0, 0, 0), call(0, 0, 9), call(1, dim1=0, dim2=2), call(0.5)),
)
row(
    "unfold",
    arranged(
        call(0, 2, 1),
        call(1, 3, 2),
        call(-1, 1, 1),
        call(0, 0, 1),
        call(0, 9, 1),
        call(0, 1, 0),
        call(0, -1, 1),
        call(9, 1, 1),
        call(1, 2, 100),
        call(0, 2),
        call(0, 1.5, 1),
    ),
)
row("flip", arranged(call(0), call((0,)), call([0, 1]), call((-1, 0)), call(()), call(9), call((0, 0)), call(0.5), call()))
row("fliplr flipud", arranged(call(), call(1)))
row(
    "roll",
    arranged(
        call(1),
        call(-2),
        call(2**62),
        call(1, 0),
        call(-7, -1),
        call((1, 2), (0, 1)),
        call([1, 1], [0, 0]),
        call(shifts=(2, -1), dims=(1, 0)),
        call((1, 2)),
        call((1,), (0, 1)),
        call((), ()),
        call(1, 9),
        call(0.5),
    ),
)
row("repeat", arranged(call(2, 3), call((2, 1, 3)), call(1, 1), call(0, 2), call(2), call(3, 1, 2, 2), call(-1, 2), call(), call(1.5), call("2")))
row("tile", arranged(call((2, 3)), call((2,)), call([1, 2, 3]), call((0, 2)), call(()), call((-1,)), call((1.5,))))


def interleavings() -> Iterator[Call]:
    yield from arranged(
        call(2), call(3, 0), call(2, -1), call(2, dim=1), call(0), call(1, 1), call(-1), call(2, 9), call(1.5), call(2, 0, output_size=6), call(2, 0, output_size=7)
    )()
    for counts in (
        index((3,), 4),
        index((1,), 4),
        index((), 4, 1),
        index((3,), 4, dtype="int32"),
        index((5,), 3),
        index((3,), 3, dtype="float32"),
        index((3, 1), 3),
    ):
        yield call(X((3, 5)), counts, 0)
        yield call(X((3, 5), "int64", layout="backwards"), counts, dim=-1)
        yield call(X((3,)), counts)
    yield call(X((3,), grad=False), X((3,), "int64", -5, 0), 0)
    yield call(index((4,), 3))
    yield call(index((2, 2), 3))
    yield call(index((4,), 3), dim=0)


row("repeat_interleave", interleavings)


def paddings() -> Iterator[Call]:
    sizes: list[Any] = [(1, 2), (0, 0), [2, 1, 1, 0], (1, 1, 2, 0, 0, 1), (-1, 2), (0, -2, 1, 0), (1,), (), 3, "1", (1, 1.5), (-9, 1), (2**62, 2**62), (1, 2, 3)]
    for shape, layout, size in product([(3, 5), (7,), (), (2, 0, 3), (2, 3, 5, 7)], [*LAYOUTS, "backwards"], sizes):
        yield call(X(shape, layout=layout), size)
    for dtype, value in product(ANY, (None, 1, 2.5, -1, True)):
        yield call(X((3, 5), dtype), (1, 2), "constant", value)
    for mode, shape, layout, size in product(
        ("reflect", "replicate", "circular"), [(2, 3, 5), (2, 5), (2, 3, 5, 7)], [*LAYOUTS, "backwards"], [(1, 2), (2, 0), (4, 4), (5, 1), (1, 2, 2, 1), (0, 9)]
    ):
        yield call(X(shape, layout=layout), size, mode)
        yield call(X(shape, "float32", layout=layout), pad=size, mode=mode)
    yield call(X((2, 3)), (1, 1), "reflect", 1.0)
    yield call(X((2, 3)), (1, 1), "nothing")
    yield call(X((2, 3)), (1, 1), 3)


row("pad", paddings)
row(
    "meshgrid",
    listed(
        *[call(X((3,), d), X((2,), d, seed=1), X((5,), d, seed=2), indexing=i) for d, i in product(ANY, ("ij", "xy"))],
        *[call(X((3,)), X((), seed=1), indexing=i) for i in ("ij", "xy", "yx")],
        call([X((3,)), X((2,))], indexing="xy"),
        call(X((3,)), indexing="xy"),
        call(X((3,)), X((0,)), indexing="ij"),
        call(X((3,)), X((2, 2)), indexing="ij"),
        call(X((3,)), X((2,), "float32"), indexing="ij"),
        call(X((3,)), 1.0, indexing="ij"),
    ),
)
row(
    "atleast_1d atleast_2d atleast_3d",
    listed(*[call(X(s, layout=layout)) for s, layout in product(SHAPES, LAYOUTS)], call(X(()), X((3,))), call([X(()), X((2, 3))])),
)
row("tril triu", shaped(call(), call(1), call(-1), call(diagonal=2), call(9), call(-9), call(0.5), call("0"), call(2**40)))

row("add", binary(alpha=[2, -1, 0.5, True]))
row("sub subtract", binary(alpha=[2, -1, 0.5]))
row("mul multiply", binary())
row("div divide true_divide", binary(0.3, 3, rounding_mode=[None, "trunc", "floor", "up", 3]))
row("pow", powers)
row("clamp clip", clamps)
row("clamp_min clamp_max", binary(dtypes=NUMBERS))
row("gelu", both(unary(dtypes=FLOATS, approximate=["none", "tanh", "other", 3]), listed(call(X((130,), "float32", kind="special", grad=False)))))
row("floor_divide remainder fmod", both(binary(0.5, 4, NUMBERS, [1, 2.5, -2]), listed(call(X((3, 5), "int32"), X((5,), "bool")))))
row("maximum minimum", binary(numbers=[]))
row("atan2 arctan2", binary(0.2, 3, numbers=[]))
row("copysign", binary())
row("hypot logaddexp nextafter", binary(numbers=[]))
row("signbit", signed)
row("lerp", ternary(numbers=True, value=False))
row("addcmul addcdiv", ternary())
row("where", wheres)
row(
    "copy_",
    listed(
        *[call(X(a, grad=False), X(b, e, seed=1)) for (a, b), e in product(PAIRS, ANY)],
        *[call(X((3,), d), 2.5) for d in ANY],
        call(X((3,), grad=False), "1"),
        call(X((3,), grad=False), None),
    ),
)
row(
    "fill_",
    listed(
        *[call(X(s, d, layout=layout, grad=False), v) for s, d, layout, v in product(SHAPES, ANY, LAYOUTS, (1, 2.5, True))],
        call(X((3,)), "1"),
        call(X((3,)), [1]),
        call(X((3,), grad=False), X((), grad=False)),
        call(X((3,))),
    ),
)
row("zero_", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)], call(X((3,)), 1)))

row("abs absolute neg negative square relu", signed)
row("sign ceil floor round trunc fix frac", signed)
row("exp exp2 expm1 sin cos atan arctan sinh cosh tanh asinh arcsinh erf erfc sigmoid", signed)
row("log log2 log10 sqrt rsqrt reciprocal", unary(0.2, 4))
row("log1p", unary(-0.8, 3))
row("tan", unary(-1.3, 1.3))
row("asin arcsin acos arccos atanh arctanh", unary(-0.9, 0.9))
row("acosh arccosh", unary(1.2, 4))
row("selu silu mish softsign hardsigmoid hardswish relu6 logsigmoid", unary(dtypes=FLOATS))
row("leaky_relu", unary(dtypes=FLOATS, negative_slope=[0.2, 1, -0.5, "a"]))
row("elu celu", unary(dtypes=FLOATS, alpha=[0.5, 2, "a"]))
row("softplus", unary(dtypes=FLOATS, beta=[0.5, 2], threshold=[1, 0.5, "a"]))
row("hardtanh", both(unary(dtypes=FLOATS, min_val=[-2, -0.5], max_val=[0.5, 2.5]), listed(call(X((3, 5), "uint8")), call(X((3, 5), "int8"), 0, 2.5))))
row("isnan isinf isfinite logical_not", signed)
row("eq ne lt le gt ge not_equal less less_equal greater greater_equal", test2)
row("logical_and logical_or logical_xor", binary(-1, 2, numbers=[]))
row("bitwise_and bitwise_or bitwise_xor", bits)
row("bitwise_not", unary(dtypes=[*WHOLES, "bool"]))
row("bitwise_left_shift bitwise_right_shift", shifts)

row("sum", sums)
row("nansum mean nanmean", reduction(ANY))
row("prod", products)
row("var std var_mean std_mean", variances)
row("amax amin", reduction(ANY))
row("max min", maxima)
row("argmax argmin", both(reduction(NUMBERS, dims=False), listed(call(X((3, 5), "bool")))))
row("aminmax", ends)
row("logsumexp", reduction(NUMBERS, none=False))
row("cumsum cumprod", scans(with_dtype=True))
row("logcumsumexp", scans(FLOATS))
row("cummax cummin", scans())
row("diff", differences)
row("softmax log_softmax", softmaxes)

row("matmul mm bmm mv dot", matrices())
row("gather", gathers)
row("scatter", scatters_of_values)
row("take_along_dim", along_dims)
row("take", takes)
row("index_add", index_puts(add=True))
row("index_copy", index_puts(add=False))
row("index_fill", index_fills)
row("index_put", key_puts)
row("masked_select", masks())
row("masked_scatter", masks(X((5, 7), seed=3)))
row("nonzero", nonzeros(*[call(X(s, "bool"), as_tuple=t) for s, t in product(SHAPES, (True, False))], call(X((3,)), True), call(X((3,)), as_tuple=1)))
row("argwhere", nonzeros(call(X((3,)), 1)))
row(
    "one_hot",
    listed(
        *[call(index(s, 5), n) for s, n in product(SHAPES, (5, 7, -1, 4, 0, -2))],
        *[call(index(s, 5)) for s in SHAPES],
        call(index((3,), 0, -3), 5),
        call(index((3,), 0, -3)),
        call(index((3,), 5, dtype="int32")),
        call(X((3,)), 5),
        call(index((3,), 5), num_classes=6),
    ),
)
row("scatter_add", scatters)
row("masked_fill", masked_fills)
row("cat concat concatenate stack", lists_of())

row(
    "as_tensor",
    listed(
        *[call(v) for v in (1, 2.5, True, [], [1, 2.5], [[1, 2], [3, 4]], X((3, 5)), "1")],
        call([1.5], dtype=Dtype("float64")),
        call(X((3, 5)), dtype=Dtype("int32")),
    ),
)
row("asarray", listed(*[call(v) for v in (1, [1, 2.5], [[True]], X((3, 5)))], call([1.5], dtype=Dtype("float64")), call(X((3, 5)), copy=True)))
row("is_grad_enabled get_num_threads", listed(call(), call(1)))

# What PyTorch has not, or not so; each has a test of its own.
row("set_num_threads set_default_device get_default_device memory_stats empty_cache synchronize set_printoptions", listed())  # settings
row("save load from_numpy from_dlpack numpy register_hook", listed())

# ---- a few ops in a row
row("any all", reduction(ANY))
row(
    "count_nonzero",
    listed(*[call(X(s, d, -1, 1, layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)], call(X((3, 5)), 0), call(X((3, 5)), (0, 1)), call(X((3, 5)), 2)),
)


def norms() -> Iterator[Call]:
    powers: list[Any] = ["fro", 2, 1, 3, 0.5, 0, math.inf, -math.inf, None, "nuc", "x", 1.5, -1.5]
    for shape, p, layout in product([(3, 5), (7,), (), (2, 3, 5), (0,), (2, 0, 3)], powers, LAYOUTS):
        yield call(X(shape, layout=layout), p)
        yield call(X(shape, "float32", layout=layout), p, -1)
        yield call(X(shape, layout=layout), p, (0, 1), True)
        yield call(X(shape, layout=layout), p=p, dim=0, keepdim=True)
    for d in ANY:
        yield call(X((3, 5), d))
        yield call(X((3, 5), d), 1, 0)
        yield call(X((3, 5), d), dtype=Dtype("float64"))
    yield call(X((3,), low=0, high=1, kind="whole"), 1.5)
    yield call(X((3,), low=0, high=1e-300))


row("norm", norms)
row("outer", matrices())
row("rsub", binary(alpha=[2, -1, 0.5]))


def added_products(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> Cases:
    def cases() -> Iterator[Call]:
        shapes = [c, c[1:], (1,) * len(c), c[-1:], (), (9, *c), (2,), (*c[:-1], 1)]
        for shape, layout, d in product(shapes, LAYOUTS, ("float64", "float32")):
            yield call(X(shape, d, layout=layout, seed=2), X(a, d, layout=layout), X(b, d, layout=layout, seed=1))
            yield call(X(shape, d, seed=2), X(a, d), X(b, d, seed=1), beta=0.5, alpha=2)
            yield call(X(shape, d, seed=2), X(a, d), X(b, d, seed=1), beta=0)
            yield call(X(shape, d, seed=2), X(a, d), X(b, d, seed=1), alpha=-1)
        for d in ANY:
            yield call(X(c, d, seed=2), X(a, d), X(b, d, seed=1))
        yield call(X(c, "int16"), X(a, "int16"), X(b, "int16"), beta=0.5)
        yield call(X(c), X(a), X(a))
        yield call(X(c), X(a), X((5,)))
        yield call(X(c), X(a))

    return cases


row("addmm", added_products((3, 5), (5, 7), (3, 7)))
row("baddbmm", added_products((2, 3, 5), (2, 5, 7), (2, 3, 7)))
row("addbmm", added_products((2, 3, 5), (2, 5, 7), (3, 7)))
row("addmv", added_products((3, 5), (5,), (3,)))
row("addr", added_products((3,), (5,), (3, 5)))
row("vdot ger", matrices())
row("inner", matrices(call(X((3, 5)), X((2, 4, 5))), call(X((7, 5)), X((5,))), call(X(()), X((3, 2))), call(X((2, 0)), X((3, 0)))))
row("kron", lambda: (call(X(a, d), X(b, d, seed=1)) for (a, b), d in product([*PAIRS, ((2, 3), (3, 2)), ((3,), (2, 1, 2))], ("float64", "int64"))))
row("trace", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product([(3, 5), (5, 3), (4, 4), (0, 3), (3,), (), (2, 3, 3)], ANY, LAYOUTS)]))
TENSORDOTS: list[Call] = [
    call(X((3, 4, 5)), X((4, 5, 2))),
    call(X((3, 4)), X((4, 5)), 1),
    call(X((3, 4)), X((5, 2)), 0),
    call(X((3, 4, 5)), X((4, 3, 2)), ([1, 0], [0, 1])),
    call(X((3, 4, 5)), X((4, 3, 2)), dims=([0, 1], [1, 0])),
    call(X((3, 4, 5), "float32", layout="transposed"), X((4, 3, 2), "float32"), ([-2], [0])),
    call(X((3, 4), "int64"), X((4, 3), "int64"), 1),
    call(X((1, 4)), X((3, 5)), ([0], [0])),
    call(X((3, 0)), X((0, 5)), 1),
    call(X(()), X((3,)), 0),
    call(X((3, 4)), X((3, 4)), 1),
    call(X((3, 4)), X((4, 5)), ([1], [0, 1])),
    call(X((3, 4)), X((4, 5)), ([5], [0])),
    call(X((3, 4)), X((4, 5)), -1),
    call(X((3, 4)), X((4, 5)), 9),
    call(X((3, 4)), X((4, 5)), "1"),
    call(X((3, 4))),
]
row("tensordot", listed(*TENSORDOTS))


def einsums() -> Iterator[Call]:
    equations: list[tuple[str, list[tuple[int, ...]]]] = [
        ("ij,jk->ik", [(3, 5), (5, 2)]),
        ("ij,jk", [(3, 5), (5, 2)]),
        ("ij,jk->ki", [(3, 5), (5, 2)]),
        ("bij,bjk->bik", [(2, 3, 5), (2, 5, 4)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("bhqk,bkhd->bqhd", [(2, 2, 3, 5), (2, 5, 2, 4)]),
        ("i,j->ij", [(3,), (5,)]),
        ("i,i->", [(5,), (5,)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->ji", [(3, 5)]),
        ("ba", [(3, 5)]),
        ("ij->", [(3, 5)]),
        ("ij->j", [(3, 5)]),
        ("...ij,...jk", [(2, 3, 5), (5, 4)]),
        ("...ij->...ji", [(2, 3, 5)]),
        ("...,...->...", [(2, 3), (3,)]),
        ("i...,i...->...", [(2, 3), (2, 1)]),
        ("iji->j", [(3, 5, 3)]),
        ("iiijj->ij", [(2, 2, 2, 3, 3)]),
        ("ij,jk,kl->il", [(3, 5), (5, 2), (2, 4)]),
        ("a,b,c->abc", [(2,), (3,), (4,)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 2), (2, 3)]),
        ("bn,anm,bm->ba", [(2, 3), (5, 3, 4), (2, 4)]),
        (" i j , j k -> i k ", [(3, 5), (5, 2)]),
        (",ij->ij", [(), (3, 5)]),
        ("", [()]),
        ("->", [()]),
        ("Ab,bA->A", [(3, 5), (5, 3)]),
        ("ij,ij->i", [(3, 1), (3, 5)]),
        ("ij,j->i", [(0, 5), (5,)]),
        ("ij,jk->ik", [(3, 0), (0, 2)]),
        ("...->", [(3, 5)]),
        ("i...->i", [(3, 5)]),
        # wrong ones
        ("ij,jk->ik", [(3, 5), (4, 2)]),
        ("ii", [(3, 5)]),
        ("ij->ijk", [(3, 5)]),
        ("ij->ii", [(3, 5)]),
        ("ij", [(3,)]),
        ("i", [(3, 5)]),
        ("ij,jk", [(3, 5)]),
        ("i;", [(3,)]),
        ("i-", [(3,)]),
        ("i->j->k", [(3,)]),
        ("....", [(3,)]),
        ("i..", [(3,)]),
        ("......", [(3, 5)]),
        ("1", [(3,)]),
        ("ij,...k->k...", [(3, 5), (2, 4)]),
        ("é", [(3,)]),
    ]
    for equation, shapes in equations:
        for dtype, layout in product(("float64", "float32", "int64"), ("plain", "transposed")):
            yield call(equation, *[X(s, dtype, layout=layout, seed=i) for i, s in enumerate(shapes)])
    a, b = X((3, 5)), X((5, 2), seed=1)
    for args in (
        ("ij,jk", [a, b]),
        (a, [0, 1], b, [1, 2]),
        (a, [0, 1], b, [1, 2], [2, 0]),
        (a, [0, 1], [1, 0]),
        (a, [..., 0], b, [0, 1], [1, ...]),
        (a, [0, 51]),
        (a, [0, 52]),
        (a, [0, -1]),
        (a, [30, 2]),
        ("ij,jk", a, 3),
        (a, [0, 1], 3, [1, 2]),
        ("ij",),
        (3,),
        ("ij", None),
        (a, [0, 1, 2]),
        (a, [0, "1"]),
    ):
        yield call(*args)
    for d, e in product(ANY, ANY):
        yield call("ij,jk->ik", X((3, 5), d), X((5, 2), e, seed=1))


row("einsum", einsums)
row("promote_types can_cast", listed(*[call(Dtype(d), Dtype(e)) for d, e in product(ANY, ANY)], call(Dtype("int64")), call(Dtype("int64"), 3)))
row(
    "result_type",
    listed(*[call(X((3,), d), v) for d, v in product(ANY, (1, 2.5, True, X((), "float64"), X((2,), "int8")))], call(1, 2.5), call(1), call("1", X((3,)))),
)


def selections() -> Iterator[Call]:
    for shape, d, layout in product([(3, 5), (5,), (), (2, 3, 5), (3, 0)], ("float64", "int64", "bool"), LAYOUTS):
        for dim in (0, 1, -1):
            yield call(X(shape, d, layout=layout), dim, index((4,), 3))
            yield call(X(shape, d, layout=layout), dim, index((), 1))
    x = X((3, 5))
    yield call(x, 0, index((0,), 3))
    yield call(x, 0, index((2, 2), 3))
    yield call(x, 0, index((2,), 9, 5))
    yield call(x, 0, index((2,), 0, -3))
    yield call(x, 0, index((2,), 3, dtype="int32"))
    yield call(x, 0, index((2,), 3, dtype="float32"))
    yield call(x, dim=1, index=index((2,), 3))
    yield call(x, 0.5, index((2,), 3))


row("index_select", selections)
row(
    "hstack vstack",
    listed(
        *[call([X(s, d), X(s, d, seed=1)]) for s, d in product(SHAPES, ("float64", "int64", "bool"))],
        *[call(v) for v in ([X((3, 5)), X((3, 2))], [X((3,)), X((2, 3))], [X(()), X((3,))], [], [1.0], X((3, 5)), [X((3, 5)), X((2, 5))], [X((0,)), X((3, 0))])],
    ),
)
row(
    "randint_like",
    listed(
        *[call(X(s, d), *v) for s, d, v in product(SHAPES, ("float64", "int64"), ((5,), (2, 7)))],
        call(X((3,)), 0),
        call(X((3,))),
        call(X((3,)), 1.5),
        call(X((3,)), 2, high=4),
    ),
)
row(
    "bernoulli",
    listed(
        *[call(X(s, d, 0, 1, layout, grad=False)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)],
        call(X((3, 5), low=2)),
        call(X((3, 5), low=-2, high=-1)),
        *[call(X(s, d, grad=False), p) for s, d, p in product(SHAPES, ANY, (0, 0.3, 1))],
        call(X((3,)), 1.5),
        call(X((3,)), "1"),
        call(X((3,), grad=False), p=0.5),
    ),
)


def weights(shape: tuple[int, ...], dtype: str = "float64", low: float = 0.1, layout: str = "plain") -> X:
    return X(shape, dtype, low, 1, layout, grad=False)


row(
    "multinomial",
    listed(
        *[call(weights(s, d, layout=layout), 2, r) for s, d, layout, r in product([(5,), (3, 5), (2,)], FLOATS, LAYOUTS, (True, False))],
        *[call(weights((3, 5)), n, r) for n, r in product((1, 5, 6, 0, -1), (True, False))],
        call(weights((0, 5)), 2),
        call(weights((0,)), 1),
        call(weights(()), 1),
        call(weights((2, 3, 5)), 1),
        call(X((5,), "int64", 1), 2),
        call(X((5,), low=-1, high=-0.5), 2),
        call(weights((5,)), num_samples=7, replacement=True),
        call(weights((5,)), 2.5),
        call(weights((5,)), "2"),
        call(weights((5,))),
    ),
)
row("randperm", created(call(5), call(0), call(1), call(40), call(n=7), call(-1), call(2.5), call("3"), call(), call(None)))
row(
    "normal",
    listed(
        *[call(X(a, d, grad=False), X(b, d, 0, 2, layout, grad=False)) for (a, b), d, layout in product(PAIRS, FLOATS, LAYOUTS)],
        *[call(X(s, d, grad=False)) for s, d in product(SHAPES, FLOATS)],
        *[call(X(s, d, grad=False), 2.0) for s, d in product(SHAPES, FLOATS)],
        *[call(1.0, X(s, d, 0, 2, grad=False)) for s, d in product(SHAPES, FLOATS)],
        *[call(0.0, 1.0, size) for size in ((2, 3), (), (0, 2), [4])],
        call(0.0, 1.0, (2,), dtype=Dtype("float64")),
        call(0.0, 1.0, size=(2,), requires_grad=True),
        call(0.0, -1.0, (2,)),
        call(0.0, 1.0),
        call(X((3,), grad=False), -1.0),
        call(X((3,), grad=False), X((3,), low=-2, high=-1, grad=False)),
        call(X((3,), "int64"), 1.0),
        call("1", 1.0, (2,)),
        call(),
    ),
)


def fills(dtypes: list[str], *rest: Call) -> Cases:
    """Every shape, dtype and layout with the first arguments, then the others."""

    def cases() -> Iterator[Call]:
        args, kwargs = rest[0]
        for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
            yield call(X(shape, dtype, layout=layout), *args, **kwargs)
        for dtype, (args, kwargs) in product(dtypes, rest):
            yield call(X((3, 5), dtype), *args, **kwargs)

    return cases


row("uniform_", fills(FLOATS, call(), call(-1, 1), call(1, 1), call(2, 1), call(0, to=2), call(0, math.inf), call(math.nan, 1), call("0"), call(None)))
row("normal_", fills(FLOATS, call(), call(1, 2), call(0, 0), call(0, -1), call(std=2), call(mean=1), call(math.nan), call("0")))
row("log_normal_", fills(FLOATS, call(), call(1, 2), call(0, 0), call(0, -1), call(std=2), call("0")))
row("exponential_", fills(FLOATS, call(), call(2.5), call(0), call(-1), call(lambd=1), call(math.nan), call("1")))
row("cauchy_", fills(FLOATS, call(), call(1, 2), call(0, 0), call(0, -1), call(sigma=2), call("0")))
row("geometric_", fills(ANY, call(0.5), call(0.01), call(0), call(1), call(-1), call(p=0.3), call(math.nan), call("0"), call()))
row(
    "bernoulli_",
    fills(
        ANY,
        call(),
        call(0.3),
        call(1),
        call(1.5),
        call(p=0),
        call(X((5,), low=0, high=1, grad=False)),
        call(X((2,), low=0, high=1)),
        call(X((5,), low=2)),
        call("1"),
    ),
)
row("random_", fills(ANY, call(), call(2), call(0, 2), call(1, 2), call(0), call(2, 2), call(0, to=2), call(1.5), call("1")))
row("to_device", listed())  # the array API's: test_array_api.py
row(
    "new_zeros new_ones new_empty",
    listed(*[call(X((2,), d), *args, **kwargs) for d, (args, kwargs) in product(("float64", "int8"), [*SIZES, call(2, 3, dtype=Dtype("bool"))])]),
)
row("new_full", listed(*[call(X((2,), d), (2, 3), v) for d, v in product(ANY, (1, 2.5, True))], call(X((2,)), 3, 1), call(X((2,)), (3,)), call(X((2,)), (3,), "1")))
row(
    "new_tensor", listed(*[call(X((2,), d), v) for d, v in product(("float64", "int8"), (1, 2.5, [1, 2], [True], [], "1"))], call(X((2,)), [1], dtype=Dtype("int8")))
)
row("type_as", listed(*[call(X((3, 5), d), X((2,), e)) for d, e in product(ANY, ANY)], call(X((3,)), "float32")))


# ---- order
def dims(shape: tuple[int, ...]) -> range:
    return range(-len(shape) - 1, len(shape) + 1)


def sorts() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
        yield call(X(shape, dtype, layout=layout))
        yield call(X(shape, dtype, layout=layout), descending=True)
    for shape, layout in product(SHAPES, LAYOUTS):
        for dim, down in product(dims(shape), (False, True)):
            yield call(X(shape, layout=layout), dim, down)
            yield call(X(shape, "int32", layout=layout), dim=dim, descending=down, stable=True)
    yield call(X((3, 200)), stable=True)
    yield call(X((2, 700), "float32"), 1, True)
    yield call(X((3,)), "0")
    yield call(X((3,)), 0.5)
    yield call(X((3,)), 0, 1)
    yield call(X((3,)), 0, False, True)


def topks() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
        for k, dim in product((0, 1, 2, 3, 8), dims(shape)):
            yield call(X(shape, dtype, -100, 100, layout), k, dim)
            yield call(X(shape, dtype, -100, 100, layout), k, dim=dim, largest=False)
    yield call(X((2, 700)), 5)
    yield call(X((2, 700)), 300, sorted=True)
    yield call(X((5,)), 1, sorted=False)
    yield call(X((5,)), -1)
    yield call(X((5,)), 2.0)
    yield call(X((5,)), "2")
    yield call(X((5,)))
    yield call(X((5,)), k=2)


def kths() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        for k, dim in product((0, 1, 2, 3, 8), dims(shape)):
            yield call(X(shape, dtype, -100, 100, layout), k, dim, keepdim=k == 2)
    yield call(X((2, 700)), 5)
    yield call(X((2, 700), "float32"), 640, 1, True)
    yield call(X((5,)), -1)
    yield call(X((5,)), 2.0)
    yield call(X((5,)))
    yield call(X((5,)), k=2)


def medians() -> Iterator[Call]:
    yield from reduction(NUMBERS, dims=False)()
    yield call(X((3, 200)))
    yield call(X((3, 201), "float32"), 1)
    yield call(X((3, 5)), 2)
    yield call(X((3, 5)), (0, 1))
    yield call(X((3, 5)), "0")


def uniques() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ANY, LAYOUTS):
        x = X(shape, dtype, -2, 2, layout, grad=False) if dtype not in FLOATS else X(shape, "int8", -2, 2, layout)
        yield call(x)
        for inverse, counts in product((False, True), repeat=2):
            yield call(x, return_inverse=inverse, return_counts=counts)
            for dim in dims(shape):
                yield call(x, return_inverse=inverse, return_counts=counts, dim=dim)
    for dtype in FLOATS:
        yield call(X((3, 5), dtype, grad=False), return_inverse=True)
    yield call(X((3, 300), "int64", -9, 9), return_inverse=True, return_counts=True)
    yield call(X((300, 2), "int64", 0, 2), dim=0, return_inverse=True, return_counts=True)
    yield call(X((3,), "int64"), dim="0")
    yield call(X((3,), "int64"), return_counts=1)


def searches() -> Iterator[Call]:
    for (rows, numbers), dtype, right in product(
        [((7,), (3, 5)), ((7,), ()), ((0,), (3,)), ((7,), (0,)), ((3, 7), (3, 5)), ((2, 3, 7), (2, 3, 1)), ((1,), (2, 2)), ((3, 7), (3, 0))], ANY, (False, True)
    ):
        yield call(X(rows, dtype, layout="sorted", grad=False), X(numbers, dtype, seed=1, grad=False), right=right)
    x, v = X((7,), "float64", layout="sorted", grad=False), X((3, 5), "float64", seed=1, grad=False)
    for side, right in product((None, "left", "right", "up", 3), (False, True)):
        yield call(x, v, side=side, right=right)
    for number, dtype in product((0, 1.5, True), NUMBERS):
        yield call(X((7,), dtype, layout="sorted", grad=False), number)
    yield call(x, v, out_int32=True)
    yield call(x, X((3, 5), "float64", layout="transposed", grad=False), out_int32=True, right=True)
    yield call(X((3, 7), layout="sorted", grad=False), X((2, 5), grad=False))
    yield call(X((3, 7), layout="sorted", grad=False), X((5,), grad=False))
    yield call(X((), grad=False), v)
    yield call(x, v, sorter=index((7,), 7))
    yield call(x, v, sorter=index((6,), 7))
    yield call(x, v, sorter=index((7,), 19, 9))
    yield call(x, v, sorter=index((7,), 7, dtype="float32"))
    yield call(x)
    yield call(x, "1")


def buckets() -> Iterator[Call]:
    edges = X((7,), "float64", layout="sorted", grad=False)
    for shape, layout, right in product(SHAPES, LAYOUTS, (False, True)):
        yield call(X(shape, layout=layout, grad=False), edges, right=right)
    for dtype in NUMBERS:
        yield call(X((3, 5), dtype, grad=False), X((7,), dtype, layout="sorted", seed=1, grad=False), out_int32=True)
        yield call(1.5, X((7,), dtype, layout="sorted", grad=False))
    yield call(2, edges, right=True)
    yield call(X((3, 5), grad=False), X((2, 3), layout="sorted", grad=False))
    yield call(X((3, 5), grad=False))


def memberships() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        yield call(X(shape, dtype, -3, 3, layout, grad=False), X((2, 3), dtype, -3, 3, seed=1, grad=False))
        yield call(X((3, 5), dtype, -3, 3, grad=False), X(shape, dtype, -3, 3, layout, seed=1, grad=False), invert=True)
    for number, d in product((0, 1.5), NUMBERS):
        yield call(X((3, 5), d, grad=False), number)
        yield call(number, X((3, 5), d, grad=False))
    for d, e in product(NUMBERS, NUMBERS):
        yield call(X((3, 5), d, grad=False), X((4,), e, seed=1, grad=False), assume_unique=False)
    yield call(1, 2)
    yield call(X((3,), grad=False))


def counts() -> Iterator[Call]:
    for dtype, n in product(ANY, (0, 1, 9)):
        yield call(X((n,), dtype, 0, 7, grad=False))
        yield call(X((n,), "int64", 0, 7), X((n,), dtype, grad=False, seed=1))
        yield call(X((n,), "int64", 0, 7), minlength=5)
    yield call(X((7,), "int64"))
    yield call(X((2, 3), "int64", 0))
    yield call(X((), "int64", 0))
    yield call(X((7,), "int64", 0), X((6,), grad=False))
    yield call(X((7,), "int64", 0), None, -1)
    yield call(X((7,), "int64", 0), None, 2.5)


def quantiles() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ("float64", "float32"), LAYOUTS):
        for q, dim in product((0.3, 0, 1.0, X((), dtype, 0, 1, grad=False), X((4,), dtype, 0, 1, grad=False)), (None, *dims(shape))):
            yield call(X(shape, dtype, layout=layout), q, dim)
    for how, keep, dim in product(("linear", "lower", "higher", "nearest", "midpoint", "up", 3), (False, True), (None, 0, -1)):
        yield call(X((3, 6)), 0.35, dim, keep, interpolation=how)
        yield call(X((3, 6)), X((3,), low=0, high=1, grad=False), dim=dim, keepdim=keep, interpolation=how)
    yield call(X((5,)), 1.5)
    yield call(X((5,)), X((2, 2), low=0, high=1, grad=False))
    yield call(X((5,), "int64"), 0.5)
    yield call(X((5,)), "0.5")
    yield call(X((5,)))


def histograms() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ("float64", "float32"), LAYOUTS):
        yield call(X(shape, dtype, layout=layout, grad=False), 7)
        yield call(X(shape, dtype, layout=layout, grad=False), 5, -2, 2)
        yield call(X(shape, dtype, layout=layout, grad=False), bins=3, min=0.5, max=2)
    yield call(X((7,), grad=False))
    yield call(X((7,), grad=False), 0)
    yield call(X((7,), grad=False), 5, 3, 1)
    yield call(X((7,), grad=False), 5.5)


def modes() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        for dim in dims(shape):
            yield call(X(shape, dtype, layout=layout), dim, keepdim=dim == 0)
    yield call(X((3, 5), "int64"))
    yield call(X((3, 5)), "0")


row("mode", modes)
row("quantile nanquantile", quantiles)
row("histc", histograms)
row("sort argsort", sorts)
row("msort", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)], call(X((3,)), 0)))
row("topk", topks)
row("kthvalue", kths)
row("median nanmedian", medians)
row("unique unique_consecutive", uniques)
row("searchsorted", searches)
row("bucketize", buckets)
row("isin", memberships)
row("bincount", counts)
