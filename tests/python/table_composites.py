"""Calls of functions that are compositions of others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from cases import ANY, FLOATS, LAYOUTS, SHAPES, Call, Cases, X, call, index, listed, row, shaped

row(
    "logspace",
    listed(
        *[call(a, b, n, dtype=d) for (a, b), n, d in product([(0, 2), (-1, 1.5)], (0, 1, 5), ("float64", "float32"))],
        call(0, 3, 4, 2.0),
        call(0, 3, steps=4, base=3),
        call(0, 3, -1),
        call(0, 3),
    ),
)
row(
    "tril_indices triu_indices",
    listed(
        *[call(n, m, k) for n, m, k in product((0, 1, 3, 5), (0, 1, 4), (-2, 0, 1))],
        call(3, 4, offset=1),
        call(3),
        call(3.5, 2),
    ),
)
row("fill", shaped(call(2), call(2.5), call(X((), seed=1)), call(X((2,), seed=1)), call(True)))


def lists() -> Iterator[Call]:
    for shape, dtype in product(SHAPES, ("float64", "int64", "bool")):
        yield call([X(shape, dtype), X(shape, dtype, seed=1)])
    for shape, layout in product(SHAPES, LAYOUTS):
        yield call([X(shape, layout=layout), X(shape, seed=1)])
    yield call([X((3, 5)), X((2, 5))])
    yield call([X((3,)), X((3, 2))])
    yield call([1.0])


row("dstack column_stack", lists)
row("row_stack", listed(call([X((3, 5)), X((2, 5))]), call([X((3,)), X((3,), seed=1)]), call([])))
row(
    "block_diag",
    listed(
        call(X((2, 3)), X((1, 2), seed=1), X((3,), seed=2), X((), seed=3)),
        call(X((2, 3), "int64"), X((1, 2), "float32")),
        call(X((2, 3, 1))),
        *[call(X((2, 3), layout=layout), X((2, 2), seed=1)) for layout in LAYOUTS],
    ),
)
row(
    "cartesian_prod",
    listed(
        call(X((3,)), X((2,), seed=1)),
        call(X((3,))),
        call(X((3,), "int64"), X((2,), "int64"), X((4,), "int64")),
        call(X((3,)), X((0,))),
        call(X((3, 1)), X((2,))),
    ),
)
row(
    "combinations",
    listed(
        *[call(X((n,), d), r, w) for n, d, r, w in product((0, 1, 4), ("float64", "int64"), (1, 2, 3), (False, True))],
        call(X((5,), layout="strided"), with_replacement=True),
        call(X((3, 2))),
        call(X((3,)), 0),
        call(X((3,)), -1),
    ),
)
PARTS = [call(1), call(2), call(3), call([1, 2]), call((2,)), call([]), call([0, 5, 2]), call(0), call(-1), call("2")]
row(
    "tensor_split",
    shaped(*PARTS, call(2, -1), call(2, dim=9), call([1, -1], dim=1), shapes=[(6,), (3, 5), (2, 0, 3), (2, 4, 6)]),
)
row("hsplit vsplit dsplit", shaped(*PARTS[:8], shapes=[(6,), (3, 6), (6, 6, 6), (2, 4, 6)]))
row(
    "split_with_sizes",
    shaped(call([1, 2]), call((2, 3), 1), call([3, 3], -1), call([1, 1], 5), shapes=[(3,), (3, 5), (2, 6)]),
)
row(
    "rot90",
    shaped(
        *[call(k) for k in range(-2, 5)],
        call(1, (1, 0)),
        call(1, [-1, 0]),
        call(1, (0, 5)),
        call(1, (0,)),
        call(1, (1, 1)),
    ),
)
row("diagflat", shaped(call(), call(1), call(offset=-2)))
row(
    "select_scatter",
    listed(
        *[call(X((3, 5), layout=layout), X((5,), seed=1), 0, 1) for layout in LAYOUTS],
        call(X((3, 5)), X((3,), seed=1), 1, -1),
        call(X((3, 5)), X((4,), seed=1), 1, 0),
        call(X((3, 5)), X((3,), seed=1), 1, 7),
    ),
)
row(
    "slice_scatter",
    listed(
        *[call(X((6, 5), layout=layout), X((2, 5), seed=1), 0, 1, 5, 2) for layout in LAYOUTS],
        call(X((6, 5)), X((6, 5), seed=1)),
        call(X((6, 5)), X((6, 3), seed=1), dim=1, start=2),
        call(X((6, 5)), X((6, 4), seed=1), dim=1, start=2),
    ),
)
row(
    "diagonal_scatter",
    listed(
        *[call(X((3, 5), layout=layout), X((3,), seed=1)) for layout in LAYOUTS],
        call(X((3, 5)), X((3,), seed=1), 1),
        call(X((3, 5)), X((2,), seed=1)),
    ),
)
row("positive", shaped(call()))


def pairs(low: float = -3) -> Cases:
    def cases() -> Iterator[Call]:
        for d, layout in product(ANY, LAYOUTS):
            yield call(X((3, 5), d, low, layout=layout), X((3, 5), d, low, seed=1))
        yield call(X((3, 5), low=low), X((5,), low=low, seed=1))
        yield call(X((3, 5), low=low), X((2,), low=low, seed=1))

    return cases


row("float_power", pairs(0.5))
row("heaviside", pairs())
row(
    "dist",
    listed(
        *[
            call(X((3, 5), d), X((3, 5), d, seed=1), p)
            for d, p in product(("float64", "float32"), (2, 1, 0, 3.5, float("inf")))
        ],
        call(X((3, 5)), X((5,), seed=1)),
        call(X((3, 5)), X((4,), seed=1)),
    ),
)
row(
    "cdist",
    listed(
        *[call(X((3, 5)), X((4, 5), seed=1), p) for p in (2.0, 1.0, 0.0, 3.0, float("inf"))],
        *[call(X((2, 3, 5), layout=layout), X((4, 5), seed=1)) for layout in LAYOUTS],
        call(X((27, 3)), X((4, 3), seed=1)),
        call(X((3, 5)), X((4, 5), seed=1), compute_mode="use_mm_for_euclid_dist"),
        call(X((3, 5)), X((4, 5), seed=1), compute_mode="no"),
        call(X((3, 5)), X((4, 6), seed=1)),
        call(X((3,)), X((4, 3), seed=1)),
        call(X((0, 5)), X((4, 5), seed=1)),
    ),
)
INTEGRALS = [
    call(),
    call(dx=2),
    call(dx=0.5, dim=0),
    call(dim=-1),
    call(dim=5),
    call(X((5,), seed=1)),
    call(X((4,), seed=1)),
]
row(
    "trapezoid trapz cumulative_trapezoid",
    shaped(*INTEGRALS, shapes=[(5,), (3, 5), (2, 3, 5)]),
)
row(
    "cross",
    listed(
        *[call(X((3, 5), layout=layout), X((3, 5), seed=1)) for layout in LAYOUTS],
        call(X((2, 3)), X((2, 3), seed=1)),
        call(X((5, 3)), X((1, 3), seed=1), dim=-1),
        call(X((5, 2)), X((5, 2), seed=1)),
        call(X((5, 3)), X((5, 3), seed=1), dim=0),
        call(X((3,), "int64"), X((3,), "int64", seed=1)),
    ),
)
row(
    "cov",
    listed(
        *[call(X((3, 5), d, layout=layout)) for d, layout in product(("float64", "float32"), LAYOUTS)],
        call(X((5,))),
        call(X((1, 5))),
        call(X(())),
        call(X((3, 5)), correction=0),
        call(X((3, 5)), correction=2, fweights=X((5,), "int64", 1, 4)),
        call(X((3, 5)), aweights=X((5,), low=0.5, grad=False)),
        call(X((3, 5)), fweights=X((5,), "int64", 1, 4), aweights=X((5,), low=0.5, grad=False)),
        call(X((3, 5, 2))),
        call(X((3, 5), "bool")),
        call(X((3, 5)), fweights=X((4,), "int64", 1, 4)),
    ),
)
row(
    "corrcoef",
    listed(*[call(X((3, 7), layout=layout)) for layout in LAYOUTS], call(X((7,))), call(X((1, 7))), call(X((3, 5, 2)))),
)
row(
    "vander",
    listed(
        *[call(X((4,), d)) for d in (*FLOATS[:2], "int64")],
        call(X((4,)), 3),
        call(X((4,)), N=0),
        call(X((4,)), 5, True),
        call(X((4,)), increasing=True),
        call(X((4, 2))),
        call(X((4,)), -1),
    ),
)
row(
    "as_strided",
    listed(
        call(X((3, 5)), (2, 2), (5, 1)),
        call(X((3, 5)), (3,), (6,)),
        call(X((15,)), (4, 3), (2, 1)),
        call(X((15,)), (4, 3), (2, 1), 1),
        call(X((15,)), (0, 3), (2, 1)),
        call(X((15,)), (4, 3), (2,)),
        call(X((15,)), (4, 30), (2, 1)),
        call(X((15,)), (4, 3), (2, -1)),
    ),
)
row("unsqueeze_", shaped(call(0), call(-1), call(1), call(9)))
row("squeeze_", shaped(call(), call(0), call(-1)))
row("transpose_ swapaxes_ swapdims_", shaped(call(0, 1), call(0, -1), call(0, 5)))
row("t_", shaped(call()))
row("get_default_dtype", listed(call()))
row("set_default_dtype", listed())


def whole(*dtypes: str) -> Cases:
    """Pairs of integers, broadcast, with zeros and negative ones; and what is refused."""

    def cases() -> Iterator[Call]:
        for d in dtypes:
            yield call(X((7, 5), d, -9 if d[0] == "i" else 0), X((5,), d, -6 if d[0] == "i" else 0, seed=1))
        yield call(X((7,), "int64", layout="strided"), X((7,), "int32", seed=1))
        yield call(X((0, 3), "int64"), X((3,), "int64"))
        yield call(X((3,), "float32"), X((3,), "float32"))
        yield call(X((3,), "int64"), X((4,), "int64"))

    return cases


row("gcd lcm", whole("int64", "int32", "uint8"))
row("ldexp", listed(*[call(X((3, 5), d), X((5,), "int64", 0, seed=1)) for d in ("float64", "float32")],
                    call(X((3, 5)), X((3, 5), seed=1))))  # fmt: skip
row("frexp", shaped(call(), shapes=[(3, 5), (0, 2), ()]))
row(
    "renorm",
    listed(
        *[
            call(X((3, 5), layout=layout), p, d, m)
            for layout, p, d, m in product(LAYOUTS, (1, 2, 2.5), (0, -1), (1, 3.0))
        ],
        call(X((2, 3, 4)), float("inf"), 1, 0.5),
        call(X((3,)), 2, 0, 1),
        call(X((3, 5)), 0, 0, 1),
        call(X((3, 5)), 2, 2, 1),
        call(X((3, 5)), 2, 0, -1),
    ),
)
row(
    "index_reduce",
    listed(
        *[
            call(X((4, 5), low=0.5), 0, index((3,), 4), X((3, 5), low=0.5, seed=1), r, include_self=s)
            for r, s in product(("prod", "mean", "amax", "amin"), (True, False))
        ],
        call(X((2, 4)), -1, index((6,), 4), X((2, 6), seed=1), "amax"),
        call(X((4, 5)), 0, index((3,), 4), X((2, 5), seed=1), "amax"),
        call(X((4, 5)), 0, index((3,), 4), X((3, 5), seed=1), "sum"),
        call(X((4, 5)), 3, index((3,), 4), X((3, 5), seed=1), "amax"),
    ),
)
row(
    "fill_diagonal_",
    listed(
        *[call(X(s, d, layout=layout), 7) for s, d, layout in product([(3, 5), (5, 3)], ("float64", "int64"), LAYOUTS)],
        *[call(X((n, 3)), 2.5, wrap) for n, wrap in product((3, 4, 5, 9), (True, False))],
        call(X((3, 3, 3)), 1),
        call(X((3, 3, 4)), 1),
        call(X((3,)), 1),
        call(X((0, 4)), 1),
    ),
)
