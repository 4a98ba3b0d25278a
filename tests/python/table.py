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
    kind: str = "any"  # of floats: "whole" numbers, for ties; "special" ones among others

    def __repr__(self) -> str:
        return f"X({self.shape}, {self.dtype}{'' if self.layout == 'plain' else ', ' + self.layout}{'' if self.kind == 'any' else ', ' + self.kind})"

    def base(self) -> tuple[tuple[int, ...], Callable[[Any], Any]]:
        """The shape to be made, and the view of it that has this layout."""
        if self.layout == "transposed":
            return self.shape[::-1], lambda t: t.permute(tuple(range(len(self.shape)))[::-1])
        if self.layout == "strided" and self.shape:
            return (*self.shape[:-1], 2 * self.shape[-1] + 1), lambda t: t[..., 1::2]
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
        if self.dtype in FLOATS and self.kind != "whole":
            special = [math.nan, math.inf, -math.inf, 0.0, -0.0] if self.kind == "special" else []
            values: list[Any] = [r.choice(special) if special and r.random() < 0.2 else r.uniform(self.low, self.high) for _ in range(n)]
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
    for d, e in product(ANY, ("float64", "int64", "float16")):
        yield call(X((3, 5), d), dtype=Dtype(e))
        yield call(X((3, 5), d), 0, dtype=Dtype(e))
    yield call(X((3, 5)), 2)
    yield call(X((3, 5)), "0")
    yield call(X((3, 5)), 1.0)
    yield call(X((3, 5)), None, True)
    yield call(X((3, 5)), axis=1)
    yield call(X((3, 5)), axis=1, keepdims=True)
    yield call(X((3, 5)), 1, axis=1)


like = created(*[call(X(shape, d, layout=layout)) for shape, d, layout in product(SHAPES, ("float64", "int64", "bool"), LAYOUTS)])
signed = unary()
test2 = binary(-2, 2)
bits = binary(0, 7, [*WHOLES, "bool"], [1, 3, True])
shifts = binary(0, 5, WHOLES, [0, 1, 3])

ROWS: dict[str, Cases] = {}

# Names whose results have no gradient; of every other one test_names.py wants gradients compared.
CONSTANT = set(
    """
    all any arange argmax argmin bernoulli bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bool count_nonzero detach
    dim element_size empty empty_like eq eye fill floor_divide full full_like ge get_num_threads greater greater_equal gt int is_contiguous
    is_floating_point is_grad_enabled is_tensor isfinite isinf isnan item le less less_equal linspace logical_and logical_not logical_or logical_xor long
    lt manual_seed ne new_empty new_full new_ones new_tensor new_zeros not_equal numel ones ones_like rand rand_like randint randint_like randn randn_like
    requires_grad short size stride tensor tolist zero zeros zeros_like
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
row("tril triu", shaped(call(), call(1), call(-1), call(diagonal=2), call(9), call(-9), call(0.5), call("0"), call(2**40)))

row("add", binary(alpha=[2, -1, 0.5, True]))
row("sub subtract", binary(alpha=[2, -1, 0.5]))
row("mul multiply", binary())
row("div divide true_divide", binary(0.3, 3, rounding_mode=[None, "trunc", "floor", "up", 3]))
row("pow", powers)
row("clamp clip", clamps)
row("gelu", both(unary(dtypes=FLOATS, approximate=["none", "tanh", "other", 3]), listed(call(X((130,), "float32", kind="special", grad=False)))))
row("floor_divide remainder fmod", both(binary(0.5, 4, NUMBERS, [1, 2.5, -2]), listed(call(X((3, 5), "int32"), X((5,), "bool")))))
row("maximum minimum", binary(numbers=[]))
row("atan2 arctan2", binary(0.2, 3, numbers=[]))
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
row("mean", reduction(ANY))
row("var std", variances)
row("amax amin", reduction(ANY))
row("max min", maxima)
row("argmax argmin", both(reduction(NUMBERS, dims=False), listed(call(X((3, 5), "bool")))))
row("logsumexp", reduction(NUMBERS, none=False))
row("softmax log_softmax", softmaxes)

row("matmul mm bmm mv dot", matrices())
row("gather", gathers)
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
    for shape, p, layout in product([(3, 5), (7,), (), (2, 3, 5), (0,), (2, 0, 3)], ["fro", 2, 1, 3, 0.5, 0, math.inf, -math.inf, None, "nuc", "x", 1.5], LAYOUTS):
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
    listed(*[call(X(s, d, 0, 1, layout, grad=False)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)], call(X((3, 5), low=2)), call(X((3, 5), low=-2, high=-1))),
)
row(
    "new_zeros new_ones new_empty",
    listed(*[call(X((2,), d), *args, **kwargs) for d, (args, kwargs) in product(("float64", "int8"), [*SIZES, call(2, 3, dtype=Dtype("bool"))])]),
)
row("new_full", listed(*[call(X((2,), d), (2, 3), v) for d, v in product(ANY, (1, 2.5, True))], call(X((2,)), 3, 1), call(X((2,)), (3,)), call(X((2,)), (3,), "1")))
row(
    "new_tensor", listed(*[call(X((2,), d), v) for d, v in product(("float64", "int8"), (1, 2.5, [1, 2], [True], [], "1"))], call(X((2,)), [1], dtype=Dtype("int8")))
)
row("type_as", listed(*[call(X((3, 5), d), X((2,), e)) for d, e in product(ANY, ANY)], call(X((3,)), "float32")))
