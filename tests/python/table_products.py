"""Calls of matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from cases import ANY, LAYOUTS, PAIRS, Call, Cases, X, call, listed, row

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


row("matmul mm bmm mv dot", matrices())
row("outer", matrices())


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
row(
    "inner",
    matrices(
        call(X((3, 5)), X((2, 4, 5))), call(X((7, 5)), X((5,))), call(X(()), X((3, 2))), call(X((2, 0)), X((3, 0)))
    ),
)
row(
    "kron",
    lambda: (
        call(X(a, d), X(b, d, seed=1))
        for (a, b), d in product([*PAIRS, ((2, 3), (3, 2)), ((3,), (2, 1, 2))], ("float64", "int64"))
    ),
)
row(
    "trace",
    listed(
        *[
            call(X(s, d, layout=layout))
            for s, d, layout in product([(3, 5), (5, 3), (4, 4), (0, 3), (3,), (), (2, 3, 3)], ANY, LAYOUTS)
        ]
    ),
)
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
