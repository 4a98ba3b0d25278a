"""chainrule.array_api against the text of the array API standard, 2024.12: names, signatures,
result dtypes, special cases; and, where NumPy 2 is installed, which follows it, the values of calls
of every function."""

from __future__ import annotations

import builtins
import inspect
import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest

xp: Any = cr.zeros(1).__array_namespace__()
ROOT = Path(__file__).resolve().parents[2]
INF, NAN, PI = math.inf, math.nan, math.pi

# ---- names and signatures: from the standard's pages

UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil cos cosh exp expm1 floor isfinite isinf isnan log log10"
    " log1p log2 logical_not negative positive reciprocal round sign signbit sin sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal"
    " floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum"
    " minimum multiply nextafter not_equal pow remainder subtract"
).split()
LIKE, MAKE = "(x, /, *, dtype=None, device=None)", "(shape, *, dtype=None, device=None)"
REDUCE, ADD_UP = "(x, /, *, axis=None, keepdims=False)", "(x, /, *, axis=None, dtype=None, keepdims=False)"
SCAN, SORT = (
    "(x, /, *, axis=None, dtype=None, include_initial=False)",
    "(x, /, *, axis=-1, descending=False, stable=True)",
)
SPREAD = "(x, /, *, axis=None, correction=0.0, keepdims=False)"
SIGNATURES = {
    **dict.fromkeys(UNARY, "(x, /)"),
    **dict.fromkeys(BINARY, "(x1, x2, /)"),
    **dict.fromkeys("empty ones zeros".split(), MAKE),
    **dict.fromkeys("empty_like ones_like zeros_like".split(), LIKE),
    **dict.fromkeys("all any argmax argmin count_nonzero max mean min".split(), REDUCE),
    **dict.fromkeys("prod sum".split(), ADD_UP),
    **dict.fromkeys("cumulative_prod cumulative_sum".split(), SCAN),
    **dict.fromkeys("argsort sort".split(), SORT),
    **dict.fromkeys("std var".split(), SPREAD),
    **dict.fromkeys("tril triu".split(), "(x, /, *, k=0)"),
    **dict.fromkeys("matrix_transpose nonzero unique_all unique_counts unique_inverse unique_values".split(), "(x, /)"),
    **dict.fromkeys("finfo iinfo".split(), "(type, /)"),
    "arange": "(start, /, stop=None, step=1, *, dtype=None, device=None)",
    "asarray": "(obj, /, *, dtype=None, device=None, copy=None)",
    "astype": "(x, dtype, /, *, copy=True, device=None)",
    "broadcast_arrays": "(*arrays)",
    "broadcast_to": "(x, /, shape)",
    "can_cast": "(from_, to, /)",
    "clip": "(x, /, min=None, max=None)",
    "concat": "(arrays, /, *, axis=0)",
    "diff": "(x, /, *, axis=-1, n=1, prepend=None, append=None)",
    "expand_dims": "(x, /, axis=0)",
    "eye": "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)",
    "flip": "(x, /, *, axis=None)",
    "from_dlpack": "(x, /, *, device=None, copy=None)",
    "full": "(shape, fill_value, *, dtype=None, device=None)",
    "full_like": "(x, /, fill_value, *, dtype=None, device=None)",
    "isdtype": "(dtype, kind)",
    "linspace": "(start, stop, /, num, *, dtype=None, device=None, endpoint=True)",
    "matmul": "(x1, x2, /)",
    "meshgrid": "(*arrays, indexing='xy')",
    "moveaxis": "(x, source, destination, /)",
    "permute_dims": "(x, /, axes)",
    "repeat": "(x, repeats, /, *, axis=None)",
    "reshape": "(x, /, shape, *, copy=None)",
    "result_type": "(*arrays_and_dtypes)",
    "roll": "(x, /, shift, *, axis=None)",
    "searchsorted": "(x1, x2, /, *, side='left', sorter=None)",
    "squeeze": "(x, /, axis)",
    "stack": "(arrays, /, *, axis=0)",
    "take": "(x, indices, /, *, axis=None)",
    "take_along_axis": "(x, indices, /, *, axis=-1)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "tile": "(x, repetitions, /)",
    "unstack": "(x, /, *, axis=0)",
    "vecdot": "(x1, x2, /, *, axis=-1)",
    "where": "(condition, x1, x2, /)",
    "__array_namespace_info__": "()",
}
LINALG = {
    **dict.fromkeys("det eigh eigvalsh inv matrix_transpose slogdet svdvals".split(), "(x, /)"),
    **dict.fromkeys("matmul outer solve".split(), "(x1, x2, /)"),
    "cholesky": "(x, /, *, upper=False)",
    "cross": "(x1, x2, /, *, axis=-1)",
    "diagonal": "(x, /, *, offset=0)",
    "matrix_norm": "(x, /, *, keepdims=False, ord='fro')",
    "matrix_power": "(x, n, /)",
    "matrix_rank": "(x, /, *, rtol=None)",
    "pinv": "(x, /, *, rtol=None)",
    "qr": "(x, /, *, mode='reduced')",
    "svd": "(x, /, *, full_matrices=True)",
    "tensordot": SIGNATURES["tensordot"],
    "trace": "(x, /, *, offset=0, dtype=None)",
    "vecdot": SIGNATURES["vecdot"],
    "vector_norm": "(x, /, *, axis=None, keepdims=False, ord=2)",
}
CONSTANTS = {"e": math.e, "inf": INF, "nan": NAN, "newaxis": None, "pi": PI}
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
FLOATS = ["float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]


@pytest.mark.parametrize("name", [*SIGNATURES, *(f"linalg.{name}" for name in LINALG)])
def test_signature(name: str) -> None:
    extension, _, name = name.rpartition(".")
    function = getattr(getattr(xp, extension) if extension else xp, name)
    bare = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values()]
    assert str(inspect.Signature(bare)) == (LINALG if extension else SIGNATURES)[name]
    assert function.__name__ == name and (function.__doc__ or "").strip()


