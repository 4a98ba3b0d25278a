"""Calls about elements in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from cases import ANY, FLOATS, LAYOUTS, NUMBERS, PAIRS, SHAPES, WHOLES, Call, X, call, index, listed, reduction, row


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
        [
            ((7,), (3, 5)),
            ((7,), ()),
            ((0,), (3,)),
            ((7,), (0,)),
            ((3, 7), (3, 5)),
            ((2, 3, 7), (2, 3, 1)),
            ((1,), (2, 2)),
            ((3, 7), (3, 0)),
        ],
        ANY,
        (False, True),
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
        for q, dim in product(
            (0.3, 0, 1.0, X((), dtype, 0, 1, grad=False), X((4,), dtype, 0, 1, grad=False)), (None, *dims(shape))
        ):
            yield call(X(shape, dtype, layout=layout), q, dim)
    for how, keep, dim in product(
        ("linear", "lower", "higher", "nearest", "midpoint", "up", 3), (False, True), (None, 0, -1)
    ):
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


def edged_histograms() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, ("float64", "float32"), LAYOUTS):
        x, w = X(shape, dtype, layout=layout), X(shape, dtype, 0, 2, seed=1)
        yield call(x, 7)
        yield call(x)
        yield call(x, 5, range=(-2, 2.5), weight=w)
        yield call(x, X((4,), dtype, layout="sorted", grad=False), density=True)
        yield call(x, 3, range=[0.5, 0.5], density=True, weight=w)
    yield call(X((130,), kind="whole"), 6, range=(-3.0, 3.0))
    yield call(X((130,), kind="special"), 6, range=(-3.0, 3.0))
    yield call(X((130,), kind="special"), 6)
    yield call(X((7,)))
    yield call(X((7,)), 0)
    yield call(X((7,)), 5, range=(3, 1))
    yield call(X((7,)), 5, range=(1, 2, 3))
    yield call(X((7,)), 5, range=(0, float("inf")))
    yield call(X((7,)), X((4,), layout="sorted", grad=False), range=(0, 1))
    yield call(X((7,)), X((2, 2), grad=False))
    yield call(X((7,)), X((4,), "float32", layout="sorted", grad=False))
    yield call(X((7,)), 5, weight=X((6,)))
    yield call(X((7,)), 5, weight=X((7,), "float32"))
    yield call(X((7,), "int64"), 5)
    yield call(X((7,)), 5.5)
    yield call(X((7,)), "5")


def histograms_of_points() -> Iterator[Call]:
    for shape, dtype, layout in product([(7, 2), (3, 5, 2), (0, 2), (130, 2)], ("float64", "float32"), LAYOUTS):
        x, w = X(shape, dtype, layout=layout), X(shape[:-1], dtype, 0, 2, seed=1)
        edges = [X((n,), dtype, layout="sorted", grad=False, seed=n) for n in (4, 6)]
        yield call(x, [3, 4])
        yield call(x, 4, weight=w, density=True)
        yield call(x, [3, 1], range=(-2, 2, -1.5, 3), density=True)
        yield call(x, edges)
        yield call(x, edges, weight=w)
    yield call(X((7, 3)), [2, 3, 4])
    yield call(X((7, 2)), [2, 3, 4])
    yield call(X((7, 2)), [2, 0])
    yield call(X((7, 2)), [2, 2], range=(0, 1))
    yield call(X((7, 2)), [2, 2], range=(0, 1, 3, 2))
    yield call(X((7, 2)), 3, weight=X((7, 2)))
    yield call(X((7,)), 3)
    yield call(X((7, 2), "int64"), 3)
    yield call(X((7, 2)))


def modes() -> Iterator[Call]:
    for shape, dtype, layout in product(SHAPES, NUMBERS, LAYOUTS):
        for dim in dims(shape):
            yield call(X(shape, dtype, layout=layout), dim, keepdim=dim == 0)
    yield call(X((3, 5), "int64"))
    yield call(X((3, 5)), "0")


def alike() -> Iterator[Call]:
    for (a, b), d in product(PAIRS, ("float64", "float32")):
        yield call(X(a, d), X(b, d, seed=1))
        yield call(X(a, d), X(b, d, seed=1), 0.5, 0.25)
    for shape, d, layout in product(SHAPES, ANY, LAYOUTS):
        yield call(X(shape, d, layout=layout), X(shape, d, layout=layout))
    for d, equal_nan in product(FLOATS, (False, True)):
        yield call(X((130,), d, kind="special"), X((130,), d, kind="special"), equal_nan=equal_nan)
        yield call(X((130,), d, kind="special"), X((130,), d, kind="special", seed=1), 0.5, 1.0, equal_nan)
    for d in WHOLES:
        yield call(X((3, 5), d), X((5,), d, seed=1), 0.5)
        yield call(X((3, 5), d), X((5,), d, seed=1), atol=1)
    yield call(X((3,)), X((3,)), -1.0)
    yield call(X((3,)), X((3,)), atol="a")
    yield call(X((3,)), 1.0)
    yield call(X((3, 5)), X((2, 5)))


def identical() -> Iterator[Call]:
    for shape, d, layout in product(SHAPES, ANY, LAYOUTS):
        yield call(X(shape, d, layout=layout), X(shape, d, layout=layout))
        yield call(X(shape, d, layout=layout), X(shape, d, seed=1))
    yield call(X((130,), kind="special"), X((130,), kind="special"))
    for a, b in PAIRS:
        yield call(X(a), X(b))
    yield call(X((3,)), 1.0)


row("isclose allclose", alike)
row("equal", identical)
row("mode", modes)
row("quantile nanquantile", quantiles)
row("histc", histograms)
row("histogram", edged_histograms)
row("histogramdd", histograms_of_points)
row("sort argsort", sorts)
row(
    "msort", listed(*[call(X(s, d, layout=layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)], call(X((3,)), 0))
)
row("topk", topks)
row("kthvalue", kths)
row("median nanmedian", medians)
row("unique unique_consecutive", uniques)
row("searchsorted", searches)
row("bucketize", buckets)
row("isin", memberships)
row("bincount", counts)
