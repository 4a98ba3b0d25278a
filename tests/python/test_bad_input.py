"""Bad input is an exception that names the op and the values; tests/test_bad_input.c
goes through every op of C, this through the names and operators of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chainrule as cr
import pytest

X, HUGE = cr.ones(5, 3), (2**31, 2**31, 2**31)
Row = tuple[str, Callable[..., Any]]


def refuses(kind: Any, rows: list[Row]) -> None:
    for message, f in rows:
        with pytest.raises(kind) as e:
            f()
        assert message in str(e.value), f"{message} is not in: {e.value}"


@pytest.mark.parametrize("dtype", [cr.int32, cr.int64])
@pytest.mark.parametrize("at", range(4))
def test_indices_out_of_range(dtype: Any, at: int) -> None:
    def index(bad: int) -> Any:
        return cr.tensor([bad if k == at else 0 for k in range(4)], dtype=dtype)

    def written(bad: int, value: Any) -> None:
        x = X.clone()
        x[index(bad)] = value

    def added(bad: int) -> None:
        x = X.clone()
        x[index(bad)] += 1

    where = f"at position {at} is out of range for size"
    rows: list[Row] = []
    for bad in (5, -1):
        i, column = index(bad), index(bad).view(4, 1)
        found = f"index {bad} {where} 5"
        rows += [
            (found, lambda column=column: cr.gather(X, 0, column)),
            (found, lambda column=column: X.scatter(0, column, 1.0)),
            (found, lambda column=column: X.scatter_add(0, column, cr.ones(4, 1))),
            (found, lambda column=column: X.scatter(0, column, 2.0, reduce="multiply")),
            (found, lambda i=i: X.index_select(0, i)),
            (found, lambda i=i: X.index_add(0, i, cr.ones(4, 3))),
            (found, lambda i=i: X.index_copy(0, i, cr.ones(4, 3))),
            (found, lambda i=i: X.index_fill(0, i, 1.0)),
            (found, lambda i=i: cr.one_hot(i, 5)),
            (found, lambda i=i: cr.nn.functional.embedding(i, X)),
            (found, lambda i=i: cr.nn.functional.cross_entropy(cr.ones(4, 5), i)),
        ]
    for bad in (5, -6):  # negative ones count from the end
        found = f"index {bad} {where} 5"
        rows += [
            (found, lambda bad=bad: X[index(bad)]),
            (f"index {3 * bad} {where} 15", lambda bad=bad: X.take(index(3 * bad))),
            (found, lambda bad=bad: written(bad, 0.0)),
            (found, lambda bad=bad: written(bad, cr.ones(4, 3))),
            (found, lambda bad=bad: added(bad)),
            (found, lambda bad=bad: X.index_put((index(bad),), cr.ones(3), accumulate=True)),
        ]
    refuses(IndexError, rows)


def test_numbers_that_do_not_fit() -> None:
    """The first number beyond each dtype, ragged lists, elements of memory that are not the tensor's."""
    whole = [(cr.uint8, 256), (cr.uint8, -256), (cr.int8, 128), (cr.int8, -129), (cr.int32, 2**31)]
    refuses(
        RuntimeError,
        [("without overflow", lambda dtype=dtype, n=n: cr.tensor([n], dtype=dtype)) for dtype, n in whole],
    )
    for dtype, n in ((cr.uint8, 255), (cr.int8, 127), (cr.int8, -128), (cr.int32, 2**31 - 1)):
        assert cr.tensor([n], dtype=dtype).item() == n
    refuses(OverflowError, [("a negative int does not fit uint64", lambda: cr.tensor([-1], dtype=cr.uint64))])
    refuses(ValueError, [("ragged", lambda: cr.tensor([[1], 2])), ("got 1", lambda: cr.tensor([[], [[]]]))])
    part = cr.arange(6.0)[2:4]
    assert part.as_strided((2,), (1,), 2).tolist() == [2, 3]
    refuses(
        RuntimeError,
        [(f"elements {at} ... {at + 1} of the memory", lambda at=at: part.as_strided((2,), (1,), at)) for at in (1, 3)],
    )
    refuses(TypeError, [("must be int, not bool", lambda: X.select(0, True)), ("bool", lambda: cr.zeros(True))])
    refuses(TypeError, [("multiple values for argument 'dim'", lambda: X.sum(0, dim=1))])  # type: ignore[misc]
    rate: Any = cr.tensor(2.0, requires_grad=True)  # a number would cut the graph
    refuses(TypeError, [("'alpha'", lambda: X.add(1, alpha=rate)), ("'fill_value'", lambda: cr.full((2,), rate))])