def test_names() -> None:
    assert xp.__array_api_version__ == "2024.12"
    public = {n for n in vars(xp) if not n.startswith("_")} - {"annotations", "builtins", "math", "sys", "reduce"}
    assert set(xp.linalg.__all__) == set(LINALG)
    imported = {"import_module", "Callable", "Sequence", "ModuleType", "Any", "NamedTuple", "Device", "Tensor"}
    assert public - imported == {*SIGNATURES, *CONSTANTS, *DTYPES} - {"__array_namespace_info__"}
    assert all(str(getattr(xp, n)) == str(v) for n, v in CONSTANTS.items())
    assert all(getattr(xp, n) is getattr(cr, n) for n in DTYPES)


def test_reached_from_an_array_and_not_before() -> None:
    code = (
        "assert 'chainrule.array_api' not in sys.modules; assert cr.array_api.pi > 3;"
        " print(cr.zeros(1).__array_namespace__() is cr.array_api)"
    )
    package = str(Path(cr.__file__).parent.parent)
    start = f"import sys; sys.path.insert(0, {package!r}); import chainrule as cr; "
    assert subprocess.run([sys.executable, "-c", start + code], text=True, capture_output=True).stdout == "True\n"
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", None):
        assert cr.zeros(1).__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match="2030.12"):
        cr.zeros(1).__array_namespace__(api_version="2030.12")
    with pytest.raises(AttributeError, match="array_apy"):
        getattr(cr, "array_" + "apy")


def test_array_object() -> None:
    x = xp.ones((2, 3), dtype=xp.float64)
    for name in (
        "__abs__ __add__ __and__ __array_namespace__ __bool__ __dlpack__ __dlpack_device__ __eq__ __float__"
        " __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__"
        " __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__"
        " __radd__ __rand__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__"
        " __rsub__ __rtruediv__ __rxor__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __ipow__ __imod__"
        " __iand__ __ior__ __ixor__ __ilshift__ __irshift__ to_device"
    ).split():
        assert callable(getattr(x, name)), name
    assert x.ndim == 2 and tuple(x.shape) == (2, 3) and tuple(x.T.shape) == (3, 2) and tuple(x.mT.shape) == (3, 2)
    assert x.to_device("ref").device == cr.Device("ref") and x.to_device(x.device) is x
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


# ---- what differs: docs/python.md says why

DEVIATIONS: dict[str, Callable[[], bool]] = {
    "no complex dtypes": lambda: (
        not builtins.any(hasattr(xp, n) for n in ("complex64", "complex128", "conj", "imag", "real"))
    ),
    "`size` is a method": lambda: callable(xp.zeros(3).size),
    "operators of an array without axes": lambda: (
        (xp.zeros(3, dtype=xp.float32) + xp.zeros((), dtype=xp.float64)).dtype == xp.float32
    ),
    "an integer and a float promote": lambda: xp.result_type(xp.int64, xp.float32) == xp.float32,
}


@pytest.mark.parametrize("what", DEVIATIONS)
def test_deviation(what: str) -> None:
    assert DEVIATIONS[what](), "no longer: take it out of the list and of docs/python.md"
    assert what in " ".join((ROOT / "docs" / "python.md").read_text().split())


# ---- dtypes


def bits(dtype: str) -> int:
    return int("".join(c for c in dtype if c.isdigit()))


def promoted(a: str, b: str) -> str | None:
    """The standard's tables; None where it says nothing."""
    if a == b:
        return a
    if "bool" in (a, b) or (a in FLOATS) != (b in FLOATS):
        return None
    if a in FLOATS or a[0] == b[0]:
        return max(a, b, key=bits)
    signed, unsigned = (a, b) if a[0] == "i" else (b, a)
    if unsigned == "uint64":
        return None
    return f"int{max(bits(signed), 2 * bits(unsigned))}"


@pytest.mark.parametrize("a,b", list(product(DTYPES, DTYPES)))
def test_promotion(a: str, b: str) -> None:
    want = promoted(a, b)
    if want is None:
        assert not xp.can_cast(getattr(xp, a), getattr(xp, b))
        return
    da, db, dw = getattr(xp, a), getattr(xp, b), getattr(xp, want)
    assert xp.result_type(da, db) == dw
    assert xp.can_cast(da, db) == (want == b)
    for shapes in product(((2, 3), (3,), ()), repeat=2):
        x, y = xp.ones(shapes[0], dtype=da), xp.ones(shapes[1], dtype=db)
        assert xp.result_type(x, y) == dw
        if a != "bool":
            assert (
                xp.add(x, y).dtype == dw
                and xp.maximum(x, y).dtype == dw
                and xp.where(xp.ones(3, dtype=xp.bool), x, y).dtype == dw
            )
            assert xp.concat([xp.reshape(x, (-1,)), xp.reshape(y, (-1,))]).dtype == dw
        assert xp.equal(x, y).dtype == xp.bool


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_take_the_dtype_of_the_array(dtype: str) -> None:
    x = xp.ones(3, dtype=getattr(xp, dtype))
    for number in ([True] if dtype == "bool" else [2]) + ([2.5] if dtype in FLOATS else []):
        for f in ("equal", "less_equal") if dtype == "bool" else ("add", "maximum", "multiply", "pow", "equal"):
            for y in (getattr(xp, f)(x, number), getattr(xp, f)(number, x)):
                assert y.dtype == (xp.bool if f in ("equal", "less_equal") else x.dtype)
        assert xp.where(x == x, x, number).dtype == x.dtype == xp.where(x == x, number, x).dtype
        assert xp.result_type(x, number) == x.dtype
    assert (
        xp.result_type(xp.bool, 1) == xp.int64
        and xp.result_type(xp.bool, True) == xp.bool
        and xp.result_type(xp.int8, 1.5) == xp.float32
    )


