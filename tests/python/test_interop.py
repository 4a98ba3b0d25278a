"""Memory shared with other libraries: NumPy, the buffer protocol, DLPack; values, strides, who
keeps what alive, and everything refused."""

from __future__ import annotations

import array
import ctypes
import gc
import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from hypothesis import given
from hypothesis import strategies as st

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment, unused-ignore]
try:
    import torch
except ImportError:
    torch = None

np: Any = numpy  # what is tried here is often not allowed by its types
needs_numpy = pytest.mark.skipif(np is None, reason="NumPy is not installed")
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
]
REFUSED = (TypeError, ValueError, RuntimeError, BufferError, AttributeError)  # what a bad object may raise

slices = st.tuples(
    st.sampled_from([None, 0, 1, 2, -1]), st.sampled_from([None, 1, 3, 5, -1]), st.sampled_from([None, 1, 2, -1, -2])
)


@st.composite
def arrays(draw: Callable[[Any], Any]) -> Any:
    """NumPy arrays of any supported dtype: sliced, with negative steps, transposed, broadcast,
    empty, not aligned, read-only."""
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    n = math.prod(shape)
    a = (np.arange(n) % (2 if dtype == "bool" else 100)).astype(dtype).reshape(shape)
    if draw(st.integers(0, 7)) == 0:
        held: Any = np.zeros(a.shape, [("pad", "i1"), ("x", a.dtype)])
        held["x"] = a
        a = held["x"]
    a = a[(*(slice(*s) for s in draw(st.lists(slices, max_size=a.ndim))), ...)]  # ...: no scalar
    a = a.transpose(draw(st.permutations(range(a.ndim))))
    if draw(st.integers(0, 7)) == 0:
        a = np.broadcast_to(a, (2, *a.shape))
    return a


def shareable(a: Any) -> bool:
    size = a.itemsize
    return (
        a.size == 0
        or a.ctypes.data % size == 0
        and all(n <= 1 or (s >= 0 and s % size == 0) for n, s in zip(a.shape, a.strides, strict=True))
    )


def is_over(x: cr.Tensor, a: Any) -> bool:
    return bool(a.size == 0 or x.data_ptr() == a.ctypes.data)


# ---- NumPy -> tensors
@needs_numpy
@given(st.data())
def test_from_arrays(data: Any) -> None:
    a = data.draw(arrays())
    x = cr.asarray(a)
    assert x.dtype is getattr(cr, a.dtype.name) and x.shape == a.shape and x.tolist() == a.tolist()
    assert is_over(x, a) == (a.size == 0 or (shareable(a) and a.flags.writeable))
    if shareable(a):
        y = cr.from_numpy(a)
        assert y.tolist() == a.tolist() and is_over(y, a) == (a.size == 0 or a.flags.writeable)
    else:
        with pytest.raises(ValueError, match="stride|aligned"):
            cr.from_numpy(a)
    copy = cr.tensor(a)
    assert copy.tolist() == a.tolist() and copy.is_contiguous() and (a.size == 0 or copy.data_ptr() != a.ctypes.data)
    assert cr.asarray(a, copy=True).data_ptr() != a.ctypes.data or a.size == 0
    if shareable(a) and a.flags.writeable:
        assert is_over(cr.asarray(a, copy=False), a)
    else:
        with pytest.raises(ValueError, match="without a copy"):
            cr.asarray(a, copy=False)


@needs_numpy
@given(st.data())
def test_from_dlpack_of_arrays(data: Any) -> None:
    a = data.draw(arrays())
    try:
        a.__dlpack__(max_version=(1, 0))
    except BufferError:  # NumPy itself refuses strides that are no multiple of the element
        with pytest.raises(BufferError):
            cr.from_dlpack(a)
        return
    x = cr.from_dlpack(a)
    assert x.dtype is getattr(cr, a.dtype.name) and x.shape == a.shape and x.tolist() == a.tolist()
    assert is_over(x, a) == (a.size == 0 or (shareable(a) and a.flags.writeable))
    assert cr.from_dlpack(a, copy=True).data_ptr() != a.ctypes.data or a.size == 0
    if not (shareable(a) and a.flags.writeable):
        with pytest.raises(BufferError, match="without a copy"):
            cr.from_dlpack(a, copy=False)


@needs_numpy
def test_writes_are_seen_on_both_sides() -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = cr.from_numpy(a.T)
    x[0, 1] = 70
    a[1, 2] = 80
    assert a[1, 0] == 70 and x[2, 1].item() == 80
    y = x.numpy()
    y[:] = 5
    assert a.tolist() == [[5.0] * 3] * 2 and x.sum().item() == 30


