"""Promotion: the tables of docs/dtypes.md are what the library does, and PyTorch's where it has an
answer.  Integer and bool arithmetic at its edges.

use: python tests/python/test_dtypes.py     writes the tables anew"""

from __future__ import annotations

import itertools
import operator
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")) / "python"))

import chainrule as cr  # noqa: E402
import pytest  # noqa: E402

PAGE = ROOT / "docs" / "dtypes.md"
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"
NAMES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
SHORT = {n: n.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i") for n in NAMES}
NUMBERS = {"True": True, "2": 2, "2.5": 2.5}


def ours(name: str) -> Any:
    return getattr(cr, name)


def name_of(dtype: object) -> str:
    return str(dtype).split(".")[1]


def table(head: str, columns: list[str], cell: Any) -> str:
    lines = [f"| {head} | " + " | ".join(SHORT.get(c, c) for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| **{SHORT[a]}** | " + " | ".join(SHORT[name_of(cell(a, b))] for b in columns) + " |" for a in NAMES]
    return "\n".join(lines) + "\n"


def tables() -> str:
    both = table("tensor and tensor", NAMES, lambda a, b: cr.promote_types(ours(a), ours(b)))
    number = table("tensor and number", [*NUMBERS], lambda a, b: cr.result_type(cr.ones(1, dtype=ours(a)), NUMBERS[b]))
    zero = table(
        "tensor and 0-d tensor",
        NAMES,
        lambda a, b: cr.result_type(cr.ones(1, dtype=ours(a)), cr.ones((), dtype=ours(b))),
    )
    return f"{both}\n{number}\n{zero}"


def test_the_page_is_current() -> None:
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == tables(), "run tests/python/test_dtypes.py"


def test_results_have_the_dtype_of_the_table() -> None:
    for a, b in itertools.product(NAMES, NAMES):
        x, y, zero = cr.ones(2, dtype=ours(a)), cr.ones(2, dtype=ours(b)), cr.ones((), dtype=ours(b))
        assert (x + y).dtype == cr.result_type(x, y) == cr.promote_types(ours(a), ours(b))
        assert (x * zero).dtype == cr.result_type(x, zero)
    for a, number in itertools.product(NAMES, NUMBERS.values()):
        x = cr.ones(2, dtype=ours(a))
        assert (x + number).dtype == cr.result_type(x, number) == cr.result_type(number, x)


def answer(f: Any, *args: Any) -> str | None:
    """None: PyTorch has none."""
    try:
        return name_of(f(*args))
    except RuntimeError:
        return None


def test_pytorch_agrees() -> None:
    torch: Any = pytest.importorskip(
        "torch", reason="PyTorch is not installed: the tables are compared with the page only"
    )
    asked = 0
    for a, b in itertools.product(NAMES, NAMES):
        p, q = getattr(torch, a), getattr(torch, b)
        x, y = cr.ones(1, dtype=ours(a)), torch.ones(1, dtype=p)
        pairs = [
            (cr.promote_types(ours(a), ours(b)), answer(torch.promote_types, p, q)),
            (cr.result_type(x, cr.ones(3, dtype=ours(b))), answer(torch.result_type, y, torch.ones(3, dtype=q))),
            (cr.result_type(x, cr.ones((), dtype=ours(b))), answer(torch.result_type, y, torch.ones((), dtype=q))),
            (
                cr.result_type(cr.ones((), dtype=ours(a)), cr.ones((), dtype=ours(b))),
                answer(torch.result_type, torch.ones((), dtype=p), torch.ones((), dtype=q)),
            ),
        ]
        for k, (mine, theirs) in enumerate(pairs):
            assert theirs in (None, name_of(mine)), f"{a} and {b}, way {k}: {mine}, PyTorch's {theirs}"
            asked += theirs is not None
        assert cr.can_cast(ours(a), ours(b)) == torch.can_cast(p, q), f"can_cast({a}, {b})"
    for a, number in itertools.product(NAMES, NUMBERS.values()):
        for shape in ((), (3,)):
            mine, theirs = (
                cr.result_type(cr.ones(shape, dtype=ours(a)), number),
                torch.result_type(torch.ones(shape, dtype=getattr(torch, a)), number),
            )
            assert name_of(mine) == name_of(theirs), f"{a} {shape} and {number}"
    for m, n in itertools.product(NUMBERS.values(), NUMBERS.values()):
        assert name_of(cr.result_type(m, n)) == name_of(torch.result_type(m, n))
    assert asked > 4 * 100


# ---- integers and bool

SIGNED = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
EDGES = {
    **{n: [-(2 ** (b - 1)), -(2 ** (b - 1)) + 1, -7, -2, -1, 1, 2, 7, 2 ** (b - 1) - 1] for n, b in SIGNED.items()},
    "uint8": [1, 2, 7, 128, 255],
}
OPERATIONS = {
    "//": operator.floordiv,
    "%": operator.mod,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


@pytest.mark.parametrize("dtype", EDGES)
def test_integers_at_their_edges(dtype: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    pairs = [*itertools.product(EDGES[dtype], EDGES[dtype])]
    a, b = [p[0] for p in pairs], [p[1] for p in pairs]
    x, y = (cr.tensor(v, dtype=ours(dtype)) for v in (a, b))
    p, q = (torch.tensor(v, dtype=getattr(torch, dtype)) for v in (a, b))
    defined = [not (m == min(EDGES[dtype]) < 0 and n == -1) for m, n in pairs]  # that quotient traps in PyTorch
    where = torch.tensor(defined)
    for name, f in OPERATIONS.items():
        ok = where if name in ("//", "%") else torch.ones_like(where)
        theirs = f(p[ok], q[ok]).tolist()
        assert [v for v, keep in zip(f(x, y).tolist(), ok.tolist(), strict=True) if keep] == theirs, name
    for name in ("fmod", "div", "abs", "neg", "sign", "square", "bitwise_not"):
        more = (
            ([y], [q[where]], {"rounding_mode": "trunc"} if name == "div" else {})
            if name in ("fmod", "div")
            else ([], [], {})
        )
        mine, theirs = (
            getattr(x, name)(*more[0], **more[2]).tolist(),
            getattr(p[where], name)(*more[1], **more[2]).tolist(),
        )
        assert [v for v, keep in zip(mine, defined, strict=True) if keep] == theirs, name
    low = min(EDGES[dtype])
    if low < 0:  # wraps, where PyTorch traps or does
        smallest = cr.tensor([low], dtype=ours(dtype))
        assert (
            (-smallest).tolist() == [low]
            and abs(smallest).tolist() == [low]
            and (smallest // -1).tolist() == [low]
            and (smallest % -1).tolist() == [0]
        )


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", *SIGNED])
def test_division_by_zero(dtype: str) -> None:
    x, zero = cr.tensor([7, 5], dtype=ours(dtype)), cr.tensor([1, 0], dtype=ours(dtype))
    for f in (
        operator.floordiv,
        operator.mod,
        cr.fmod,
        lambda a, b: cr.div(a, b, rounding_mode="trunc"),
        operator.ifloordiv,
        operator.imod,
    ):
        for by in (zero, 0, cr.zeros((), dtype=ours(dtype))):
            with pytest.raises(RuntimeError, match="an integer divided by zero"):
                f(x.clone(), by)
    assert (x / 0).tolist() == [float("inf")] * 2


def test_comparisons_across_signs() -> None:
    a, b = cr.arange(0, 256, dtype=cr.uint8), cr.arange(-128, 128, dtype=cr.int8)
    tests: list[Callable[[Any, Any], Any]] = [
        operator.lt,
        operator.le,
        operator.eq,
        operator.ne,
        operator.gt,
        operator.ge,
    ]
    for f in tests:
        assert f(a.reshape(-1, 1), b).tolist() == [[f(m, n) for n in range(-128, 128)] for m in range(256)]


def test_bool() -> None:
    t = cr.tensor([True, False])
    assert (
        (t + t).tolist() == [True, False]
        and (t * t).tolist() == [True, False]
        and (~t).tolist() == [False, True]
        and (t + 1).tolist() == [2, 1]
    )
    refused: list[Callable[[], Any]] = [lambda: t - t, lambda: -t, lambda: t // t, lambda: t % t]
    for f in refused:
        with pytest.raises(RuntimeError, match="bool is not a number"):
            f()


def test_in_place() -> None:
    x = cr.ones(2, dtype=cr.int64)
    in_place: list[Callable[[Any, Any], Any]] = [operator.itruediv, operator.imul, operator.iadd]
    for f in in_place:
        with pytest.raises(RuntimeError, match="cannot be written into int64"):
            f(x, 2.5)
    with pytest.raises(RuntimeError, match="cannot be written into bool"):
        in_place[2](cr.tensor([True]), 1)
    narrow = cr.tensor([250], dtype=cr.uint8)
    narrow += cr.tensor([10])
    assert narrow.tolist() == [4]


def test_powers() -> None:
    base, exponent = cr.tensor([1, -1, -1, 2, 3]), cr.tensor([-5, -3, -2, -1, 39])
    assert (base**exponent).tolist() == [1, -1, 1, 0, 3**39]
    with pytest.raises(RuntimeError, match="negative power"):
        base**-1


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + tables() + text[text.index(END) :])


def test_integers_that_no_double_holds() -> None:
    """From 2^63 on an int is for uint64, whose bits it keeps, and for floats; integers beyond 2^53
    are not rounded where one number fills a tensor."""
    big, most, odd = 2**63 + 1, 2**64 - 1, 2**60 + 1
    x = cr.tensor([[big, 1], [most, True]], dtype=cr.uint64)
    assert (
        x.tolist() == [[big, 1], [most, 1]]
        and x[0, 0].item() == big
        and cr.tensor(most, dtype=cr.uint64).item() == most
    )
    assert (x == big).tolist() == [[True, False], [False, False]] and (x > big).tolist() == [
        [False, False],
        [True, False],
    ]
    assert (x + big).tolist() == [[2, big + 1], [2**63, big + 1]] and cr.where(x == 1, most, x).tolist() == [
        [big, most],
        [most, most],
    ]
    for made in (
        cr.full((1,), big, dtype=cr.uint64),
        cr.full_like(x[:1, 0], big),
        x.new_full((1,), big),
        x[:1, 0].clone().fill_(big),
        x.new_tensor([big]),
        x[:1, 0].masked_fill(cr.tensor([True]), big),
        x[:1, 0].clone().masked_fill_(cr.tensor([True]), big),
        cr.asarray([big], dtype=cr.uint64),
    ):
        assert made.dtype == cr.uint64 and made.tolist() == [big]
    x[1, 1] = big
    assert x[1, 1].item() == big and (cr.ones(1, dtype=cr.float64) * big).item() == float(big)
    assert (
        cr.tensor([big, 2.5], dtype=cr.float64).tolist()
        == [float(big), 2.5]
        == cr.tensor([2.5, big], dtype=cr.float64).tolist()[::-1]
    )
    y = cr.zeros(1, dtype=cr.int64)
    for made in (
        cr.full((1,), odd),
        cr.full_like(y, odd),
        y.new_full((1,), odd),
        y.clone().fill_(odd),
        y.masked_fill(y == 0, odd),
        y.clone().fill_(-odd).neg(),
    ):
        assert made.tolist() == [odd]
    beyond: list[Callable[[], Any]] = [
        lambda: cr.tensor([big]),
        lambda: cr.tensor(2**64),
        lambda: cr.tensor(big, dtype=cr.int64),
        lambda: y + 2**64,
    ]
    for refused in beyond:
        with pytest.raises(OverflowError, match="64 bits|uint64"):
            refused()
    with pytest.raises(RuntimeError, match="uint64"):
        cr.full((1,), big)
