"""x[key] and x[key] = value against NumPy: both give the same, or both fail."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import chainrule as cr
import pytest
from conftest import FULL
from hypothesis import given, settings
from hypothesis import strategies as st

numpy: Any = pytest.importorskip("numpy", reason="NumPy is not installed: indexing is not compared")

MAX_DIMS = 8  # ours; NumPy has 64
EXAMPLES = 10000 if FULL else 300
often = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)

shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5, 7]), max_size=4).map(tuple)
bounds = st.none() | st.integers(-9, 9) | st.sampled_from([2**40, -(2**40), 2**63 - 1, -(2**63), 2**70])
slices = st.builds(slice, bounds, bounds, st.none() | st.integers(-4, 4) | st.sampled_from([2**62, -(2**62), -(2**70)]))
items = st.integers(-8, 8) | slices | st.none() | st.just(...) | st.integers(-3, 3).map(numpy.int32) | st.just(2**70)
keys = items | st.lists(items, max_size=6).map(tuple)


def pair(shape: tuple[int, ...], turned: bool) -> tuple[Any, Any]:
    a = numpy.arange(int(numpy.prod(shape)), dtype="int64").reshape(shape)
    x = cr.arange(a.size).reshape(shape)
    return (a.T, x.T) if turned else (a, x)


def outcome(f: Any) -> Any:
    try:
        return f()
    except Exception as e:
        return e


def ours(key: Any, integers: str) -> Any:
    """NumPy's integers in a key as 0-d tensors, in half of the cases."""
    if isinstance(key, tuple):
        return tuple(ours(k, integers) for k in key)
    return cr.tensor(int(key)) if isinstance(key, numpy.integer) and integers == "tensors" else key