@needs_numpy
def test_conversions() -> None:
    a = np.arange(3, dtype=np.int32)
    assert (
        cr.asarray(a, dtype=cr.float64).tolist() == [0.0, 1.0, 2.0] and cr.as_tensor(a, cr.float32).dtype is cr.float32
    )
    with pytest.raises(ValueError, match="another dtype"):
        cr.asarray(a, dtype=cr.float32, copy=False)
    assert cr.asarray(np.ones(2), requires_grad=True).requires_grad
    with pytest.raises(RuntimeError):
        cr.asarray(a, requires_grad=True)
    assert cr.asarray(a, device="ref").device == cr.Device("ref")
    assert cr.Tensor(np.ones(2)).dtype is cr.float32 and cr.Tensor(np.ones(2)).requires_grad
    x = cr.ones(2)
    assert (
        cr.asarray(x) is x
        and cr.as_tensor(x) is x
        and cr.asarray(x, copy=True) is not x
        and cr.asarray(x, dtype=cr.int64).dtype is cr.int64
    )
    y = cr.asarray(x, requires_grad=True)
    assert y.requires_grad and not x.requires_grad and y.data_ptr() == x.data_ptr()
    with pytest.raises(ValueError):
        cr.asarray(x, dtype=cr.int64, copy=False)
    with pytest.raises(ValueError):
        cr.asarray([1, 2], copy=False)
    assert cr.asarray([[1, 2]]).tolist() == [[1, 2]] and cr.asarray(2.5).item() == 2.5


@needs_numpy
def test_arrays_that_are_refused() -> None:
    for bad in (
        np.array(["a"]),
        np.array([None]),
        np.array(1, "M8[s]"),
        np.ones(2, complex),
        np.ones(2, np.longdouble),
        np.zeros(2, [("a", "i4")]),
    ):
        for make in (cr.from_numpy, cr.asarray, cr.tensor, cr.Tensor):
            with pytest.raises(TypeError):
                make(bad)
    for swapped in (np.ones(2).astype(">f8"), np.ones(2).astype(np.dtype("i4").newbyteorder())):
        for make in (cr.from_numpy, cr.asarray, cr.tensor):
            with pytest.raises(ValueError, match="byte order"):
                make(swapped)
    for other in ([1.0], 3, None, b"ab", memoryview(b"ab"), cr.ones(2)):
        with pytest.raises(TypeError, match=r"expected np\.ndarray"):
            cr.from_numpy(other)
    with pytest.raises(ValueError, match="dimensions, at most 8"):
        cr.from_numpy(np.ones((1,) * 9))


@needs_numpy
def test_read_only_memory_is_never_written() -> None:
    a = np.ones(3)
    a.flags.writeable = False
    for x in (cr.from_numpy(a), cr.asarray(a), cr.from_dlpack(a), cr.asarray(memoryview(bytes(a)))):
        x.fill_(7)
    assert a.tolist() == [1.0] * 3
    assert (cr.ones(3) * a).tolist() == [1.0] * 3


@needs_numpy
def test_scalars_of_numpy_are_numbers() -> None:
    x = cr.tensor([1.0, 2.0])
    for scalar in (
        np.float32(3),
        np.float64(3),
        np.float16(3),
        np.int8(3),
        np.int64(3),
        np.uint64(3),
        np.array(3.0),
        np.array(3),
    ):
        assert (
            (x * scalar).tolist() == [3.0, 6.0]
            and (scalar * x).tolist() == [3.0, 6.0]
            and (x * scalar).dtype is cr.float32
        )
        assert cr.full((2,), scalar).tolist() == [3, 3]
    assert (cr.tensor([1, 2]) * np.bool_(True)).dtype is cr.int64 and cr.full((1,), np.bool_(True)).dtype is cr.bool
    assert (
        cr.tensor([np.float32(0.5), np.int64(2)]).tolist() == [0.5, 2.0]
        and cr.tensor([np.bool_(True)]).dtype is cr.bool
    )
    assert (
        cr.tensor(np.float32(1.5)).dtype is cr.float32
        and cr.tensor(np.int16(1)).dtype is cr.int16
        and cr.tensor(np.float64(1)).dtype is cr.float64
    )
    assert cr.tensor([np.array(1.5), np.array(2)]).tolist() == [1.5, 2.0] and x[np.int64(1)].item() == 2.0
    for bad in (np.complex64(1), np.datetime64("2020"), np.str_("3"), np.longdouble(1)):
        with pytest.raises(TypeError):
            cr.full((1,), bad)
        with pytest.raises(TypeError):
            cr.tensor([bad])


@needs_numpy
@needs_torch
def test_sequences_of_scalars_and_arrays_of_numpy_keep_dtypes() -> None:
    for values in (
        [np.float16(1)],
        [np.int32(1)],
        [np.ones(2, "f2")],
        [np.ones(2, "i4")],
        [np.ones(2, "u1"), np.ones(2)],
        [np.float64(1), 1.0],
        [1, np.float64(2)],
        [1.5, np.float32(2)],
        [1, np.float32(2)],
        [np.bool_(True)],
        [np.int8(3), np.uint8(200)],
    ):
        x, theirs = cr.tensor(values), torch.tensor(values)
        assert str(x.dtype) == str(theirs.dtype).replace("torch", "chainrule") and x.tolist() == theirs.tolist(), values