def test_duplicate_axes() -> None:
    names = "sum nansum mean nanmean prod amax amin any all count_nonzero var std logsumexp flip permute".split()
    refuses(cr.Error, [("axis -2 appears more than once", lambda n=n: getattr(X, n)((0, -2))) for n in names])
    refuses(RuntimeError, [("[squeeze] axis 0 is named twice", lambda: X.squeeze((0, -2)))])
    refuses(
        cr.Error,
        [
            ("axis -2 appears more than once", lambda: X.norm(2, (0, -2))),
            ("axis -2 appears more than once", lambda: X.movedim((0, -2), (0, 1))),
        ],
    )


def test_nothing_to_reduce() -> None:
    none = cr.ones(3, 0)
    names = "max min amax amin argmax argmin aminmax".split()
    refuses(IndexError, [(f"[{n}] ", lambda n=n: getattr(none, n)()) for n in ("argmax", "argmin")])
    refuses(IndexError, [(f"[{n}] ", lambda n=n: getattr(none, n)(dim=1)) for n in names])
    refuses(cr.Error, [(f"[{n}] ", lambda n=n: getattr(none, n)()) for n in names if not n.startswith("arg")])
    refuses(
        (cr.Error, IndexError),
        [("", lambda: none.mode(1)), ("", lambda: none.kthvalue(1, 1)), ("", lambda: none.long().median())],
    )
    assert none.sum().item() == 0 and none.prod().item() == 1 and none.all().item() and not none.any().item()


def test_too_many_elements() -> None:
    makers = "zeros ones empty rand randn".split()
    refuses(
        cr.Error,
        [
            ("(2147483648, 2147483648, 2147483648) holds too many elements", lambda n=n: getattr(cr, n)(*HUGE))
            for n in makers
        ],
    )
    wide = cr.ones(1).expand(2**31)
    refuses(
        (cr.Error, MemoryError),
        [
            ("", lambda: cr.full(HUGE, 1.0)),
            ("", lambda: cr.randint(0, 2, HUGE)),
            ("", lambda: cr.eye(2**62)),
            ("", lambda: cr.arange(2**62)),
            ("", lambda: wide.expand(2**31, 2**31, 2**31)),
            ("", lambda: wide.repeat(2**31, 2**31)),
            ("", lambda: cr.outer(wide, cr.ones(1).expand(2**40))),
            ("", lambda: wide.repeat_interleave(2**40)),
        ],
    )


def test_shapes_that_do_not_broadcast() -> None:
    a, b = cr.ones(3, 5), cr.ones(4)
    i, j = a.long(), b.long()
    both = "shapes (3, 5) and (4,) do not broadcast"
    operators: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x / y,
        lambda x, y: x // y,
        lambda x, y: x % y,
        lambda x, y: x**y,
        lambda x, y: x < y,
        lambda x, y: x == y,
        cr.maximum,
        cr.atan2,
        cr.fmod,
        cr.logical_and,
    ]
    bits: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x & y,
        lambda x, y: x | y,
        lambda x, y: x ^ y,
        lambda x, y: x << y,
        lambda x, y: x >> y,
    ]
    refuses(cr.Error, [(both, lambda f=f: f(a, b)) for f in operators] + [(both, lambda f=f: f(i, j)) for f in bits])
    refuses(cr.Error, [("(4,)", lambda: cr.where(a > 0, a, b)), ("(3, 5) x (4,)", lambda: a @ b)])
    refuses(cr.Error, [(both, lambda: a.clone().add_(b)), (both, lambda: a.clone().copy_(b))])