def test_dtype_questions() -> None:
    kinds = {
        "bool": ["bool"],
        "signed integer": INTEGERS[:4],
        "unsigned integer": INTEGERS[4:],
        "integral": INTEGERS,
        "real floating": FLOATS,
        "complex floating": [],
        "numeric": [*INTEGERS, *FLOATS],
    }
    for kind, dtypes in kinds.items():
        assert [d for d in DTYPES if xp.isdtype(getattr(xp, d), kind)] == dtypes
        assert xp.__array_namespace_info__().dtypes(kind=kind) == {d: getattr(xp, d) for d in dtypes}
    assert xp.isdtype(xp.int8, ("bool", xp.int8)) and not xp.isdtype(xp.int8, ("bool", xp.int16))
    with pytest.raises(ValueError):
        xp.isdtype(xp.int8, "integer")
    for d in FLOATS:
        f = xp.finfo(getattr(xp, d))
        fraction = 23 if d == "float32" else 52
        assert (f.bits, f.eps, f.smallest_normal) == (
            bits(d),
            2.0**-fraction,
            2.0**-126 if d == "float32" else sys.float_info.min,
        )
        assert (
            f.max == -f.min == (sys.float_info.max if d == "float64" else (2 - 2.0**-23) * 2.0**127)
            and xp.finfo(xp.ones(2, dtype=f.dtype)) == f
        )
    for d in INTEGERS:
        i = xp.iinfo(getattr(xp, d))
        low = -(2 ** (bits(d) - 1)) if d[0] == "i" else 0
        assert (i.bits, i.min, i.max, i.dtype) == (bits(d), low, low + 2 ** bits(d) - 1, getattr(xp, d))
    for wrong in (xp.finfo, xp.iinfo):
        with pytest.raises(TypeError):
            wrong(xp.bool)


def test_info() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_device() == cr.get_default_device() and {str(d) for d in info.devices()} >= {"cpu", "ref"}
    assert info.default_dtypes() == {
        "real floating": xp.zeros(1).dtype,
        "integral": xp.arange(3).dtype,
        "indexing": xp.argmax(xp.zeros(2)).dtype,
    }
    assert info.dtypes() == {d: getattr(xp, d) for d in DTYPES}
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert xp.arange(3)[xp.arange(3) > 0].tolist() == [1, 2]
    assert xp.zeros((1,) * info.capabilities()["max dimensions"]).ndim == 8


# ---- special cases: the standard's lists