@needs_numpy
def test_operators_with_arrays_give_tensors() -> None:
    a, x = np.array([[1.0, 2.0]]), cr.tensor([[3.0, 5.0]], requires_grad=True)
    d = x.double()
    for y, wanted in (
        (a * x, [[3.0, 10.0]]),
        (x * a, [[3.0, 10.0]]),
        (a - x, [[-2.0, -3.0]]),
        (x - a, [[2.0, 3.0]]),
        (a / x, [[1 / 3, 0.4]]),
        (a @ d.T, [[13.0]]),
        (d @ a.T, [[13.0]]),
    ):
        assert isinstance(y, cr.Tensor) and y.dtype is cr.float64 and y.requires_grad
        assert y.tolist() == [[pytest.approx(v) for v in row] for row in wanted]
    assert (a == x).tolist() == [[False, False]] and (a < x).tolist() == [[True, True]]
    x2 = cr.ones(2)
    x2 += np.array([1.0, 2.0])
    assert x2.tolist() == [2.0, 3.0] and x2.dtype is cr.float32
    x2[0] = np.float64(9)
    x2[1:] = np.array([8])
    assert x2.tolist() == [9.0, 8.0]
    for bad in (np.array(["a", "b"]), np.ones(2).astype(">f8"), np.array([None, None])):
        with pytest.raises((TypeError, ValueError)):
            cr.ones(2) * bad
    with pytest.raises(TypeError):
        cr.ones(2) * [1.0, 2.0]


# ---- tensors -> NumPy
@needs_numpy
@given(st.data())
def test_to_arrays(data: Any) -> None:
    a = data.draw(arrays())
    x = cr.tensor(a)
    for axis in range(x.ndim):  # strides of our own
        step = data.draw(st.integers(1, 2))
        x = x.slice(axis, data.draw(st.integers(0, 1)), None, step)
    if x.ndim:
        x = x.permute(data.draw(st.permutations(range(x.ndim))))
    for b in (x.numpy(), np.asarray(x), x.__array__(), np.from_dlpack(x)):
        assert b.dtype == a.dtype and b.tolist() == x.tolist() and b.flags.writeable
        assert b.size == 0 or b.ctypes.data == x.data_ptr()
        assert (
            all(n <= 1 or s == t * x.itemsize for n, s, t in zip(b.shape, b.strides, x.strides, strict=True))
            or b.size == 0
        )
    assert x.dtype is cr.float16 or memoryview(x).tolist() == x.tolist()  # memoryview reads no "e" before Python 3.12
    assert memoryview(x).tobytes() == np.ascontiguousarray(x.numpy()).tobytes()


@needs_numpy
def test_array_arguments() -> None:
    x = cr.ones(2)
    assert np.array(x, dtype="i4").dtype == np.int32 and np.asarray(x, dtype=np.float64).dtype == np.float64
    copy = np.array(x)
    copy[0] = 5
    assert x[0].item() == 1
    assert x.__array__(copy=False).ctypes.data == x.data_ptr() and x.__array__(copy=True).ctypes.data != x.data_ptr()
    if np.__version__ >= "2":
        with pytest.raises(ValueError):
            x.__array__(np.float64, copy=False)
    with pytest.raises(TypeError):
        x.__array__("nonsense")
    with pytest.raises(TypeError):
        x.numpy(True)  # type: ignore[call-arg]


@needs_numpy
def test_what_requires_grad() -> None:
    leaf, made, data = cr.ones(2, requires_grad=True), cr.ones(2, requires_grad=True) * 2, cr.Tensor([1.0, 2.0])
    for x in (leaf, made, data * 2, data.reshape(2)):
        with pytest.raises(RuntimeError, match="requires grad. Use tensor.detach"):
            x.numpy()
        assert x.numpy(force=True).tolist() == x.tolist() and x.detach().numpy().flags.writeable
    a = data.numpy()
    assert (
        a.tolist() == [1.0, 2.0]
        and not a.flags.writeable
        and a.ctypes.data == data.data_ptr()
        and np.asarray(data).tolist() == [1.0, 2.0]
    )
    assert (
        memoryview(leaf).readonly
        and memoryview(data).readonly
        and not memoryview(leaf.detach()).readonly
        and not np.asarray(leaf).flags.writeable
    )
    with pytest.raises(BufferError, match="detach"):
        memoryview(made)
    with pytest.raises(RuntimeError):
        np.asarray(made)
    for x in (leaf, made, data):
        with pytest.raises(BufferError, match="detach"):
            x.__dlpack__()