def for_numpy(key: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Without a ... that stands for no axis: to NumPy it keeps index tensors apart, to PyTorch and
    to us it does not."""
    used = sum(
        0
        if k is None or k is ... or isinstance(k, bool)
        else k.ndim
        if isinstance(k, numpy.ndarray) and k.dtype == bool
        else 1
        for k in key
    )
    return tuple(k for k in key if k is not ...) if used == len(shape) else key


def agree(got: Any, want: Any, what: str) -> None:
    if isinstance(want, Exception):
        assert isinstance(got, (IndexError, ValueError, RuntimeError, TypeError)), f"{what}: {got!r}; NumPy: {want!r}"
        if isinstance(want, IndexError) and not re.search(
            "step cannot be zero|the most there can be", str(got)
        ):  # of two things wrong either may be found first
            assert isinstance(got, IndexError), f"{what}: {got!r}; NumPy: {want!r}"
        return
    if isinstance(got, IndexError) and re.search(r"a mask of shape \(([\d, ]*\D)?0,? ?[\d, ]*\) for", str(got)):
        return  # NumPy takes a mask of no elements for axes of any size
    assert not isinstance(got, Exception), f"{what}: {got!r}; NumPy gives {want!r}"
    assert got is None or (tuple(got.shape) == numpy.shape(want) and got.tolist() == numpy.asarray(want).tolist()), (
        f"{what}: {got.tolist()}; NumPy: {want!r}"
    )


@often
@given(shapes, st.booleans(), keys, st.sampled_from(["ints", "tensors"]))
def test_get(shape: tuple[int, ...], turned: bool, key: Any, integers: str) -> None:
    a, x = pair(shape, turned)
    agree(outcome(lambda: x[ours(key, integers)]), outcome(lambda: a[key]), f"shape {a.shape}, key {key}")


@often
@given(shapes, st.booleans(), keys, keys)
def test_nested(shape: tuple[int, ...], turned: bool, first: Any, second: Any) -> None:
    a, x = pair(shape, turned)
    want = outcome(lambda: a[first][second])
    if numpy.ndim(want) > MAX_DIMS or (not isinstance(want, Exception) and numpy.ndim(a[first]) > MAX_DIMS):
        want = ValueError(f"more than {MAX_DIMS} axes")
    agree(outcome(lambda: x[first][second]), want, f"shape {a.shape}, keys {first} {second}")


@often
@given(shapes, st.booleans(), keys, st.data())
def test_set(shape: tuple[int, ...], turned: bool, key: Any, data: Any) -> None:
    """A number, a tensor or a nested list whose shape fits or nearly fits: the whole tensor is the same afterwards."""
    a, x = pair(shape, turned)
    a = a.copy()
    x = x.clone()
    part = outcome(lambda: a[key])
    fits = numpy.shape(part) if not isinstance(part, Exception) else ()
    cut = data.draw(st.integers(0, len(fits)))
    shape_of_value = tuple(1 if data.draw(st.booleans()) else n for n in fits[cut:])
    if data.draw(st.integers(0, 4)) == 0:
        shape_of_value = data.draw(shapes)
    value = -1 - numpy.arange(int(numpy.prod(shape_of_value)), dtype="int64").reshape(shape_of_value)
    form = data.draw(st.sampled_from(["number", "tensor", "list"]))
    if form == "number":
        value = numpy.asarray(-5)
    given = -5 if form == "number" else cr.tensor(value.reshape(-1).tolist(), dtype=cr.int64).reshape(value.shape)

    def put(y: Any, v: Any) -> Any:
        y[key] = v
        return y

    if form == "list":
        given = value.tolist()
        value = numpy.asarray(given)  # what the list says: shape (0, 3) becomes (0,)
        value = value.astype("int64")
    what = f"shape {a.shape}, key {key}, value of shape {value.shape} as a {form}"
    if numpy.ndim(part) == 0 and value.size == 1:
        value = value.reshape(())  # into one element NumPy puts a number only; PyTorch any tensor of one element
    want = outcome(lambda: put(a, value))
    got = outcome(lambda: put(x, given))
    agree(got, want, what)


@often
@given(shapes, keys)
def test_gradient(shape: tuple[int, ...], key: Any) -> None:
    """The gradient of x[key] is 1 where the view looks, 0 elsewhere."""
    a, _ = pair(shape, False)
    x = cr.ones(shape, requires_grad=True)
    y = outcome(lambda: x[key])
    if isinstance(y, Exception):
        return
    y.sum().backward()
    want = numpy.zeros(shape)
    want[key] = 1
    assert x.grad is not None and x.grad.tolist() == want.tolist(), f"shape {shape}, key {key}"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (slice(None, None, 0), ValueError),
        (1.5, TypeError),
        ("a", TypeError),
        ({}, TypeError),
        ((0, "b"), TypeError),
        (cr.tensor([0.0]), IndexError),
        (cr.tensor([0], dtype=cr.uint64), IndexError),
        ([0.5], IndexError),
        ([[0, 1], [2]], ValueError),
        (cr.tensor([True, False]), IndexError),
        (cr.tensor([[True] * 5] * 2), IndexError),
        (cr.tensor([0, 3]), IndexError),
        (cr.tensor([0, -4]), IndexError),
        (([0], [5]), IndexError),
        (([0, 1], [0, 1, 2]), IndexError),
        (([0], [0], [0]), IndexError),
        (([0], ..., [0], ...), IndexError),
        ((None,) * 30, IndexError),
        ((True,) * 9, IndexError),
        ([[[[[[[[[0]]]]]]]]], ValueError),
        ((cr.zeros(1, 1, 1, 1, 1, 1, 1, 1, dtype=cr.int64),), ValueError),
    ],
    ids=lambda k: None if isinstance(k, type) else f"{k}".replace("\n", ""),
)
def test_refused(key: Any, kind: type[Exception]) -> None:
    """A bad key is an error that names it; nothing is read or written."""
    x = cr.arange(15).reshape(3, 5)
    with pytest.raises(kind):
        x[key]
    with pytest.raises(kind):
        x[key] = 1
    assert x.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]


def test_message_names_position_value_and_bound() -> None:
    x = cr.zeros(3, 5)
    with pytest.raises(IndexError, match=r"index 7 at position 2 is out of range for size 5"):
        x[:, [0, 1, 7]]
    with pytest.raises(IndexError, match=r"index -4 at position 1 is out of range for size 3"):
        x[[0, -4], 0] = 1
    with pytest.raises(IndexError, match=r"a mask of shape \(4,\) for the axes of shape \(5,\)"):
        x[0, cr.ones(4, dtype=cr.bool)]


# ---- keys with index tensors and masks
@st.composite
def advanced(draw: Any, ints: bool) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and a key of NumPy arrays, slices, None, ... and, if asked for, ints that mostly fits it."""
    shape = draw(st.lists(st.integers(1, 4) | st.just(0), min_size=1, max_size=4).map(tuple))
    common = draw(st.sampled_from([(2,), (3,), (2, 3), (1,), (0,)]))
    r = numpy.random.default_rng(draw(st.integers(0, 2**20)))
    key: list[Any] = []
    axis = 0
    kinds = ["array", "array", "mask", "slice", "none", "rest", "truth"] + ["int"] * ints
    while axis < len(shape) and len(key) < 6 and draw(st.integers(0, 7)):
        kind = draw(st.sampled_from(kinds))
        size = shape[axis]
        if kind == "array":
            cut = draw(st.integers(0, len(common) - 1))
            of = tuple(1 if draw(st.booleans()) else n for n in common[cut:])
            key.append(
                r.integers(-size, size + (draw(st.integers(0, 15)) == 0), of) if size else numpy.zeros(of, "int64")
            )
        elif kind == "mask":
            d = draw(st.integers(1, min(2, len(shape) - axis)))
            key.append(r.random(shape[axis : axis + d]) < draw(st.sampled_from([0, 0.3, 0.6, 1])))
            axis += d - 1
        elif kind == "slice":
            key.append(draw(slices))
        elif kind == "int":
            key.append(draw(st.integers(-size, size)))
        elif kind == "rest" and ... not in [k for k in key if k is ...]:
            key.append(...)
            axis += draw(st.integers(0, len(shape) - axis)) - 1
        elif kind == "truth":
            key.append(draw(st.booleans()))
            axis -= 1
        else:
            key.append(None)
            axis -= 1
        axis += 1
    return shape, tuple(key)


def as_ours(key: tuple[Any, ...], form: int) -> Any:
    """The arrays of a key as tensors of some dtype, as arrays, or as lists."""

    def one(k: Any, i: int) -> Any:
        if not isinstance(k, numpy.ndarray):
            return k
        if (i + form) % 3 == 0 and k.size:
            return k.tolist()
        if (i + form) % 3 == 1:
            return k
        dtype = cr.bool if k.dtype == bool else [cr.int64, cr.int32, cr.int16, cr.int8][form % 4]
        return cr.tensor(k.reshape(-1).tolist(), dtype=dtype).reshape(k.shape)

    made = tuple(one(k, i) for i, k in enumerate(key))
    return made[0] if len(made) == 1 and form % 2 else made


@often
@given(advanced(ints=False), st.integers(0, 11), st.booleans())
def test_get_advanced(case: tuple[tuple[int, ...], tuple[Any, ...]], form: int, turned: bool) -> None:
    shape, key = case
    a, x = pair(shape[::-1] if turned else shape, turned)
    want = outcome(lambda: a[for_numpy(key, a.shape)])
    if numpy.ndim(want) > MAX_DIMS:
        want = ValueError(f"more than {MAX_DIMS} axes")
    agree(outcome(lambda: x[as_ours(key, form)]), want, f"shape {a.shape}, key {key}")


@often
@given(advanced(ints=False), st.integers(0, 11), st.booleans(), st.data())
def test_set_advanced(case: tuple[tuple[int, ...], tuple[Any, ...]], form: int, turned: bool, data: Any) -> None:
    shape, key = case
    a, x = pair(shape[::-1] if turned else shape, turned)
    a = a.copy()
    x = x.clone() if not turned else x.T.clone().T
    part = outcome(lambda: a[for_numpy(key, a.shape)])
    fits = numpy.shape(part) if not isinstance(part, Exception) else ()
    cut = data.draw(st.integers(0, len(fits)))
    of = tuple(1 if data.draw(st.booleans()) else n for n in fits[cut:])
    value = -1 - numpy.arange(int(numpy.prod(of)), dtype="int64").reshape(of)

    def put(y: Any, k: Any, v: Any) -> Any:
        y[k] = v
        return y

    want = outcome(lambda: put(a, for_numpy(key, a.shape), value))
    got = outcome(
        lambda: put(x, as_ours(key, form), cr.tensor(value.reshape(-1).tolist(), dtype=cr.int64).reshape(value.shape))
    )
    if numpy.ndim(part) <= MAX_DIMS:
        agree(got, want, f"shape {a.shape}, key {key}, value of shape {value.shape}")


@often
@given(advanced(ints=True), st.integers(0, 11), st.booleans())
def test_torch_advanced(case: tuple[tuple[int, ...], tuple[Any, ...]], form: int, accumulate: bool) -> None:
    """With ints too, which PyTorch applies first: values and gradients of x[key], and what x[key] += 1 leaves."""
    torch: Any = pytest.importorskip(
        "torch", reason="PyTorch is not installed: keys of ints and arrays are not compared"
    )
    shape, key = case
    if any(isinstance(k, slice) and k.step is not None and not 0 < k.step < 2**40 for k in key):
        return  # PyTorch steps forwards only, and its strides overflow
    theirs = tuple(torch.from_numpy(k) if isinstance(k, numpy.ndarray) else k for k in key)
    n = int(numpy.prod(shape))
    x = cr.arange(n, dtype=cr.float64).reshape(shape).requires_grad_()
    t = torch.arange(n, dtype=torch.float64).reshape(shape).requires_grad_()
    what = f"shape {shape}, key {key}"
    want, got = outcome(lambda: t[theirs]), outcome(lambda: x[as_ours(key, form)])
    if isinstance(got, IndexError) and not isinstance(want, Exception) and want.numel() == 0:
        return  # PyTorch does not look at indices where there is nothing to pick
    if isinstance(want, Exception) or want.ndim > MAX_DIMS:
        assert isinstance(got, (IndexError, ValueError, RuntimeError)), f"{what}: {got!r}; PyTorch: {want!r}"
        return
    assert not isinstance(got, Exception), f"{what}: {got!r}"
    assert tuple(got.shape) == tuple(want.shape) and got.tolist() == want.tolist(), what
    (got * got).sum().backward()
    (want * want).sum().backward()
    assert x.grad is not None and x.grad.tolist() == t.grad.tolist(), what
    y, u = x.detach().clone(), t.detach().clone()
    y[as_ours(key, form)] += 1
    u[theirs] += 1
    assert y.tolist() == u.tolist(), what


def test_recorded() -> None:
    """x[key] = v in a graph: v gets what lies at its places, x the rest."""
    x, v = cr.arange(6, dtype=cr.float64).requires_grad_(), cr.tensor([5.0, 7.0], dtype=cr.float64, requires_grad=True)
    y = x * 2
    y[[1, -1]] = v
    y[y > 6] *= 3
    (y * cr.arange(6)).sum().backward()
    assert x.grad is not None and v.grad is not None
    assert y.tolist() == [0, 5, 4, 6, 24, 21] and x.grad.tolist() == [0, 0, 4, 6, 24, 0] and v.grad.tolist() == [1, 15]
    with pytest.raises(RuntimeError, match="leaf"):
        x[[0]] = 1
    x.grad = v.grad = None
    y = (x * 2).reshape(3, 1, 2)
    y[[0, 2], :, [1, 0]] = v.unsqueeze(1)  # axes that are no neighbours, in a view
    y[1][0, [0]] += 10  # in a view of a view
    (y.reshape(6) * cr.arange(6)).sum().backward()
    assert x.grad is not None and v.grad is not None
    assert (
        y.tolist() == [[[0, 5]], [[14, 6]], [[7, 10]]]
        and x.grad.tolist() == [0, 0, 4, 6, 0, 10]
        and v.grad.tolist() == [1, 4]
    )


def test_dtypes_of_indices() -> None:
    x = cr.arange(300)
    for dtype in (cr.uint16, cr.uint32, cr.int8, cr.int16, cr.int32, cr.int64):
        assert x[cr.tensor([7, 100], dtype=dtype)].tolist() == [7, 100]
    assert x[cr.tensor([-1], dtype=cr.int8)].tolist() == [299] and x[[]].shape == (0,) and x[numpy.int64(5)].item() == 5
    assert (
        x[numpy.array(3)].item() == 3
        and x[numpy.True_].shape == (1, 300)
        and x[:2][[True, False]].tolist() == [0]
        and x[range(2)].tolist() == [0, 1]
    )


def masked(m: Any) -> list[Any]:
    """A uint8 tensor as a key and as a condition, in module m; each use warns."""
    x = m.arange(6.0).reshape(2, 3)
    mask = (x > 2).to(m.uint8) * 3
    found = [
        x[mask],
        x[:, mask[1]],
        x[mask[1, 0]],
        x[mask[0, 0]],
        x[numpy.array([1, 0], dtype="uint8")],
        m.where(mask, x, -x),
        x.where(mask, -x),
    ]
    found.append(x.index_put((mask[:, 0],), m.tensor([9.0, 1.0, 2.0]), True))
    x[mask] = m.tensor([7.0, 8.0, 9.0])
    return [y.tolist() for y in [*found, x]]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_uint8_is_a_mask() -> None:
    x, mask = cr.arange(3.0), cr.tensor([1, 0, 2], dtype=cr.uint8)
    assert masked(cr)[:4] == [[3, 4, 5], [[0, 1, 2], [3, 4, 5]], [[[0, 1, 2], [3, 4, 5]]], []]
    x[mask] = 5  # PyTorch takes a tensor only
    assert x.tolist() == [5, 1, 5] and x[numpy.uint8(1)].item() == 1
    uses: list[Callable[[], Any]] = [
        lambda: x[mask],
        lambda: cr.where(mask, x, x),
        lambda: x.where(mask, x),
        lambda: x.index_put_((mask,), x[:2]),
    ]
    for f in uses:
        with pytest.warns(UserWarning, match="uint8"):
            f()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in uses:
            with pytest.raises(UserWarning, match="uint8"):
                f()
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: uint8 keys are not compared")
    assert masked(torch) == masked(cr)


def test_views_share() -> None:
    x = cr.zeros(3, 5)
    x[1][2:4][0] = 7
    x[0, ::2] += 1
    x[..., 4] *= 3
    x[2] = range(5)
    assert x.tolist() == [[1, 0, 1, 0, 3], [0, 0, 7, 0, 0], [0, 1, 2, 3, 4]]
    with pytest.raises(TypeError):
        del x[0]  # type: ignore[attr-defined]


def test_protocol() -> None:
    x = cr.arange(6).reshape(2, 3)
    assert len(x) == 2 and [r.tolist() for r in x] == [[0, 1, 2], [3, 4, 5]] and 4 in x and 9 not in x
    assert cr.ones(0).tolist() == [] and 1 not in cr.ones(0)
    shape: Any = x.shape
    assert shape == [2, 3] and shape == (2, 3) and shape != [3, 2] and [2, 3] == shape
    assert hash(x) == hash(x) and len({x, x, x[0]}) == 2
    assert (
        bool(cr.tensor(2.0))
        and not cr.tensor([0])
        and int(cr.tensor([7])) == 7
        and float(cr.tensor(2.5)) == 2.5
        and [5, 6][cr.tensor(1)] == 6
    )
    for bad in (x, cr.ones(0)):
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(bad)
    for f in (len, iter):
        with pytest.raises(TypeError):
            f(cr.tensor(1))
