"""The parts of calls: tensors by shape, dtype and layout, and families of calls that many
functions share (rows: table_*.py)."""

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
PAIRS = [
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((5, 1), (1, 7)),
    ((), (3,)),
    ((3, 0), (1,)),
    ((2, 3, 5), (3, 1)),
    ((1,), (0,)),
    ((), ()),
]
LAYOUTS = ["plain", "transposed", "strided"]


def backwards(t: Any) -> Any:
    """Along every axis: a view, but in PyTorch, which has no negative strides."""
    return (
        t.flip(tuple(range(t.dim())))
        if type(t).__module__.startswith("torch")
        else t[(slice(None, None, -1),) * t.dim()]
    )


@dataclass(frozen=True, repr=False)
class Dtype:
    name: str

    def __repr__(self) -> str:
        return self.name


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
        traits = [self.dtype, *[t for t in (self.layout, self.kind) if t not in ("plain", "any")]]
        return f"X({self.shape}, {', '.join(traits)})"

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
            values = [
                r.choice(special) if special and r.random() < 0.2 else r.uniform(self.low, self.high) for _ in range(n)
            ]
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


def unary(low: float = -3, high: float = 3, dtypes: list[str] = ANY, **parameters: list[Any]) -> Cases:
    def cases() -> Iterator[Call]:
        for shape, dtype, layout in product(SHAPES, dtypes, LAYOUTS):
            yield call(X(shape, dtype, low, high, layout))
        for name, values in parameters.items():
            for v in values:
                yield call(X((3, 5), "float64", low, high), **{name: v})
                yield call(X((3, 5), "float32", low, high, "strided"), **{name: v})

    return cases


def binary(
    low: float = -3, high: float = 3, dtypes: list[str] = ANY, numbers: list[Any] | None = None, **parameters: list[Any]
) -> Cases:
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


def reduction(
    dtypes: list[str] = ANY, dims: bool = True, none: bool = True, shapes: list[tuple[int, ...]] = SHAPES
) -> Cases:
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


def index(shape: tuple[int, ...], high: int, low: int = 0, dtype: str = "int64", seed: int = 9) -> X:
    return X(shape, dtype, low, high, seed=seed)


ROWS: dict[str, Cases] = {}


def row(names: str, cases: Cases) -> None:
    for n in names.split():
        assert n not in ROWS, n
        ROWS[n] = cases
