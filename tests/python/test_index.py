"""x[key] and x[key] = value against NumPy: both give the same, or both fail."""

from __future__ import annotations

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


def agree(got: Any, want: Any, what: str) -> None:
    if isinstance(want, Exception):
        assert isinstance(got, (IndexError, ValueError, RuntimeError, TypeError)), f"{what}: {got!r}; NumPy: {want!r}"
        if isinstance(want, IndexError):
            assert isinstance(got, IndexError), f"{what}: {got!r}; NumPy: {want!r}"
        return
    assert not isinstance(got, Exception), f"{what}: {got!r}; NumPy gives {want!r}"
    assert got is None or (tuple(got.shape) == numpy.shape(want) and got.tolist() == numpy.asarray(want).tolist()), f"{what}: {got.tolist()}; NumPy: {want!r}"


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
    "key",
    [[0, 1], cr.tensor([0, 1]), cr.tensor([True, False, True]), cr.tensor(True), True, slice(None, None, 0), 1.5, "a", {}],
    ids=lambda k: type(k).__name__,
)
def test_not_yet(key: Any) -> None:
    """What a key cannot be is said, and not taken for something else."""
    x = cr.arange(15).reshape(3, 5)
    with pytest.raises((IndexError, TypeError, ValueError), match="key|step"):
        x[key]
    with pytest.raises((IndexError, TypeError, ValueError), match="key|step"):
        x[key] = 1
    assert x.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]


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
    assert bool(cr.tensor(2.0)) and not cr.tensor([0]) and int(cr.tensor([7])) == 7 and float(cr.tensor(2.5)) == 2.5 and [5, 6][cr.tensor(1)] == 6
    for bad in (x, cr.ones(0)):
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(bad)
    for f in (len, iter):
        with pytest.raises(TypeError):
            f(cr.tensor(1))