@needs_numpy
def test_functions_of_numpy() -> None:
    """numpy.sum(x) and its like call the method with axis, out and keepdims; the result is a
    tensor, of the values that an array gives."""
    x = cr.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    calls: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}]
    for name, kwargs in product("sum mean max min amax amin prod std var any all".split(), calls):
        f = getattr(np, name)
        ours, theirs = f(x, **kwargs), f(x.numpy(), **kwargs)
        assert isinstance(ours, cr.Tensor), f"numpy.{name}({kwargs})"
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, err_msg=f"numpy.{name}({kwargs})")
    for name, kwargs in product("argmax argmin cumsum cumprod sort ptp median".split(), calls[:2]):
        np.testing.assert_allclose(
            getattr(np, name)(x, **kwargs), getattr(np, name)(x.numpy(), **kwargs), err_msg=f"numpy.{name}({kwargs})"
        )
    assert np.std(x, ddof=1).item() == x.std().item() and np.sum(x, dtype=np.float64).dtype == cr.float64
    assert np.sum(x, dtype=np.dtype("int32")).dtype == cr.int32 and x.to(np.float64).dtype == cr.float64
    w = x.clone().requires_grad_(True)
    np.max(w, axis=1).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[1, 0, 0], [0, 1, 0]]
    plain: Any = x
    assert plain.max(dim=0, out=None)[1].tolist() == [0, 1, 1]
    for bad in ({"out": np.zeros(())}, {"where": x > 0}, {"initial": 1.0}, {"dtype": np.complex64}, {"dtype": np}):
        with pytest.raises(TypeError):
            np.sum(x, **bad)


@needs_numpy
def test_what_numpy_does_not_have() -> None:
    x = cr.ones(2).bfloat16()
    calls: list[Callable[[], Any]] = [lambda: x.numpy(), lambda: np.asarray(x), lambda: x.numpy(force=True)]
    for call in calls:
        with pytest.raises(TypeError, match="bfloat16"):
            call()
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(x)


