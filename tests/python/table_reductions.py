"""Calls of reductions and scans along axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from cases import (
    ANY,
    FLOATS,
    LAYOUTS,
    NUMBERS,
    PAIRS,
    SHAPES,
    Call,
    Cases,
    Dtype,
    X,
    both,
    call,
    listed,
    reduction,
    row,
)


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
row("any all", reduction(ANY))
row(
    "count_nonzero",
    listed(
        *[call(X(s, d, -1, 1, layout)) for s, d, layout in product(SHAPES, ANY, LAYOUTS)],
        call(X((3, 5)), 0),
        call(X((3, 5)), (0, 1)),
        call(X((3, 5)), 2),
    ),
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