EITHER = object()  # the standard leaves it open, or allows NaN as well
SPECIAL_UNARY: dict[str, list[tuple[float, float]]] = {
    "acos": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (1, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (1, 0.0), (INF, INF)],
    "asin": [(NAN, NAN), (1.5, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (NAN, NAN)],
    "atanh": [(-1.5, NAN), (1, INF), (-1, -INF), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
    "ceil": [(-0.5, -0.0), (0.5, 1), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (NAN, NAN)],
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN)],
    "floor": [(-0.5, -1), (0.5, 0.0), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "log": [(-1, NAN), (0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (NAN, NAN)],
    "log10": [(-1, NAN), (0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (NAN, NAN)],
    "log1p": [(-2, NAN), (-1, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    "log2": [(-1, NAN), (0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (NAN, NAN)],
    "round": [
        (0.5, 0.0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, -0.0),
        (-2.5, -2),
        (INF, INF),
        (-INF, -INF),
        (NAN, NAN),
        (-0.0, -0.0),
    ],
    "sign": [(-3, -1), (-0.0, 0), (0.0, 0), (3, 1), (NAN, NAN), (INF, 1), (-INF, -1)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "sqrt": [(-1, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN)],
    "trunc": [(-0.5, -0.0), (0.5, 0.0), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-3.7, -3)],
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN), (-2, 2)],
    "isfinite": [(INF, False), (-INF, False), (NAN, False), (1, True)],
    "isinf": [(INF, True), (-INF, True), (NAN, False), (1, False)],
    "isnan": [(INF, False), (NAN, True), (1, False)],
    "signbit": [
        (0.0, False),
        (-0.0, True),
        (1, False),
        (-1, True),
        (INF, False),
        (-INF, True),
        (NAN, False),
        (-NAN, True),
    ],
}
SPECIAL_BINARY: dict[str, list[tuple[float, float, Any]]] = {
    "add": [
        (INF, -INF, NAN),
        (-INF, INF, NAN),
        (INF, INF, INF),
        (INF, 1, INF),
        (-0.0, -0.0, -0.0),
        (-0.0, 0.0, 0.0),
        (2, -2, 0.0),
        (NAN, 1, NAN),
    ],
    "subtract": [(INF, INF, NAN), (INF, -INF, INF), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (1, NAN, NAN)],
    "multiply": [
        (INF, 0.0, NAN),
        (-INF, -0.0, NAN),
        (INF, -2, -INF),
        (-0.0, 2, -0.0),
        (-0.0, -2, 0.0),
        (NAN, 0.0, NAN),
    ],
    "divide": [
        (INF, INF, NAN),
        (0.0, 0.0, NAN),
        (0.0, -0.0, NAN),
        (0.0, 2, 0.0),
        (-0.0, 2, -0.0),
        (0.0, -2, -0.0),
        (2, 0.0, INF),
        (2, -0.0, -INF),
        (-2, 0.0, -INF),
        (-2, -0.0, INF),
        (INF, 2, INF),
        (INF, -2, -INF),
        (2, INF, 0.0),
        (2, -INF, -0.0),
        (-2, INF, -0.0),
        (-2, -INF, 0.0),
        (NAN, 1, NAN),
    ],
    "floor_divide": [
        (NAN, 1, NAN),
        (1, NAN, NAN),
        (INF, INF, NAN),
        (-INF, INF, NAN),
        (0.0, 0.0, NAN),
        (-0.0, 0.0, NAN),
        (0.0, 2, 0.0),
        (-0.0, 2, -0.0),
        (0.0, -2, -0.0),
        (-0.0, -2, 0.0),
        (2, 0.0, INF),
        (2, -0.0, -INF),
        (-2, 0.0, -INF),
        (-2, -0.0, INF),
        (INF, 2, INF),
        (-INF, 2, -INF),
        (INF, -2, -INF),
        (-INF, -2, INF),
        (2, INF, 0.0),
        (2, -INF, -0.0),
        (-2, INF, -0.0),
        (-2, -INF, 0.0),
        (5, 2, 2),
        (-5, 2, -3),
        (5, -2, -3),
        (-5, -2, 2),
    ],
    "remainder": [
        (NAN, 1, NAN),
        (1, NAN, NAN),
        (INF, INF, NAN),
        (INF, 2, NAN),
        (-INF, 2, NAN),
        (0.0, 0.0, NAN),
        (2, 0.0, NAN),
        (2, -0.0, NAN),
        (0.0, 2, 0.0),
        (-0.0, 2, 0.0),
        (0.0, -2, -0.0),
        (-0.0, -2, -0.0),
        (2, INF, 2),
        (2, -INF, -INF),
        (-2, INF, INF),
        (-2, -INF, -2),
        (5, 2, 1),
        (-5, 2, 1),
        (5, -2, -1),
        (-5, -2, -1),
    ],
    "pow": [
        (2, NAN, NAN),
        (1, NAN, 1),
        (NAN, 0.0, 1),
        (NAN, -0.0, 1),
        (INF, 0.0, 1),
        (NAN, 2, NAN),
        (2, INF, INF),
        (-2, INF, INF),
        (2, -INF, 0.0),
        (1, INF, 1),
        (-1, INF, 1),
        (-1, -INF, 1),
        (0.5, INF, 0.0),
        (0.5, -INF, INF),
        (INF, 2, INF),
        (INF, -2, 0.0),
        (-INF, 3, -INF),
        (-INF, 2, INF),
        (-INF, -3, -0.0),
        (-INF, -2, 0.0),
        (0.0, 2, 0.0),
        (0.0, -2, INF),
        (-0.0, 3, -0.0),
        (-0.0, 2, 0.0),
        (-0.0, -3, -INF),
        (-0.0, -2, INF),
        (-2, 0.5, NAN),
        (-2, 3, -8),
    ],
    "atan2": [
        (NAN, 1, NAN),
        (1, NAN, NAN),
        (1, 0.0, PI / 2),
        (1, -0.0, PI / 2),
        (0.0, 1, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, -0.0, PI),
        (0.0, -1, PI),
        (-0.0, 1, -0.0),
        (-0.0, 0.0, -0.0),
        (-0.0, -0.0, -PI),
        (-0.0, -1, -PI),
        (-1, 0.0, -PI / 2),
        (-1, -0.0, -PI / 2),
        (1, INF, 0.0),
        (1, -INF, PI),
        (-1, INF, -0.0),
        (-1, -INF, -PI),
        (INF, 1, PI / 2),
        (-INF, 1, -PI / 2),
        (INF, INF, PI / 4),
        (INF, -INF, 3 * PI / 4),
        (-INF, INF, -PI / 4),
        (-INF, -INF, -3 * PI / 4),
    ],
    "copysign": [
        (2, -0.0, -2),
        (-2, 0.0, 2),
        (INF, -1, -INF),
        (0.0, -3, -0.0),
        (NAN, 1, NAN),
        (3, INF, 3),
        (3, -INF, -3),
    ],
    "hypot": [
        (INF, NAN, INF),
        (-INF, NAN, INF),
        (NAN, INF, INF),
        (NAN, 1, NAN),
        (INF, 3, INF),
        (0.0, -3, 3),
        (-0.0, 0.0, 0.0),
        (3, 4, 5),
        (3e38, 0.0, 3e38),
    ],
    "logaddexp": [
        (NAN, INF, NAN),
        (NAN, 1, NAN),
        (INF, 1, INF),
        (INF, -INF, INF),
        (1, INF, INF),
        (-INF, -INF, -INF),
        (INF, INF, INF),
        (-INF, 2, 2),
        (0.0, 0.0, math.log(2)),
    ],
    "maximum": [(NAN, 1, NAN), (1, NAN, NAN), (-INF, INF, INF)],
    "minimum": [(NAN, 1, NAN), (1, NAN, NAN), (-INF, INF, -INF)],
    "nextafter": [(NAN, 1, NAN), (1, NAN, NAN), (1, 1, 1), (0.0, -0.0, -0.0), (-0.0, 0.0, 0.0)],
    "equal": [(NAN, NAN, False), (0.0, -0.0, True), (INF, INF, True)],
    "less": [(NAN, 1, False), (0.0, -0.0, False), (-INF, INF, True)],
}


def agrees(got: Any, want: Any, dtype: str) -> bool:
    if want is EITHER:
        return True
    if isinstance(want, bool):
        return got is want
    if math.isnan(want):
        return math.isnan(got)
    if want == 0 or math.isinf(want):
        return bool(got == want) and (math.copysign(1, got) == math.copysign(1, want) or isinstance(want, int))
    return bool(abs(got - want) <= abs(want) * (1e-6 if dtype == "float32" else 1e-14))


@pytest.mark.parametrize("device", ["cpu", "ref"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_cases(dtype: str, device: str) -> None:
    wrong = []
    tables: list[dict[str, Any]] = [SPECIAL_UNARY, SPECIAL_BINARY]
    for name, cases in (item for t in tables for item in t.items()):
        columns = [
            xp.asarray([float(v) for v in column], dtype=getattr(xp, dtype), device=device)
            for column in list(zip(*cases, strict=True))[:-1]
        ]
        for case, got in zip(cases, getattr(xp, name)(*columns).tolist(), strict=True):
            if not agrees(got, case[-1], dtype):
                wrong.append(f"{name}{case[:-1]} is {got}, the standard says {case[-1]}")
    assert not wrong, "\n".join(wrong)


# ---- values: as NumPy, which follows the standard


@dataclass(frozen=True)
class A:
    """An array of numbers in [low, high), the same for the same seed."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    low: float = -3
    high: float = 3
    seed: int = 0

    def make(self, lib: Any) -> Any:
        r = random.Random(f"{self.seed} {self.shape} {self.dtype}")
        n = math.prod(self.shape)
        if self.dtype in FLOATS:
            values: list[Any] = [float(f"{r.uniform(self.low, self.high):.6g}") for _ in range(n)]
        elif self.dtype == "bool":
            values = [r.random() < 0.5 for _ in range(n)]
        else:
            values = [
                r.randrange(max(math.ceil(self.low), 0 if self.dtype[0] == "u" else -99), math.ceil(self.high))
                for _ in range(n)
            ]
        return lib.reshape(lib.asarray(values, dtype=getattr(lib, self.dtype)), self.shape)


@dataclass(frozen=True)
class D:
    name: str

    def make(self, lib: Any) -> Any:
        return getattr(lib, self.name)


Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, *args: Any, **kwargs: Any) -> Call:
    return name, args, kwargs


SHAPES: list[tuple[int, ...]] = [(3, 5), (), (7,), (0,), (2, 0, 3), (2, 3, 5)]
PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((5, 1), (1, 7)),
    ((), (3,)),
    ((3, 0), (1,)),
    ((), ()),
]
RANGE = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "atanh": (-0.9, 0.9),
    "acosh": (1, 4),
    "log": (0.1, 4),
    "log2": (0.1, 4),
    "log10": (0.1, 4),
    "sqrt": (0, 4),
    "log1p": (-0.9, 3),
    "reciprocal": (0.5, 3),
}
BITS = {n for n in (*UNARY, *BINARY) if n.startswith("bitwise")}
LOGICAL = {n for n in (*UNARY, *BINARY) if n.startswith("logical")}
ANY = {"equal", "not_equal", *LOGICAL}
WHOLE_TOO = set(
    "abs ceil floor isfinite isinf isnan negative positive round sign square trunc add floor_divide greater"
    " greater_equal less less_equal maximum minimum multiply pow remainder subtract".split()
)


def dtypes_of(name: str) -> list[str]:
    if name in BITS:
        return [*INTEGERS, *([] if "shift" in name else ["bool"])]
    if name in LOGICAL:
        return ["bool"]
    return [*FLOATS, *(INTEGERS if name in WHOLE_TOO | ANY else []), *(["bool"] if name in ANY else [])]


def elementwise() -> Iterator[Call]:
    for name in UNARY:
        low, high = RANGE.get(name, (-3, 3))
        for d, shape in product(dtypes_of(name), SHAPES):
            if not (name == "negative" and d[0] == "u"):
                yield call(name, A(shape, d, low, high))
    for name in BINARY:
        positive = name in ("pow", "floor_divide", "remainder") or "shift" in name
        low, high = (1, 4) if positive else (-3, 3)
        for (a, b), d in product(PAIRS, dtypes_of(name)):
            yield call(name, A(a, d, low, high), A(b, d, low, high, 1))
        for d, e in product(dtypes_of(name), repeat=2):
            if promoted(d, e) and d != e:
                yield call(name, A((3, 5), d, low, high), A((5,), e, low, high, 1))
                yield call(name, A((3, 5), d, low, high), A((), e, low, high, 1))
        for d in dtypes_of(name):
            if d != "bool" and name not in LOGICAL:
                yield call(name, A((3, 5), d, low, high), 2)
                yield call(name, 2, A((3, 5), d, low, high))
    for bounds in (
        (-1.0, 1.0),
        (None, 1.0),
        (-1.0, None),
        (A((5,), "float64", -2, 0), 1.0),
        (None, A((3, 1), "float64", 0, 2)),
    ):
        yield call("clip", A((3, 5)), *bounds)
    yield call("clip", A((3, 5), "int16"), -1, 1)
    yield call("clip", A((3, 5)), min=0.0)


def reductions() -> Iterator[Call]:
    for name in "sum prod mean max min all any argmax argmin count_nonzero std var".split():
        single = name.startswith("arg")
        dtypes = (
            FLOATS
            if name in ("mean", "std", "var")
            else [
                *FLOATS,
                "int8",
                "uint8",
                "uint32",
                "int64",
                *(["bool"] if name in ("all", "any", "count_nonzero") else []),
            ]
        )
        for d, shape, keep in product(dtypes, SHAPES, (False, True)):
            empty = 0 in shape and name in ("max", "min", "argmax", "argmin", "mean", "std", "var")
            if not empty:
                yield call(name, A(shape, d), keepdims=keep)
            for axis in range(-len(shape), len(shape)):
                if not empty:
                    yield call(name, A(shape, d), axis=axis, keepdims=keep)
            if len(shape) == 3 and not single and not empty:
                yield call(name, A(shape, d), axis=(0, 2), keepdims=keep)
                yield call(name, A(shape, d), axis=(), keepdims=keep)
    yield call("sum", A((3, 5), "float32"), dtype=D("float64"))
    yield call("prod", A((3, 5), "int8"), dtype=D("int32"), axis=0)
    yield call("std", A((3, 5)), correction=1.0, axis=1)
    for name, d in product(("cumulative_sum", "cumulative_prod"), (*FLOATS, "int8", "uint8")):
        yield call(name, A((7,), d))
        yield call(name, A((0,), d), include_initial=True)
        for axis, initial in product((0, 1, -1), (False, True)):
            yield call(name, A((3, 5), d, 1, 3), axis=axis, include_initial=initial)
    for n, axis in product((0, 1, 2, 3), (0, 1, -1)):
        yield call("diff", A((3, 5)), axis=axis, n=n)
    yield call("diff", A((3, 5), "int32"), prepend=A((3, 2), "int32", seed=1), append=A((3, 1), "int32", seed=2))


def shapes() -> Iterator[Call]:
    for d in ("float64", "int16", "bool"):
        x = A((2, 3, 5), d)
        yield from [call("flip", x), call("flip", x, axis=1), call("flip", x, axis=(0, -1))]
        yield from [call("roll", x, 2), call("roll", x, 2, axis=1), call("roll", x, (1, -2), axis=(0, 2))]
        yield from [call("permute_dims", x, (2, 0, 1)), call("moveaxis", x, 0, 2), call("moveaxis", x, (0, 1), (-1, 0))]
        yield from [
            call("reshape", x, (5, 6)),
            call("reshape", x, (-1,), copy=True),
            call("reshape", x, (30,), copy=False),
        ]
        yield from [
            call("expand_dims", x),
            call("expand_dims", x, axis=-1),
            call("squeeze", A((2, 1, 1), d), 1),
            call("squeeze", A((2, 1, 1), d), (1, 2)),
        ]
        yield from [
            call("concat", [x, A((2, 1, 5), d, seed=1)], axis=1),
            call("concat", [x, A((4,), d, seed=1)], axis=None),
        ]
        yield from [call("stack", [x, A((2, 3, 5), d, seed=1)], axis=k) for k in (0, 1, -1)]
        yield from [call("unstack", x, axis=k) for k in (0, 1, -1)]
        yield from [call("tile", x, r) for r in ((2,), (2, 1, 3), (1, 2, 1, 2), ())]
        yield from [
            call("repeat", x, 2),
            call("repeat", x, 3, axis=1),
            call("repeat", x, A((3,), "int64", 0, 4), axis=1),
        ]
        yield from [
            call("broadcast_to", A((3, 1), d), (2, 3, 5)),
            call("broadcast_arrays", A((3, 1), d), A((5,), d), A((), d)),
            call("matrix_transpose", x),
        ]
        yield from [call("tril", x), call("triu", x, k=1), call("tril", x, k=-1)]
    for indexing in ("xy", "ij"):
        yield from [
            call("meshgrid", *tuple(A((n,), "int32", seed=n) for n in sizes), indexing=indexing)
            for sizes in ((3,), (3, 5), (2, 3, 5), (0, 3))
        ]
    yield call("concat", [A((3,), "int8"), A((2,), "uint8")])


def created() -> Iterator[Call]:
    for d in DTYPES:
        yield from [call(n, (2, 3), dtype=D(d)) for n in ("zeros", "ones")]
        yield from [call(n, A((2, 3), "float32"), dtype=D(d)) for n in ("zeros_like", "ones_like")]
        yield from [
            call("full", 3, 1, dtype=D(d)),
            call("full_like", A((2, 0), d), 1),
            call("eye", 3, dtype=D(d)),
            call("eye", 3, 4, k=1, dtype=D(d)),
            call("eye", 3, 2, k=-1, dtype=D(d)),
        ]
        yield from [call("astype", A((3, 5), e, 0, 3), D(d)) for e in DTYPES]
        yield call("asarray", [[1, 0], [1, 1]], dtype=D(d))
    yield from [
        call("full", (2, 2), 7),
        call("full", (), True),
        call("arange", 5),
        call("arange", 2, 7),
        call("arange", 0, 10, 3),
        call("arange", 5, 0),
        call("arange", 5, 0, -2),
        call("arange", 0),
    ]
    yield from [
        call("arange", 1, 3, step=0.5, dtype=D("float64")),
        call("linspace", 0.0, 1.0, 5, dtype=D("float64")),
        call("linspace", 0.0, 1.0, 5, endpoint=False, dtype=D("float64")),
    ]
    yield from [
        call("linspace", 2.0, 3.0, n, dtype=D("float32"), endpoint=e) for n, e in product((0, 1, 2), (True, False))
    ]


def indexing() -> Iterator[Call]:
    for d in ("float64", "int16", "bool"):
        x = A((3, 5), d)
        yield from [call("take", x, A((4,), "int64", -3, 3), axis=k) for k in (0, 1, -1)]
        yield from [call("take", A((7,), d), A((4,), i, 0, 7)) for i in ("int64", "int32", "uint8")]
        yield from [
            call("take_along_axis", x, A((3, 2), "int64", -5, 5)),
            call("take_along_axis", x, A((2, 5), "int64", 0, 3), axis=0),
        ]
        yield from [call("nonzero", A(s, d, -1, 2)) for s in ((7,), (3, 5), (0,), (2, 3, 5))]
        yield from [
            call("where", A((3, 5), "bool", seed=3), x, A((5,), d, seed=1)),
            call("where", A((), "bool", seed=3), x, A((3, 1), d, seed=1)),
        ]
    yield from [
        call("where", A((3, 5), "bool"), A((3, 5), "int8"), 2),
        call("where", A((3, 5), "bool"), A((3, 5), "int8"), A((), "uint8")),
    ]
    for d, side in product(("float64", "float32", "int32"), ("left", "right")):
        yield call("searchsorted", Sorted((7,), d, 0, 5), A((3, 5), d, -1, 6, 1), side=side)
    for d, down, axis in product(("float64", "int16", "uint8"), (False, True), (0, -1)):
        yield call("sort", A((5, 7), d, 0, 4), axis=axis, **{"descending": True} if down else {})
        yield call("argsort", A((5, 7), d, 0, 4), axis=axis, stable=True, **{"descending": True} if down else {})
    for name, d in product(
        ("unique_all", "unique_counts", "unique_inverse", "unique_values"), ("float64", "int16", "bool")
    ):
        yield from [call(name, A(s, d, -2, 2)) for s in ((7,), (3, 5), (0,), ())]


def products() -> Iterator[Call]:
    for a, b in (
        ((3, 5), (5, 7)),
        ((5,), (5, 7)),
        ((3, 5), (5,)),
        ((5,), (5,)),
        ((2, 3, 5), (5, 7)),
        ((2, 1, 3, 5), (4, 5, 2)),
    ):
        yield from [
            call("matmul", A(a, d), A(b, e, seed=1))
            for d, e in (("float64", "float64"), ("float32", "float64"), ("int32", "int64"))
        ]
    for a, b, axis in (((3, 5), (3, 5), -1), ((3, 5), (5,), -1), ((2, 3, 5), (3, 1), -2), ((3, 5), (3, 5), -2)):
        yield from [call("vecdot", A(a, d), A(b, d, seed=1), axis=axis) for d in ("float64", "int8")]
    for a, b, axes in (
        ((3, 5), (5, 7), 1),
        ((2, 3, 5), (3, 5, 7), 2),
        ((3,), (5,), 0),
        ((2, 3, 5), (5, 3, 7), ((1, 2), (1, 0))),
    ):
        yield from [call("tensordot", A(a, d), A(b, d, seed=1), axes=axes) for d in ("float64", "int32")]


class Sorted(A):
    def make(self, lib: Any) -> Any:
        return (
            lib.sort(super().make(lib))
            if lib is not xp
            else xp.asarray(sorted(super().make(lib).tolist()), dtype=getattr(xp, self.dtype))
        )


CALLS: list[Call] = [*elementwise(), *reductions(), *shapes(), *created(), *indexing(), *products()]


def build(x: Any, lib: Any) -> Any:
    if isinstance(x, (A, D)):
        return x.make(lib)
    return [build(i, lib) for i in x] if isinstance(x, list) else x


def differ(got: Any, want: Any, np: Any) -> str | None:
    """In words, or None."""
    if isinstance(want, (tuple, list)):
        if len(got) != len(want):
            return f"{len(got)} results, NumPy's {len(want)}"
        return next((d for g, w in zip(got, want, strict=True) if (d := differ(g, w, np))), None)
    want = np.asarray(want)
    if not isinstance(got, cr.Tensor):
        return f"a {type(got).__name__}, NumPy's is an array"
    if tuple(got.shape) != want.shape or str(got.dtype).split(".")[1] != str(want.dtype):
        return f"{got.dtype} {tuple(got.shape)}, NumPy's {want.dtype} {want.shape}"
    tolerance = 1e-5 if want.dtype == np.float32 else 1e-12
    if (
        not np.allclose(got.numpy(), want, rtol=tolerance, atol=tolerance, equal_nan=True)
        if want.dtype.kind == "f"
        else not np.array_equal(got.numpy(), want)
    ):
        return f"{got.tolist()}, NumPy's {want.tolist()}"
    return None


def run_numpy(np: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy has in another form."""
    if kwargs.pop("descending", False):  # stable, which turning the result around would not be
        x = args[0].astype(np.float64)
        order = np.argsort(-x, axis=kwargs["axis"], stable=True)
        return order if name == "argsort" else np.take_along_axis(args[0], order, axis=kwargs["axis"])
    if name == "unique_values":  # the standard leaves the order open
        return np.sort(np.unique_values(*args))
    return np.expand_dims(*args, axis=0) if name == "expand_dims" and not kwargs else getattr(np, name)(*args, **kwargs)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CALLS}))
def test_as_numpy(name: str) -> None:
    np: Any = pytest.importorskip(
        "numpy", minversion="2.1", reason="NumPy 2.1 or newer is not installed: values are not compared with it"
    )
    wrong = []
    for n, args, kwargs in CALLS:
        if n != name or (name == "sum" and kwargs.get("axis") == () and kwargs["keepdims"]):
            continue
        with np.errstate(all="ignore"):
            want = run_numpy(np, name, tuple(build(a, np) for a in args), {k: build(v, np) for k, v in kwargs.items()})
        found = differ(
            getattr(xp, name)(*[build(a, xp) for a in args], **{k: build(v, xp) for k, v in kwargs.items()}), want, np
        )
        if found:
            wrong.append(f"{name}{args} {kwargs}: {found}")
    assert not wrong, f"{len(wrong)} calls differ:\n" + "\n".join(wrong[:20])


def test_every_function_is_called() -> None:
    others = {
        "empty",
        "empty_like",
        "from_dlpack",
        "can_cast",
        "finfo",
        "iinfo",
        "isdtype",
        "result_type",
        "__array_namespace_info__",
    }  # tested above and below
    assert {name for name, _, _ in CALLS} == set(SIGNATURES) - others


def test_memory() -> None:
    x = xp.ones((2, 3))
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x
    assert tuple(xp.empty(3).shape) == (3,) and xp.empty_like(x, dtype=xp.int8).dtype == xp.int8
    assert xp.from_dlpack(x).data_ptr() == x.data_ptr() != xp.from_dlpack(x, copy=True).data_ptr()
    assert xp.asarray(x, copy=False).data_ptr() == x.data_ptr() != xp.asarray(x, copy=True).data_ptr()
    assert xp.positive(x).data_ptr() != x.data_ptr() and xp.reshape(x, (6,), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError):
        xp.reshape(x.T, (6,), copy=False)


def test_expand_dims() -> None:
    x = xp.ones((2, 3))
    shapes: list[tuple[Any, list[int]]] = [
        (0, [1, 2, 3]),
        (-1, [2, 3, 1]),
        ((0, 2), [1, 2, 1, 3]),
        ((-1, 0), [1, 2, 3, 1]),
        ((), [2, 3]),
    ]
    for axis, shape in shapes:
        assert list(xp.expand_dims(x, axis).shape) == list(xp.expand_dims(x, axis=axis).shape) == shape
    for bad in (3, -4, (0, 4)):
        with pytest.raises(IndexError):
            xp.expand_dims(x, axis=bad)
    with pytest.raises(ValueError, match="twice"):
        xp.expand_dims(x, axis=(0, -4))


def test_repeat_by_any_integers() -> None:
    for dtype in (xp.int8, xp.uint8, xp.int32, xp.uint64):
        assert xp.repeat(xp.asarray([5, 6]), xp.asarray([1, 2], dtype=dtype)).tolist() == [5, 6, 6]
    with pytest.raises((TypeError, RuntimeError)):
        xp.repeat(xp.asarray([5, 6]), xp.asarray([1.0, 2.0]))


def test_complex() -> None:
    for value in (2.5, 3, True):
        number = xp.asarray(value).__complex__()
        assert type(number) is complex and number == value == complex(xp.asarray(value))
    with pytest.raises(RuntimeError):
        xp.ones((2,)).__complex__()


def test_gradients_flow() -> None:
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    xp.sum(xp.multiply(xp.clip(x, 0, 1.5), xp.exp(x))).backward()
    assert (
        x.grad is not None
        and x.grad[0].item() == pytest.approx(2 * math.e)
        and x.grad[1].item() == pytest.approx(1.5 * math.exp(2))
    )


def test_refusals() -> None:
    x = xp.ones((2, 3))
    values: list[Callable[[], Any]] = [
        lambda: xp.squeeze(x, 0),
        lambda: xp.take(x, xp.asarray([0])),
        lambda: xp.broadcast_arrays(x, xp.ones(2)),
    ]
    kinds: list[Callable[[], Any]] = [
        lambda: xp.add(1, 2),
        lambda: xp.bitwise_and(x, x),
        lambda: xp.add(x),
        lambda: xp.abs(x=x),
        lambda: xp.sum(x, 0),
    ]
    values.append(lambda: xp.vecdot(x, xp.ones(2)))
    for wrong in values:
        with pytest.raises(ValueError):
            wrong()
    for wrong in kinds:
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_linear_algebra() -> None:
    """Against NumPy, whose linalg follows the standard too: dtypes, stacks, broadcasting, integers."""
    np = pytest.importorskip("numpy")
    draw = np.random.default_rng(0)
    a, wide, vector = draw.standard_normal((2, 3, 4, 4)), draw.standard_normal((2, 3, 5)), draw.standard_normal(4)
    definite, whole = a @ a.swapaxes(-1, -2) + np.eye(4), draw.integers(-5, 6, (2, 3, 3)).astype("int32")
    calls: list[tuple[Any, ...]] = [
        ("cholesky", definite), ("det", a), ("diagonal", wide, {"offset": -1}), ("eigvalsh", definite), ("inv", a),
        ("matrix_norm", a, {"ord": 1, "keepdims": True}), ("matrix_power", a, -2), ("matrix_rank", wide),
        ("matrix_transpose", wide), ("outer", vector, vector), ("pinv", wide, {"rtol": 0.2}), ("slogdet", a),
        ("solve", a, vector), ("solve", a, a[0]), ("svdvals", wide), ("trace", whole), ("trace", whole, {"offset": 1}),
        ("vecdot", whole, whole), ("vector_norm", wide, {"axis": (0, 2), "ord": 3}), ("vector_norm", wide),
        ("cross", whole, whole[:1]), ("tensordot", a, wide[0].T[:4], {"axes": 1}), ("matmul", whole, whole),
        ("trace", whole.astype("uint8")), ("cholesky", definite.astype("float32"), {"upper": True}),
    ]  # fmt: skip
    for name, *args in calls:
        kwargs = args.pop() if isinstance(args[-1], dict) else {}
        given = [xp.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        found, wanted = getattr(xp.linalg, name)(*given, **kwargs), getattr(np.linalg, name)(*args, **kwargs)
        for got, want in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
            got = np.asarray(got)
            assert got.shape == want.shape, (name, got.shape, want.shape)
            assert got.dtype == want.dtype, (name, got.dtype, want.dtype)
            assert np.allclose(got, want, 1e-4 if want.dtype == np.float32 else 1e-9), name
    q, r = xp.linalg.qr(xp.asarray(wide), mode="complete")
    u, s, vh = xp.linalg.svd(xp.asarray(wide))
    assert q.shape == (2, 3, 3) and np.allclose(np.asarray(q @ r), wide) and vh.shape == (2, 5, 5)
    values, vectors = xp.linalg.eigh(xp.asarray(definite))
    assert np.allclose(np.asarray((vectors * values[..., None, :]) @ vectors.mT), definite)
    assert math.copysign(1, float(xp.linalg.outer(xp.asarray([-0.0]), xp.asarray([0.0])))) == -1
    assert np.allclose(np.asarray(xp.linalg.vector_norm(xp.asarray(vector), axis=())), abs(vector))