# ---- the buffer protocol
class Buffer(ctypes.Structure):
    """CPython's Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


WRITABLE, FORMAT, ND, STRIDES = 1, 4, 8, 0x18
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x38, 0x58, 0x98


def get_buffer(x: Any, flags: int) -> Buffer:
    b = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(b), flags)
    return b


def release(b: Buffer) -> None:
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(b))


@pytest.mark.parametrize("layout", [0, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS])
@pytest.mark.parametrize("more", [0, WRITABLE, FORMAT, WRITABLE | FORMAT])
def test_buffer_flags(layout: int, more: int) -> None:
    dense = cr.arange(6, dtype=cr.int32).reshape(2, 3)
    leaf = cr.ones(2, 3, requires_grad=True)
    for x, c, f in (
        (dense, True, False),
        (dense.T, False, True),
        (dense[:, ::2], False, False),
        (dense[0], True, True),
        (leaf, True, False),
        (dense[0, 0], True, True),
    ):
        fits = {0: c, ND: c, STRIDES: True, C_CONTIGUOUS: c, F_CONTIGUOUS: f, ANY_CONTIGUOUS: c or f}[layout]
        if not fits or (x is leaf and more & WRITABLE):
            with pytest.raises(BufferError):
                get_buffer(x, layout | more)
            continue
        b = get_buffer(x, layout | more)
        assert (
            b.buf == x.data_ptr()
            and b.len == x.nbytes
            and b.itemsize == 4
            and b.readonly == (x is leaf)
            and not b.suboffsets
        )
        assert b.format == ((b"f" if x is leaf else b"i") if more & FORMAT else None)
        assert (b.shape[: x.ndim] == list(x.shape)) if layout & ND else not b.shape
        assert (b.strides[: x.ndim] == [4 * s for s in x.strides]) if layout & 0x10 else not b.strides
        release(b)


def test_an_open_buffer_keeps_memory_and_layout() -> None:
    x = cr.arange(6, dtype=cr.int32).reshape(2, 3)
    b = get_buffer(x, STRIDES | FORMAT)
    x.fill_(3)
    del x
    gc.collect()
    cr.zeros(2, 3, dtype=cr.int32).fill_(9)  # would take the memory if it were free
    assert (
        ctypes.string_at(b.buf, b.len) == array.array("i", [3] * 6).tobytes()
        and b.shape[:2] == [2, 3]
        and b.strides[:2] == [12, 4]
    )
    release(b)


def test_python_reads_and_writes_tensors() -> None:
    x = cr.arange(6, dtype=cr.float64).reshape(2, 3)
    m = memoryview(x)
    assert (
        m.format == "d" and m.shape == (2, 3) and m.strides == (24, 8) and m.tolist() == x.tolist() and m.c_contiguous
    )
    m[1, 2] = 50.0  # type: ignore[call-overload]
    assert x[1, 2].item() == 50
    assert (
        bytes(x.T) == b"".join(bytes(x[:, i]) for i in range(3))
        and bytearray(x[0]) == array.array("d", [0, 1, 2]).tobytes()
    )
    assert memoryview(cr.zeros(0, 3)).nbytes == 0 and memoryview(cr.tensor([True])).tolist() == [True]
    assert memoryview(cr.tensor(2.5)).tolist() == cr.tensor(2.5).tolist()
    with open(os.devnull, "wb") as f:
        f.write(x)
        with pytest.raises(BufferError):
            f.write(x.T)


def test_tensors_of_buffers() -> None:
    o: Any
    for o, dtype, values in (
        (array.array("d", [1, 2]), cr.float64, [1.0, 2.0]),
        (array.array("f", [1, 2]), cr.float32, [1.0, 2.0]),
        (array.array("q", [1, -2]), cr.int64, [1, -2]),
        (array.array("H", [1, 65535]), cr.uint16, [1, 65535]),
        (bytearray(b"ab"), cr.uint8, [97, 98]),
        (memoryview(b"abcdef")[::-2], cr.uint8, [102, 100, 98]),
        ((ctypes.c_long * 3)(1, 2, 3), cr.int64, [1, 2, 3]),
        (((ctypes.c_float * 2) * 2)(), cr.float32, [[0.0, 0.0], [0.0, 0.0]]),
        (memoryview(bytearray(range(12))).cast("B", (3, 4)), cr.uint8, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        ((ctypes.c_bool * 2)(True), cr.bool, [True, False]),
    ):
        for x in (cr.tensor(o), cr.asarray(o), cr.as_tensor(o)):
            assert x.dtype is dtype and x.tolist() == values, o
    assert cr.asarray(b"ab").tolist() == [97, 98]
    with pytest.raises(TypeError):
        cr.tensor(b"ab")
    for o in (array.array("u", "ab"), (ctypes.c_char_p * 2)(), (ctypes.c_wchar * 2)()):
        with pytest.raises(TypeError):
            cr.asarray(o)
    with pytest.raises(ValueError, match="byte order"):
        cr.asarray((ctypes.c_int.__ctype_be__ * 2)(1, 2))


class Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(Slot)),
    ]


def test_an_exporter_is_not_believed() -> None:
    """Some give what nobody asked for: rows behind pointers, sizes that do not fit together."""
    memory = (ctypes.c_float * 4)(1, 2, 3, 4)
    given: dict[str, Any] = {}
    number = ctypes.c_ssize_t * 2
    shape, strides, pointers = number(2, 2), number(8, 4), number(0, -1)

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int)
    def get(o: Any, view: Any, flags: int) -> int:
        fields = {"len": 16, "itemsize": 4, "ndim": 2, "format": b"f", "shape": shape, "strides": strides, **given}
        view[0] = Buffer(buf=ctypes.addressof(memory), obj=o, **fields)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(o))  # the view's own
        return 0

    slots = (Slot * 2)(Slot(1, ctypes.cast(get, ctypes.c_void_p).value))  # Py_bf_getbuffer
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(Spec)]
    exporter = make(Spec(b"tests.Exporter", 0, 0, 0, slots))()
    assert cr.asarray(exporter).tolist() == [[1, 2], [3, 4]]
    for wrong in (
        {"suboffsets": pointers},
        {"len": 12},
        {"shape": number(2, 3)},
        {"shape": number(-2, -2)},
        {"shape": number(2**62, 4)},
    ):
        given.update(wrong)
        with pytest.raises(BufferError, match="do not fit together, or a buffer of pointers"):
            cr.asarray(exporter)
        given.clear()
    assert cr.asarray(exporter).tolist() == [[1, 2], [3, 4]]


def test_an_exporter_cannot_change_size_while_it_is_shared() -> None:
    a, b = array.array("d", [1, 2]), bytearray(8)
    x, y = cr.asarray(a), cr.asarray(b)
    x[0] = 7
    y += 1
    assert a[0] == 7 and b == b"\1" * 8
    with pytest.raises(BufferError):
        a.append(3)
    with pytest.raises(BufferError):
        b.extend(b"more")
    del x, y
    a.append(3)
    b.extend(b"more")


# ---- DLPack
class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("ctx", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("ctx", ctypes.c_void_p), ("deleter", DELETER)]


api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Foreign:
    """An exporter made by hand: float32 0 ... 11, counting how often its memory is given back."""

    def __init__(self, legacy: bool = False, with_deleter: bool = True, **fields: Any) -> None:
        self.memory = (ctypes.c_float * 12)(*range(12))
        self.deleted = 0
        shape, strides = fields.pop("shape", [3, 4]), fields.pop("strides", None)
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = (ctypes.c_int64 * max(len(strides), 1))(*strides) if strides is not None else None
        self.struct: Any = Legacy() if legacy else Versioned(major=fields.pop("major", 1), flags=fields.pop("flags", 0))
        self.struct.tensor = DLTensor(
            **{
                "data": ctypes.addressof(self.memory),
                "device_type": 1,
                "ndim": len(shape),
                "code": 2,
                "bits": 32,
                "lanes": 1,
                "shape": ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)),
                "strides": (
                    ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64)) if self.strides is not None else None
                ),
                **fields,
            }
        )
        self.deleter = DELETER(self.delete)
        if with_deleter:
            self.struct.deleter = self.deleter
        self.name = b"dltensor" if legacy else b"dltensor_versioned"

    def delete(self, address: int) -> None:
        assert address == ctypes.addressof(self.struct)
        self.deleted += 1

    def capsule(self) -> Any:
        return api.PyCapsule_New(ctypes.addressof(self.struct), self.name, None)


@pytest.mark.parametrize("legacy", [False, True])
def test_dlpack_layouts(legacy: bool) -> None:
    rows = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, rows),
        ({"strides": [4, 1]}, rows),
        ({"shape": [4, 3], "strides": [1, 4]}, [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]),
        ({"shape": [2], "byte_offset": 40}, [10, 11]),
        ({"shape": []}, 0),
        ({"shape": [0, 3]}, []),
        ({"shape": [0], "data": None}, []),
        ({"shape": [2, 3], "strides": [0, 2]}, [[0, 2, 4]] * 2),
        ({"shape": [3], "strides": [-1], "byte_offset": 8}, [2, 1, 0]),
    ]
    for fields, wanted in cases:
        f = Foreign(legacy, **dict(fields))
        capsule = f.capsule()
        x = cr.from_dlpack(capsule)
        assert x.tolist() == wanted and x.dtype is cr.float32, fields
        with pytest.raises(RuntimeError, match="consumed"):
            cr.from_dlpack(capsule)
        y = x.detach()
        del x, capsule
        shared = bool(math.prod(fields.get("shape", [1]))) and min(fields.get("strides", [1])) >= 0
        assert f.deleted == (0 if shared else 1), fields
        del y
        assert f.deleted == 1, fields


@pytest.mark.parametrize("legacy", [False, True])
def test_dlpack_structs_that_are_refused(legacy: bool) -> None:
    bad: list[dict[str, Any]] = [
        {"ndim": 9},
        {"ndim": -1},
        {"shape": [-1]},
        {"shape": [1 << 62, 4]},
        {"shape": [1 << 40, 1 << 40]},
        {"code": 5, "bits": 64},
        {"code": 2, "bits": 8},
        {"code": 0, "bits": 7},
        {"lanes": 2},
        {"code": 99},
        {"device_type": 2},
        {"device_type": 13},
        {"shape": [2], "strides": [1 << 62]},
        {"ndim": 1, "shape": [2], "data": None},
    ]
    if not legacy:
        bad += [{"major": 2}, {"major": 0}]
    for fields in bad:
        f = Foreign(legacy, **dict(fields))
        capsule = f.capsule()
        with pytest.raises((BufferError, RuntimeError, ValueError, TypeError)):
            cr.from_dlpack(capsule)
        taken = not api.PyCapsule_IsValid(capsule, f.name)
        assert f.deleted == taken, fields  # taken and given back, or left to the capsule


def test_dlpack_flags() -> None:
    f = Foreign(flags=1)  # read-only
    x = cr.from_dlpack(f.capsule())
    x.fill_(9)
    assert list(f.memory) == list(range(12)) and f.deleted == 1
    f = Foreign(flags=1)
    with pytest.raises(BufferError, match="read-only"):
        cr.from_dlpack(f.capsule(), copy=False)
    f = Foreign(flags=2)  # a copy made for us: ours to keep
    x = cr.from_dlpack(f.capsule(), copy=True)
    assert x.data_ptr() == ctypes.addressof(f.memory)
    f = Foreign(flags=2)
    with pytest.raises(BufferError, match="copy"):
        cr.from_dlpack(f.capsule(), copy=False)
    assert f.deleted == 1
    f = Foreign(with_deleter=False)
    assert cr.from_dlpack(f.capsule()).numel() == 12
    f = Foreign(byte_offset=2, shape=[2])  # not aligned
    assert cr.from_dlpack(f.capsule()).numel() == 2 and f.deleted == 1


def test_dlpack_capsules_of_ours() -> None:
    x = cr.arange(6, dtype=cr.float32).reshape(2, 3).T
    assert x.__dlpack_device__() == (1, 0)
    for version, name, struct in (
        (None, b"dltensor", Legacy),
        ((0, 8), b"dltensor", Legacy),
        ((1, 3), b"dltensor_versioned", Versioned),
    ):
        capsule = x.__dlpack__(max_version=version)
        s: Any = struct.from_address(api.PyCapsule_GetPointer(capsule, name))
        t = s.tensor
        assert (t.device_type, t.device_id, t.ndim, t.code, t.bits, t.lanes, t.byte_offset) == (1, 0, 2, 2, 32, 1, 0)
        assert t.data == x.data_ptr() and t.shape[:2] == [3, 2] and t.strides[:2] == [1, 3]
        if struct is Versioned:
            assert (s.major, s.flags) == (1, 0)
    s = Versioned.from_address(
        api.PyCapsule_GetPointer(c := x.__dlpack__(max_version=(1, 0), copy=True), b"dltensor_versioned")
    )
    assert s.flags == 2 and s.tensor.data != x.data_ptr()
    del c
    kinds = {cr.bool: (6, 8), cr.bfloat16: (4, 16), cr.float16: (2, 16), cr.int8: (0, 8), cr.uint64: (1, 64)}
    for dtype, kind in kinds.items():
        y = cr.ones(2, dtype=dtype)
        capsule = y.__dlpack__()
        t = Legacy.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")).tensor
        assert (
            (t.code, t.bits) == kind
            and cr.from_dlpack(capsule).dtype is dtype
            and cr.from_dlpack(y).data_ptr() == y.data_ptr()
        )
    bad: list[dict[str, Any]] = [
        {"stream": 1},
        {"dl_device": (2, 0)},
        {"dl_device": (1, 1)},
        {"dl_device": 3},
        {"max_version": 1},
        {"max_version": (1,)},
        {"max_version": ("a", "b")},
        {"copy": 3},
    ]
    for arguments in bad:
        with pytest.raises((BufferError, ValueError, TypeError)):
            x.__dlpack__(**arguments)


@needs_torch
def test_dlpack_with_pytorch() -> None:
    for dtype in [*DTYPES, "bfloat16"]:
        theirs = torch.ones(2, 3, dtype=getattr(torch, dtype)).T
        x = cr.from_dlpack(theirs)
        assert (
            x.tolist() == theirs.tolist()
            and x.dtype is getattr(cr, dtype)
            and x.data_ptr() == theirs.data_ptr()
            and x.strides == theirs.stride()
        )
        back = torch.from_dlpack(x)
        assert (
            back.dtype is theirs.dtype
            and back.data_ptr() == theirs.data_ptr()
            and cr.tensor(theirs).data_ptr() != theirs.data_ptr()
        )
    with pytest.raises(BufferError):
        cr.from_dlpack(torch.ones(2, requires_grad=True))


# ---- objects that lie
def raising(*_: Any, **__: Any) -> Any:
    raise KeyError("of its own")


class Lies:
    def __init__(self, **methods: Any) -> None:
        self.__dict__.update(methods)


CAPSULE = api.PyCapsule_New(1, b"something_else", None)
LIARS: list[Any] = [
    CAPSULE,
    Lies(__dlpack__=raising),
    Lies(__dlpack__=3),
    Lies(__dlpack__=lambda **_: 3, __dlpack_device__=lambda: (1, 0)),
    Lies(__dlpack__=lambda **_: CAPSULE, __dlpack_device__=lambda: (1, 0)),
    Lies(__dlpack__=lambda **_: None, __dlpack_device__=lambda: None),
    Lies(__dlpack__=lambda **_: None, __dlpack_device__=lambda: ("cpu", 0)),
    Lies(__dlpack__=lambda **_: None, __dlpack_device__=lambda: (2, 0)),
    Lies(__dlpack__=raising, __dlpack_device__=lambda: (1, 0)),
    Lies(__dlpack__=lambda **_: None, __dlpack_device__=lambda: (1 << 70, 0)),
]
LYING_ARRAYS: list[Any] = [
    Lies(__array__=raising),
    Lies(__array__=lambda: 3),
    Lies(__array__=lambda: [1.0]),
    Lies(__array__=None),
    Lies(__array__=lambda: "ab"),
]


@pytest.mark.parametrize("index", range(len(LIARS)))
def test_dlpack_exporters_that_lie(index: int) -> None:
    for _ in range(3):
        with pytest.raises((*REFUSED, KeyError, OverflowError)):
            cr.from_dlpack(LIARS[index])


@pytest.mark.parametrize("index", range(len(LYING_ARRAYS)))
def test_arrays_that_lie(index: int) -> None:
    for make in (cr.asarray, cr.tensor, cr.Tensor):
        with pytest.raises((*REFUSED, KeyError)):
            make(LYING_ARRAYS[index])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ needs Python 3.12")
def test_buffers_written_in_python() -> None:
    class Exporter:
        held = b"abcd"
        released = 0

        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(self.held)

        def __release_buffer__(self, view: memoryview) -> None:
            type(self).released += 1

    x = cr.asarray(Exporter())
    assert x.tolist() == [97, 98, 99, 100] and Exporter.released == 1
    Exporter.held = 3  # type: ignore[assignment]
    with pytest.raises(TypeError):
        cr.asarray(Exporter())


# ---- who keeps what alive
def dead(ref: weakref.ref[Any]) -> bool:
    """Without waiting for the garbage collector: nothing here makes cycles."""
    return ref() is None


@needs_numpy
def test_arrays_live_as_long_as_tensors_over_them() -> None:
    for make in (cr.from_numpy, cr.asarray, cr.from_dlpack):
        a = np.arange(6.0)
        ref = weakref.ref(a)
        x = make(a)
        view = x[2:4]
        del a, x
        assert not dead(ref) and view.tolist() == [2.0, 3.0]
        capsule = view.__dlpack__(max_version=(1, 0))
        del view
        assert not dead(ref)
        y = cr.from_dlpack(capsule)
        del capsule
        assert not dead(ref) and y.tolist() == [2.0, 3.0]
        b = y.numpy()
        del y
        assert not dead(ref) and b.tolist() == [2.0, 3.0]
        del b
        assert dead(ref)


@needs_numpy
def test_copies_do_not_keep_arrays() -> None:
    a = np.arange(6.0)[::-1]
    ref = weakref.ref(a)
    kept = [cr.asarray(a), cr.tensor(a), cr.from_dlpack(a), cr.asarray(a, dtype=cr.float32)]
    with pytest.raises(ValueError):
        cr.from_numpy(a)
    with pytest.raises(ValueError):
        cr.asarray(a, copy=False)
    del a
    assert dead(ref) and all(x[0].item() == 5 for x in kept)


@needs_numpy
def test_tensors_live_as_long_as_arrays_over_them() -> None:
    x = cr.arange(4, dtype=cr.float32)
    ref = weakref.ref(x)
    a = x.numpy()[1:]
    m = memoryview(x)
    del x
    assert not dead(ref) and a.tolist() == [1.0, 2.0, 3.0]
    del a
    assert not dead(ref)
    m.release()
    assert dead(ref)


@needs_numpy
def test_capsules_that_nobody_takes() -> None:
    for version in (None, (1, 0)):
        a = np.arange(3.0)
        ref = weakref.ref(a)
        capsule = cr.from_numpy(a).__dlpack__(max_version=version)
        del a
        assert not dead(ref)
        del capsule
        assert dead(ref)


@needs_numpy
def test_memory_is_given_back_by_threads_and_by_the_backward_pass() -> None:
    a = np.arange(200_000.0)
    ref = weakref.ref(a)
    x = cr.ones(200_000, dtype=cr.float64, requires_grad=True)
    y = (x * a).sum()  # the graph holds the array; the walk, which runs without the GIL, frees it
    del a
    assert not dead(ref)
    y.backward()
    assert dead(ref) and x.grad is not None and x.grad[7].item() == 7
    a = np.arange(10.0)
    ref = weakref.ref(a)
    held = [cr.from_numpy(a)]
    del a
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert dead(ref)


def run(code: str, *flags: str) -> str:
    """A script of its own, which must end well and say nothing on stderr."""
    path = [str(Path(cr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


SHUTDOWN = """
import builtins, sys, threading, array
import chainrule as cr
a = array.array("d", [1, 2, 3])
x = cr.asarray(a)
builtins.kept = [x, x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), memoryview(x), cr.from_dlpack(x.__dlpack__())]
sys.kept = cr.asarray(bytearray(8))
class Node: pass
n = Node(); n.me = n; n.x = cr.asarray(array.array("f", [1])); n.m = memoryview(n.x)
local = threading.local(); local.x = cr.asarray(bytearray(4)) * 2
class Late:
    x = cr.asarray(bytearray(3))
    def __del__(self): self.x.tolist(); memoryview(self.x).tobytes(); cr_asarray(bytearray(2)).tolist()