def test_integers_divided_by_zero() -> None:
    x, zero = cr.tensor([4, 5, 6]), cr.tensor([1, 2, 0])
    divisions: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a // b,
        lambda a, b: a % b,
        cr.floor_divide,
        cr.remainder,
        cr.fmod,
        lambda a, b: cr.div(a, b, rounding_mode="trunc"),
        lambda a, b: cr.div(a, b, rounding_mode="floor"),
        lambda a, b: a.clone().remainder_(b),
    ]
    refuses(
        RuntimeError, [("an integer divided by zero", lambda f=f, b=b: f(x, b)) for f in divisions for b in (zero, 0)]
    )
    assert (x / zero).tolist() == [4.0, 2.5, float("inf")]
    refuses(
        RuntimeError,
        [
            ("[pow] integers to the negative power -1", lambda: x**-1),
            ("[pow_] integers to the negative power -2", lambda: x.clone().pow_(-2)),
        ],
    )


def test_overlaps_in_place() -> None:
    for shared in (cr.ones(1, 3).expand(2, 3), cr.ones(4).unfold(0, 3, 1)):
        calls: list[Callable[[Any], Any]] = [
            lambda t: t.add_(1),
            lambda t: t.mul_(t),
            lambda t: t.zero_(),
            lambda t: t.fill_(2.0),
            lambda t: t.copy_(cr.ones(2, 3)),
            lambda t: t.normal_(),
            lambda t: t.exp_(),
            lambda t: t.clamp_(0, 1),
            lambda t: t.cumsum_(0),
            lambda t: t.masked_fill_(cr.ones(2, 3) > 0, 1.0),
            lambda t: t.__iadd__(1),
            lambda t: t.index_fill_(0, cr.tensor([0]), 1.0),
            lambda t: t.scatter_(0, cr.zeros(1, 3).long(), 1.0),
            lambda t: t.__setitem__(cr.tensor([0]), 1.0),
            lambda t: t.scatter_(0, cr.zeros(1, 3).long(), 1.0, reduce="multiply"),
        ]
        refuses(cr.Error, [("cannot write in place", lambda f=f, t=shared: f(t)) for f in calls])
    x = cr.arange(6)
    x[1:] += x[:-1]
    assert x.tolist() == [0, 1, 3, 5, 7, 9]
    x[:] = x.flip(0)
    assert x.tolist() == [9, 7, 5, 3, 1, 0]


FLAGS: list[Callable[[cr.Tensor, Any], Any]] = [
    lambda x, flag: x.sum(0, keepdim=flag),
    lambda x, flag: cr.sum(x, 0, flag),
    lambda x, flag: x.amax(0, keepdim=flag),
    lambda x, flag: x.std(0, keepdim=flag),
    lambda x, flag: x.max(0, flag),
    lambda x, flag: x.sort(0, descending=flag),
    lambda x, flag: cr.sum(x, **{"axis": 0, "keepdims": flag}),
    lambda x, flag: x.requires_grad_(flag),
    lambda x, flag: cr.ones(2, requires_grad=flag),
    lambda x, flag: cr.asarray(x, copy=flag),
]


@pytest.mark.parametrize("call", FLAGS)
@pytest.mark.parametrize("flag", [1, 0, 1.0, "True", cr.tensor(True)], ids=repr)
def test_flags_are_bools(call: Callable[[cr.Tensor, Any], Any], flag: Any) -> None:
    x = cr.ones(2, 3)
    call(x, True)
    with pytest.raises(TypeError, match="must be bool, not"):
        call(x, flag)


def test_sizes_in_place_of_data() -> None:
    """Tensor(3, 4) says what makes a tensor of that shape; Tensor(3) is a number."""
    for sizes in ((3, 4), (2, 3, 4), (0, 5, 1, 2)):
        text = ", ".join(map(str, sizes))
        with pytest.raises(TypeError, match=rf"not the sizes \({text}\): chainrule.empty\({text}\) or chainrule.zeros"):
            cr.Tensor(*sizes)
    assert cr.Tensor(3).item() == 3 and cr.Tensor([3], "cpu").tolist() == [3] and cr.Tensor(3, device="cpu").shape == ()
