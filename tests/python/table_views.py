"""Calls of views and of copies in another arrangement."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from cases import ANY, LAYOUTS, SHAPES, Call, Cases, Dtype, X, both, call, index, listed, row, shaped


def arranged(*rest: Call) -> Cases:
    """shaped, also of views backwards and of other dtypes."""

    def cases() -> Iterator[Call]:
        yield from shaped(*rest)()
        for dtype, (args, kwargs) in product(ANY, rest):
            yield call(X((3, 5), dtype, layout="backwards"), *args, **kwargs)
        for shape, (args, kwargs) in product(SHAPES, rest):
            yield call(X(shape, layout="backwards"), *args, **kwargs)

    return cases


DIM_PAIRS = [call(a, b) for a, b in product((0, 1, -1, -2, 2, 5), repeat=2)] + [
    call(0, 1.0),
    call("0", 1),
    call(None, 0),
]


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


def views() -> Iterator[Call]:
    """Other shapes, and other dtypes."""
    yield from shaped(*VIEW_SHAPES)()
    for shape, a, b in product([(3, 5), (), (7,), (0,), (2, 3, 4), (3, 8)], ANY, ANY):
        if not (b == "bool" and a != "bool"):  # bytes that are neither 0 nor 1 are no bool
            yield call(X(shape, a), Dtype(b))
    layouts = ("transposed", "strided", "offset", "expanded")
    for layout, a, b in product(layouts, ("float32", "int64"), ("uint8", "int64")):
        yield call(X((3, 8), a, layout=layout), Dtype(b))
        yield call(X((3, 8), a, layout=layout), dtype=Dtype(b))
    yield call(X((3, 8)), Dtype("int64"), 3)
    yield call(X((3, 8)), 3, Dtype("int64"))
    yield call(X((3, 8)), size=(4, 6))


row("reshape", shaped(*VIEW_SHAPES))
row("view", views)
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
row(
    "flatten",
    shaped(
        call(),
        call(1),
        call(0, 1),
        call(-2, -1),
        call(1, 0),
        call(start_dim=1, end_dim=2),
        call(9),
        call(0.5),
        call(0, -1),
        call(0, 0),
    ),
)
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
row(
    "squeeze",
    shaped(call(), call(0), call(1), call(-2), call((0, 1)), call(9), call(0.5), call((1, 1)), call(dim=1), call(())),
)
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
row(
    "broadcast_to",
    shaped(
        call((2, 3, 5)),
        call((3, 5)),
        call((-1, 5)),
        call((5, 4, 3)),
        call((0,)),
        call(7),
        call(()),
        call(),
        call((2.0,)),
    ),
)
row(
    "expand_as view_as reshape_as",
    shaped(call(X((3, 5))), call(X((15,))), call(X((2, 3, 5, 7))), call(X(())), call(3), call()),
)
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
row(
    "select",
    shaped(
        call(0, 0),
        call(1, -1),
        call(-1, 2),
        call(0, 9),
        call(9, 0),
        call(0, -9),
        call(0),
        call(dim=0, index=1),
        call(0.5, 0),
    ),
)
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
row(
    "chunk",
    shaped(call(2), call(3, 1), call(1), call(0), call(-1), call(9), call(2, dim=-1), call(2, 9), call(1.5), call()),
)
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
    arranged(
        call(),
        call(1),
        call(-2),
        call(0, 1, 0),
        call(2, -1, -2),
        call(9),
        call(-(2**62)),
        call(0, 0, 0),
        call(0, 0, 9),
        call(1, dim1=0, dim2=2),
        call(0.5),
    ),
)
row(
    "diag_embed",
    both(
        shaped(call(), call(1), call(-2), call(0, 0, 1), call(1, 0, -1), call(0, 0, 0), call(0, 9, 1), call(0.5)),
        listed(call(X((2, 3)), offset=2, dim1=0, dim2=2)),
    ),
)
row("diag", shaped(call(), call(1), call(-2), call(diagonal=9), call("0")))
row("ravel", shaped(call(), call(0)))
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
row(
    "flip",
    arranged(call(0), call((0,)), call([0, 1]), call((-1, 0)), call(()), call(9), call((0, 0)), call(0.5), call()),
)
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
row(
    "repeat",
    arranged(
        call(2, 3),
        call((2, 1, 3)),
        call(1, 1),
        call(0, 2),
        call(2),
        call(3, 1, 2, 2),
        call(-1, 2),
        call(),
        call(1.5),
        call("2"),
    ),
)
row("tile", arranged(call((2, 3)), call((2,)), call([1, 2, 3]), call((0, 2)), call(()), call((-1,)), call((1.5,))))


def interleavings() -> Iterator[Call]:
    yield from arranged(
        call(2),
        call(3, 0),
        call(2, -1),
        call(2, dim=1),
        call(0),
        call(1, 1),
        call(-1),
        call(2, 9),
        call(1.5),
        call(2, 0, output_size=6),
        call(2, 0, output_size=7),
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
    sizes: list[Any] = [
        (1, 2),
        (0, 0),
        [2, 1, 1, 0],
        (1, 1, 2, 0, 0, 1),
        (-1, 2),
        (0, -2, 1, 0),
        (1,),
        (),
        3,
        "1",
        (1, 1.5),
        (-9, 1),
        (2**62, 2**62),
        (1, 2, 3),
    ]
    for shape, layout, size in product([(3, 5), (7,), (), (2, 0, 3), (2, 3, 5, 7)], [*LAYOUTS, "backwards"], sizes):
        yield call(X(shape, layout=layout), size)
    for dtype, value in product(ANY, (None, 1, 2.5, -1, True)):
        yield call(X((3, 5), dtype), (1, 2), "constant", value)
    for mode, shape, layout, size in product(
        ("reflect", "replicate", "circular"),
        [(2, 3, 5), (2, 5), (2, 3, 5, 7)],
        [*LAYOUTS, "backwards"],
        [(1, 2), (2, 0), (4, 4), (5, 1), (1, 2, 2, 1), (0, 9)],
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
    listed(
        *[call(X(s, layout=layout)) for s, layout in product(SHAPES, LAYOUTS)],
        call(X(()), X((3,))),
        call([X(()), X((2, 3))]),
    ),
)
row(
    "tril triu",
    shaped(call(), call(1), call(-1), call(diagonal=2), call(9), call(-9), call(0.5), call("0"), call(2**40)),
)
row("cat concat concatenate stack", lists_of())
row(
    "hstack vstack",
    listed(
        *[call([X(s, d), X(s, d, seed=1)]) for s, d in product(SHAPES, ("float64", "int64", "bool"))],
        *[
            call(v)
            for v in (
                [X((3, 5)), X((3, 2))],
                [X((3,)), X((2, 3))],
                [X(()), X((3,))],
                [],
                [1.0],
                X((3, 5)),
                [X((3, 5)), X((2, 5))],
                [X((0,)), X((3, 0))],
            )
        ],
    ),
)