cr_asarray = cr.asarray
late = Late()
sys.late = Late()
try:
    import numpy as np
except ImportError:
    pass
else:
    b = np.arange(5.0)
    builtins.more = [cr.from_numpy(b), cr.ones(3).numpy(), np.from_dlpack(cr.ones(2)), cr.from_dlpack(np.ones(2))]
    w = cr.ones(5, requires_grad=True)
    sys.graph = (w * np.ones(5, "f4")).sum()
print("done")
"""


@pytest.mark.parametrize("flags", [(), ("-X", "dev")], ids=["plain", "dev"])
def test_interpreter_shutdown_with_live_tensors(flags: tuple[str, ...]) -> None:
    assert run(SHUTDOWN, *flags) == "done\n"


GROWTH = """
import array, copy, gc, pickle, sys
import chainrule as cr
try:
    import numpy as np
except ImportError:
    np = None

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096

a, x, leaf = array.array("d", range(64)), cr.ones(64), cr.Tensor([1.0, 2.0])
b = np.arange(64.0) if np else None
late = np.arange(64.0).astype(">f8") if np else bytearray(1)

def attempt(f):
    try:
        f()
    except Exception:
        pass

def once():
    cr.asarray(a); cr.tensor(a); memoryview(x); x.__dlpack__(); cr.from_dlpack(x)
    cr.from_dlpack(x.__dlpack__(max_version=(1, 0)))
    attempt(lambda: memoryview(leaf * 2)); attempt(lambda: cr.asarray(late, copy=False))
    attempt(lambda: cr.from_dlpack(3)); attempt(lambda: leaf.__dlpack__())
    if np:
        cr.from_numpy(b); cr.from_numpy(b).numpy(); np.asarray(x); b * x; cr.asarray(b[::-1]); leaf.numpy()
        attempt(lambda: cr.from_numpy(b[::-1])); attempt(lambda: cr.from_numpy(late))

def seldom():
    repr(x); f"{x[0]:.2f}"; copy.copy(leaf); copy.deepcopy(leaf); pickle.loads(pickle.dumps(leaf))

def growth(f, n):
    '''The smaller of two measurements: pools that grow once are no leak.'''
    found = []
    for _ in range(2):
        gc.collect(); before = resident()
        for _ in range(n): f()
        gc.collect(); found.append(resident() - before)
    return min(found)

print(growth(once, 10_000), growth(seldom, 6_000))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here to read the resident memory from")
def test_conversions_do_not_leak() -> None:
    """More than 10^5 conversions: one of them that lost 16 bytes a time would lose 160 kB."""
    for growth in map(int, run(GROWTH).split()):
        assert growth < 100_000, f"{growth} bytes more after the loop"
