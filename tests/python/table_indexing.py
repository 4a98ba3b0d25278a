"""Calls that read and write by tensors of indices and masks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from cases import ANY, LAYOUTS, SHAPES, Call, Cases, X, call, index, listed, row


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
        yield call(
            X((3, 5), dtype, layout="strided"), 1, index((3, 9), 5), X((3, 9), dtype, layout="transposed", seed=3)
        )
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
    for dtype, how in product(ANY, ("add", "multiply")):
        yield call(X((7, 5), dtype), 0, index((6, 5), 7), X((6, 5), dtype, seed=3), reduce=how)
        yield call(X((3, 5), dtype, layout="transposed"), -1, index((3, 11), 5), X((3, 11), dtype, seed=3), reduce=how)
        yield call(X((7, 5), dtype), 1, index((2, 3), 5), value=2, reduce=how)
    yield call(x, 0, order(3, 0), 1.0, reduce="multiply")
    yield call(x, 0, order(3, 2), X((3, 2), seed=3), reduce="mean")
    yield call(x, 0, order(3, 2), X((3, 2), "float32", seed=3), reduce="multiply")
    yield call(x, 0, order(3, 2), X((2, 2), seed=3), reduce="multiply")
    yield call(x, 0, index((2, 4), 9, 7), 1.0, reduce="multiply")
    yield call(X(()), 0, index((), 1), 2.0, reduce="multiply")
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
row(
    "nonzero",
    nonzeros(
        *[call(X(s, "bool"), as_tuple=t) for s, t in product(SHAPES, (True, False))],
        call(X((3,)), True),
        call(X((3,)), as_tuple=1),
    ),
)
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


def scatter_reductions() -> Iterator[Call]:
    """Places of one element each, of several and of none."""
    for reduce, include in product(("sum", "prod", "mean", "amax", "amin"), (True, False)):
        for dtype in ANY:
            yield call(X((5, 5), dtype), 0, index((2, 4), 5), X((2, 4), dtype, seed=3), reduce, include_self=include)
            yield call(
                X((3, 5), dtype, layout="strided"),
                1,
                index((3, 9), 5),
                X((3, 9), dtype, layout="transposed", seed=3),
                reduce,
                include_self=include,
            )
        yield call(X((3, 5)), -1, index((2, 4), 5), X((3, 5), seed=3), reduce=reduce, include_self=include)
        yield call(X(()), 0, index((), 1), X((), seed=3), reduce, include_self=include)
        yield call(X((3, 5)), 0, index((2, 4), 9, 5), X((2, 4), seed=3), reduce, include_self=include)
    yield call(X((3, 5)), 5, index((2, 4), 3), X((2, 4), seed=3), "mean")
    yield call(X((3, 5)), 0, index((2, 4), 3), X((1, 4), seed=3), "amax")
    yield call(X((3, 5)), 0, index((2, 4), 3), X((2, 4), "float32", seed=3), "amax")
    yield call(X((3, 5)), 0, index((2, 4), 3), X((2, 4), seed=3), "largest")
    yield call(X((3, 5)), 0, index((2, 4), 3), X((2, 4), seed=3), "mean")


row("scatter_reduce", scatter_reductions)
row("masked_fill", masked_fills)


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
