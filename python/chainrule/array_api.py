"""The namespace of the Python array API standard, version 2024.12, over chainrule's tensors: ``xp =
x.__array_namespace__()``.

Names, parameters, result dtypes and special cases are the standard's;
https://data-apis.org/array-api/2024.12 says what each function means. There are no complex numbers;
of the extensions there is linalg.  Functions promote by the standard's rules, operators of tensors by PyTorch's;
docs/python.md lists the differences.  Gradients flow as in other calls.  The first use imports the
module."""

from __future__ import annotations

import builtins
import math
import sys
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import chainrule as _cr
from chainrule import Device, Tensor
from chainrule import dtype as _dtype

_Number = _bool | _int | _float
_Operand = Tensor | _Number
_Axes = _int | Sequence[_int] | None
_DeviceLike = Device | str | None

__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

bool, int8, int16, int32, int64 = _cr.bool, _cr.int8, _cr.int16, _cr.int32, _cr.int64
uint8, uint16, uint32, uint64, float32, float64 = (
    _cr.uint8,
    _cr.uint16,
    _cr.uint32,
    _cr.uint64,
    _cr.float32,
    _cr.float64,
)

_SIGNED = {"int8": int8, "int16": int16, "int32": int32, "int64": int64}
_UNSIGNED = {"uint8": uint8, "uint16": uint16, "uint32": uint32, "uint64": uint64}
_FLOATS = {"float32": float32, "float64": float64}
_KINDS = {
    "bool": {"bool": bool},
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED | _UNSIGNED,
    "real floating": _FLOATS,
    "complex floating": {},
    "numeric": _SIGNED | _UNSIGNED | _FLOATS,
}


def _namespace(api_version: str | None) -> ModuleType:
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"version {api_version!r} of the array API standard: there are {', '.join(_VERSIONS)}")
    return sys.modules[__name__]


# ---- data types ----


def _dtype_of(x: Tensor | _dtype) -> _dtype:
    return x.dtype if isinstance(x, Tensor) else x


def _is_float(dtype: _dtype) -> _bool:
    return dtype.is_floating_point


def astype(x: Tensor, dtype: _dtype, /, *, copy: _bool = True, device: _DeviceLike = None) -> Tensor:
    """The values in another dtype; ``copy=False``: the array itself where nothing changes."""
    return x.to(x.device if device is None else device, dtype, copy=copy)


def can_cast(from_: Tensor | _dtype, to: _dtype, /) -> _bool:
    """Does promotion with ``to`` give ``to``?  Between bool, integers and floats there is none."""
    start = _dtype_of(from_)
    same_kind = start == to or (start != bool and to != bool and _is_float(start) == _is_float(to))
    return same_kind and not (start == uint64 and to.is_signed) and _cr.promote_types(start, to) == to


def finfo(type: Tensor | _dtype, /) -> _cr.finfo:
    """Bits, machine epsilon and limits of a float dtype."""
    return _cr.finfo(_dtype_of(type))


def iinfo(type: Tensor | _dtype, /) -> _cr.iinfo:
    """Bits and limits of an integer dtype."""
    return _cr.iinfo(_dtype_of(type))


def isdtype(dtype: _dtype, kind: _dtype | str | tuple[_dtype | str, ...]) -> _bool:
    """Is it this dtype, of this kind, or one of several?"""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return dtype == kind
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r}: there are {', '.join(_KINDS)}")
    return dtype in _KINDS[kind].values()


def result_type(*arrays_and_dtypes: _Operand | _dtype) -> _dtype:
    """The dtype to which these promote.  A number takes the dtype of the others, or the default one of its
    kind where that is higher."""
    dtypes = [_dtype_of(x) for x in arrays_and_dtypes if isinstance(x, Tensor | _dtype)]
    if not dtypes:
        raise ValueError("result_type() needs an array or a dtype")
    found = reduce(_cr.promote_types, dtypes)
    for x in arrays_and_dtypes:
        if isinstance(x, _float) and not _is_float(found):
            found = float32
        elif isinstance(x, _int) and not isinstance(x, _bool) and found == bool:
            found = int64
    return found


def _name(dtype: _dtype) -> str:
    return repr(dtype).rpartition(".")[2]


# ---- creation ----


def arange(
    start: _Number,
    /,
    stop: _Number | None = None,
    step: _Number = 1,
    *,
    dtype: _dtype | None = None,
    device: _DeviceLike = None,
) -> Tensor:
    """start, start + step, ... up to but without ``stop``; ``arange(n)`` starts at 0."""
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = int64 if builtins.all(isinstance(x, _int) for x in (first, last, step)) else float32
    if (last - first) / step <= 0:
        return empty(0, dtype=dtype, device=device)
    return _cr.arange(first, last, step, dtype=dtype, device=device)


def asarray(
    obj: Any, /, *, dtype: _dtype | None = None, device: _DeviceLike = None, copy: _bool | None = None
) -> Tensor:
    """The numbers of an array, a buffer or nested sequences as an array: sharing memory where it
    can, unless ``copy`` says otherwise."""
    return _cr.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape: _int | Sequence[_int], *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """Memory of a shape, not written."""
    return _cr.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """Memory of the shape of ``x``, not written."""
    return _cr.empty_like(x, dtype=dtype, device=device)


def eye(
    n_rows: _int, n_cols: _int | None = None, /, *, k: _int = 0, dtype: _dtype | None = None, device: _DeviceLike = None
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return _cr.eye(n_rows, columns, dtype=dtype, device=device)
    distance = arange(columns, device=device) - expand_dims(arange(n_rows, device=device), axis=1)
    return (distance == k).to(float32 if dtype is None else dtype)


def from_dlpack(x: Any, /, *, device: _DeviceLike = None, copy: _bool | None = None) -> Tensor:
    """An array over the memory of another library's."""
    return _cr.from_dlpack(x, device=device, copy=copy)


def full(
    shape: _int | Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, device: _DeviceLike = None
) -> Tensor:
    """One value in a shape; of the default dtype of its kind where none is given."""
    return _cr.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: _Number, *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """One value in the shape of ``x``."""
    return _cr.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: _float,
    stop: _float,
    /,
    num: _int,
    *,
    dtype: _dtype | None = None,
    device: _DeviceLike = None,
    endpoint: _bool = True,
) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which ``endpoint=False`` leaves out."""
    if endpoint or num == 0:
        return _cr.linspace(start, stop, num, dtype=dtype, device=device)
    return _cr.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Vectors as the coordinates of a grid: "xy" counts the first along columns, "ij" along rows."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    n, swapped = len(arrays), indexing == "xy" and len(arrays) > 1
    grid = broadcast_arrays(*[_cr.reshape(a, [-1 if i == k else 1 for i in range(n)]) for k, a in enumerate(arrays)])
    lines = [_cr.transpose(a, 0, 1) for a in grid] if swapped else grid
    return [astype(a, result_type(*arrays), copy=False) for a in lines]


def ones(shape: _int | Sequence[_int], *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """Ones of a shape."""
    return _cr.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """Ones of the shape of ``x``."""
    return _cr.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: _int = 0) -> Tensor:
    """Zeros above the k-th diagonal of the last two axes."""
    return _cr.tril(x, k)


def triu(x: Tensor, /, *, k: _int = 0) -> Tensor:
    """Zeros below the k-th diagonal of the last two axes."""
    return _cr.triu(x, k)


def zeros(shape: _int | Sequence[_int], *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """Zeros of a shape."""
    return _cr.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: _dtype | None = None, device: _DeviceLike = None) -> Tensor:
    """Zeros of the shape of ``x``."""
    return _cr.zeros_like(x, dtype=dtype, device=device)


def _shape(shape: _int | Sequence[_int]) -> tuple[_int, ...]:
    return (shape,) if isinstance(shape, _int) else tuple(shape)


# ---- elementwise ----


def _pair(x1: _Operand, x2: _Operand) -> tuple[Tensor, Tensor]:
    """Both as arrays of their common dtype; at least one is an array."""
    dtype, device = result_type(x1, x2), (x1 if isinstance(x1, Tensor) else x2).device  # type: ignore[union-attr]
    a, b = (
        astype(x, dtype, copy=False) if isinstance(x, Tensor) else _cr.tensor(x, dtype=dtype, device=device)
        for x in (x1, x2)
    )
    return a, b


def _named(function: Any, name: str, doc: str | None) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor, /) -> Tensor:
        return f(x)

    return _named(function, name, f.__doc__)  # type: ignore[no-any-return]


def _binary(name: str, f: Callable[[Tensor, Tensor], Tensor]) -> Callable[[_Operand, _Operand], Tensor]:
    def function(x1: _Operand, x2: _Operand, /) -> Tensor:
        return f(*_pair(x1, x2))

    return _named(function, name, f.__doc__)  # type: ignore[no-any-return]


def _floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    """floor(x1 / x2); of infinities that of the quotient, where NumPy's and PyTorch's give NaN or -1."""
    y = _cr.floor_divide(x1, x2)
    if not y.is_floating_point():
        return y
    return _cr.where(_cr.isinf(x1) | _cr.isinf(x2), _cr.floor(x1 / x2), y)


def clip(x: Tensor, /, min: _Operand | None = None, max: _Operand | None = None) -> Tensor:
    """Values below min become min, values above max become max; NaN stays, and so does the dtype."""
    y = x
    for bound, f in ((min, _cr.maximum), (max, _cr.minimum)):
        if bound is not None:
            y = f(
                y,
                astype(bound, x.dtype, copy=False)
                if isinstance(bound, Tensor)
                else _cr.tensor(bound, dtype=x.dtype, device=x.device),
            )
    return x.clone() if y is x else y


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN for NaN."""
    y = _cr.sign(x)
    return _cr.where(_cr.isnan(x), x, y) if _is_float(x.dtype) else y


abs = _unary("abs", _cr.abs)
acos = _unary("acos", _cr.acos)
acosh = _unary("acosh", _cr.acosh)
asin = _unary("asin", _cr.asin)
asinh = _unary("asinh", _cr.asinh)
atan = _unary("atan", _cr.atan)
atanh = _unary("atanh", _cr.atanh)
bitwise_invert = _unary("bitwise_invert", _cr.bitwise_not)
ceil = _unary("ceil", _cr.ceil)
cos = _unary("cos", _cr.cos)
cosh = _unary("cosh", _cr.cosh)
exp = _unary("exp", _cr.exp)
expm1 = _unary("expm1", _cr.expm1)
floor = _unary("floor", _cr.floor)
isfinite = _unary("isfinite", _cr.isfinite)
isinf = _unary("isinf", _cr.isinf)
isnan = _unary("isnan", _cr.isnan)
log = _unary("log", _cr.log)
log10 = _unary("log10", _cr.log10)
log1p = _unary("log1p", _cr.log1p)
log2 = _unary("log2", _cr.log2)
logical_not = _unary("logical_not", _cr.logical_not)
negative = _unary("negative", _cr.neg)
positive = _unary("positive", _cr.clone)
reciprocal = _unary("reciprocal", _cr.reciprocal)
round = _unary("round", _cr.round)
signbit = _unary("signbit", _cr.signbit)
sin = _unary("sin", _cr.sin)
sinh = _unary("sinh", _cr.sinh)
sqrt = _unary("sqrt", _cr.sqrt)
square = _unary("square", _cr.square)
tan = _unary("tan", _cr.tan)
tanh = _unary("tanh", _cr.tanh)
trunc = _unary("trunc", _cr.trunc)

add = _binary("add", _cr.add)
atan2 = _binary("atan2", _cr.atan2)
bitwise_and = _binary("bitwise_and", _cr.bitwise_and)
bitwise_left_shift = _binary("bitwise_left_shift", _cr.bitwise_left_shift)
bitwise_or = _binary("bitwise_or", _cr.bitwise_or)
bitwise_right_shift = _binary("bitwise_right_shift", _cr.bitwise_right_shift)
bitwise_xor = _binary("bitwise_xor", _cr.bitwise_xor)
copysign = _binary("copysign", _cr.copysign)
divide = _binary("divide", _cr.div)
equal = _binary("equal", _cr.eq)
floor_divide = _binary("floor_divide", _floor_divide)
greater = _binary("greater", _cr.gt)
greater_equal = _binary("greater_equal", _cr.ge)
hypot = _binary("hypot", _cr.hypot)
less = _binary("less", _cr.lt)
less_equal = _binary("less_equal", _cr.le)
logaddexp = _binary("logaddexp", _cr.logaddexp)
logical_and = _binary("logical_and", _cr.logical_and)
logical_or = _binary("logical_or", _cr.logical_or)
logical_xor = _binary("logical_xor", _cr.logical_xor)
maximum = _binary("maximum", _cr.maximum)
nextafter = _binary("nextafter", _cr.nextafter)
minimum = _binary("minimum", _cr.minimum)
multiply = _binary("multiply", _cr.mul)
not_equal = _binary("not_equal", _cr.ne)
pow = _binary("pow", _cr.pow)
remainder = _binary("remainder", _cr.remainder)
subtract = _binary("subtract", _cr.sub)


# ---- indexing, searching ----


def _whole(indices: Tensor, size: _int) -> Tensor:
    """Indices as int64, negative ones counted from the end."""
    i = astype(indices, int64, copy=False)
    return _cr.where(i < 0, i + size, i)


def take(x: Tensor, indices: Tensor, /, *, axis: _int | None = None) -> Tensor:
    """The elements at ``indices``, a vector, along an axis; negative ones count from the end."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take() needs an axis where there is not just one: {tuple(x.shape)}")
    at = 0 if axis is None else axis
    return _cr.index_select(x, at, _whole(indices, x.shape[at]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: _int = -1) -> Tensor:
    """The elements at ``indices`` along an axis, its other axes as those of ``x``; negative ones count from the end."""
    return _cr.take_along_dim(x, _whole(indices, x.shape[axis]), axis)


def argmax(x: Tensor, /, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
    """The position of the largest element, the first of equals; of all elements without an axis."""
    return _cr.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
    """The position of the smallest element, the first of equals; of all elements without an axis."""
    return _cr.argmin(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: _Axes = None, keepdims: _bool = False) -> Tensor:
    """How many elements are not 0; int64."""
    return sum(_cr.ne(x, 0), axis=axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not 0, a vector for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero() of an array without axes")
    return _cr.nonzero(x, as_tuple=True)


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """The positions at which x2 would have to be inserted into the sorted vector x1: before equal elements, or
    after them with side="right"."""
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    line, values = _pair(x1, x2)
    return _cr.searchsorted(line, values, side=side, sorter=sorter)


def where(condition: Tensor, x1: _Operand, x2: _Operand, /) -> Tensor:
    """x1 where condition, else x2."""
    return _cr.where(condition, *_pair(x1, x2))


# ---- linear algebra ----


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """(..., M, K) (..., K, N) -> (..., M, N), axes in front broadcast; vectors lose their axis."""
    return _cr.matmul(*_pair(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes swapped."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: _int | tuple[Sequence[_int], Sequence[_int]] = 2) -> Tensor:
    """Sums of products over the last axes of x1 and the first of x2, or over those listed for each."""
    return _cr.tensordot(*_pair(x1, x2), dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: _int = -1) -> Tensor:
    """Sums of products along an axis; the others broadcast."""
    a, b = (moveaxis(x, axis, -1) for x in _pair(x1, x2))
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"vecdot() of {tuple(x1.shape)} and {tuple(x2.shape)}: sizes of axis {axis} differ")
    return astype(_cr.sum(a * b, -1), a.dtype, copy=False)


# ---- manipulation ----


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Views of one shape, to which all broadcast."""
    return list(_cr.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: Sequence[_int]) -> Tensor:
    """A view of a shape, by the rules of broadcasting."""
    return _cr.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: _int | None = 0) -> Tensor:
    """Arrays one after the other along an axis; without one all are flattened first."""
    dtype = result_type(*arrays)
    parts = [astype(a, dtype, copy=False) for a in arrays]
    return _cr.cat([a.reshape(-1) for a in parts]) if axis is None else _cr.cat(parts, axis)


def expand_dims(x: Tensor, /, axis: _int | Sequence[_int] = 0) -> Tensor:
    """A view with more axes of size 1, at the positions that ``axis`` names in the result."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    ndim = x.ndim + len(axes)
    if outside := [a for a in axes if not -ndim <= a < ndim]:
        raise IndexError(f"[expand_dims] axis {outside[0]} is out of range: the result has {ndim} axes")
    positions = sorted(a % ndim for a in axes)
    if len(set(positions)) < len(positions):
        raise ValueError(f"[expand_dims] an axis is named twice: {axes}")
    for a in positions:
        x = _cr.unsqueeze(x, a)
    return x


def flip(x: Tensor, /, *, axis: _Axes = None) -> Tensor:
    """The elements in reverse order along axes, all of them when absent."""
    return _cr.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def moveaxis(x: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int], /) -> Tensor:
    """A view with axes moved; the others keep their order."""
    return _cr.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: Sequence[_int]) -> Tensor:
    """A view with the axes in the order given."""
    return _cr.permute(x, axes)


def repeat(x: Tensor, repeats: _int | Tensor, /, *, axis: _int | None = None) -> Tensor:
    """Each element, or each part along an axis, as often as ``repeats``, of any integer dtype, says."""
    return _cr.repeat_interleave(
        x, repeats.long() if isinstance(repeats, Tensor) and isdtype(repeats.dtype, "integral") else repeats, axis
    )


def reshape(x: Tensor, /, shape: Sequence[_int], *, copy: _bool | None = None) -> Tensor:
    """The same elements in another shape; copy: True always copies, False never: ValueError where
    one would be needed."""
    if copy is False:
        return x.view(shape)
    y = _cr.reshape(x, shape)
    return y.clone() if copy else y


def roll(x: Tensor, /, shift: _int | tuple[_int, ...], *, axis: _Axes = None) -> Tensor:
    """The elements moved along axes, or along all as one; elements that leave at the end enter at the front."""
    return _cr.roll(x, shift) if axis is None else _cr.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: _int | Sequence[_int]) -> Tensor:
    """A view without axes of size 1; ValueError where one has another."""
    for i in (axis,) if isinstance(axis, _int) else axis:
        if -x.ndim <= i < x.ndim and x.shape[i] != 1:
            raise ValueError(f"squeeze() of axis {i} of {tuple(x.shape)}: its size is not 1")
    return _cr.squeeze(x, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: _int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    dtype = result_type(*arrays)
    return _cr.stack([astype(a, dtype, copy=False) for a in arrays], axis)


def tile(x: Tensor, repetitions: tuple[_int, ...], /) -> Tensor:
    """The whole array so often along each axis."""
    return _cr.tile(x, repetitions)


def unstack(x: Tensor, /, *, axis: _int = 0) -> tuple[Tensor, ...]:
    """The views x[0], x[1], ... along an axis."""
    return _cr.unbind(x, axis)


# ---- order, sets ----


def argsort(x: Tensor, /, *, axis: _int = -1, descending: _bool = False, stable: _bool = True) -> Tensor:
    """The positions that sort an axis; equals keep their order."""
    return _cr.argsort(x, axis, descending, stable=stable)


def sort(x: Tensor, /, *, axis: _int = -1, descending: _bool = False, stable: _bool = True) -> Tensor:
    """The elements in order along an axis."""
    return _cr.sort(x, axis, descending, stable=stable).values


class _UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class _UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class _UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> _UniqueAll:
    """The different elements in order, where each comes first, which of them each element is, and
    how often each comes.  NaNs are all different."""
    values, inverse, counts = _cr.unique(x, return_inverse=True, return_counts=True)
    first = take(argsort(reshape(inverse, (-1,))), cumulative_sum(counts) - counts)
    return _UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> _UniqueCounts:
    """The different elements in order, and how often each comes."""
    return _UniqueCounts(*_cr.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> _UniqueInverse:
    """The different elements in order, and which of them each element is."""
    return _UniqueInverse(*_cr.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements in order."""
    values: Tensor = _cr.unique(x)
    return values


# ---- statistics ----


def _reduced(f: Callable[..., Tensor], x: Tensor, axis: _Axes, keepdims: _bool, **how: Any) -> Tensor:
    """A reduction over some axes: none of them for (), which f would take as all."""
    if axis == ():
        return f(expand_dims(x, axis=-1), -1, False, **how)
    return f(x, tuple(range(x.ndim)) if axis is None else axis, keepdims, **how)


def _wide(x: Tensor, dtype: _dtype | None) -> _dtype:
    """The dtype of sums of x: 64 bits for integers."""
    if dtype is not None or _is_float(x.dtype):
        return x.dtype if dtype is None else dtype
    return uint64 if x.dtype in _UNSIGNED.values() else int64


def sum(x: Tensor, /, *, axis: _Axes = None, dtype: _dtype | None = None, keepdims: _bool = False) -> Tensor:
    """The sum; of integers in 64 bits, unless ``dtype`` says otherwise."""
    wide = _wide(x, dtype)
    return astype(_reduced(_cr.sum, x, axis, keepdims, dtype=wide), wide, copy=False)


def prod(x: Tensor, /, *, axis: _Axes = None, dtype: _dtype | None = None, keepdims: _bool = False) -> Tensor:
    """The product; of integers in 64 bits, unless ``dtype`` says otherwise."""
    return _reduced(_cr.prod, x, axis, keepdims, dtype=_wide(x, dtype))


def _scan(f: Callable[..., Tensor], x: Tensor, axis: _int | None, dtype: _dtype | None, initial: _int | None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(f"a cumulative sum or product needs an axis where there is not just one: {tuple(x.shape)}")
    at = 0 if axis is None else axis
    y = f(x, at, dtype=_wide(x, dtype))
    return (
        y
        if initial is None
        else concat(
            [full_like(y.narrow(at, 0, 1) if y.shape[at] else expand_dims(sum(y, axis=at), axis=at), initial), y],
            axis=at,
        )
    )


def cumulative_prod(
    x: Tensor, /, *, axis: _int | None = None, dtype: _dtype | None = None, include_initial: _bool = False
) -> Tensor:
    """Products of the first elements of an axis, with 1 in front where ``include_initial``."""
    return _scan(_cr.cumprod, x, axis, dtype, 1 if include_initial else None)


def cumulative_sum(
    x: Tensor, /, *, axis: _int | None = None, dtype: _dtype | None = None, include_initial: _bool = False
) -> Tensor:
    """Sums of the first elements of an axis, with 0 in front where ``include_initial``."""
    return _scan(_cr.cumsum, x, axis, dtype, 0 if include_initial else None)


def mean(x: Tensor, /, *, axis: _Axes = None, keepdims: _bool = False) -> Tensor:
    """The mean."""
    return _reduced(_cr.mean, x, axis, keepdims)


def _spread(f: Callable[..., Tensor], correction: _float) -> Callable[..., Tensor]:
    return lambda x, axes, keepdims: f(x, axes, correction=correction, keepdim=keepdims)


def var(x: Tensor, /, *, axis: _Axes = None, correction: _float = 0.0, keepdims: _bool = False) -> Tensor:
    """sum((x - mean)^2) / (N - correction)"""
    return _reduced(_spread(_cr.var, correction), x, axis, keepdims)


def std(x: Tensor, /, *, axis: _Axes = None, correction: _float = 0.0, keepdims: _bool = False) -> Tensor:
    """The square root of ``var``."""
    return _reduced(_spread(_cr.std, correction), x, axis, keepdims)


def max(x: Tensor, /, *, axis: _Axes = None, keepdims: _bool = False) -> Tensor:
    """The largest element; NaN wins."""
    return _reduced(_cr.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: _Axes = None, keepdims: _bool = False) -> Tensor:
    """The smallest element; NaN wins."""
    return _reduced(_cr.amin, x, axis, keepdims)


def all(x: Tensor, /, *, axis: _Axes = None, keepdims: _bool = False) -> Tensor:
    """Is no element 0?"""
    return astype(_reduced(_cr.all, x, axis, keepdims), bool, copy=False)  # uint8 for uint8, as PyTorch's


def any(x: Tensor, /, *, axis: _Axes = None, keepdims: _bool = False) -> Tensor:
    """Is an element not 0?"""
    return astype(_reduced(_cr.any, x, axis, keepdims), bool, copy=False)


def diff(
    x: Tensor, /, *, axis: _int = -1, n: _int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along an axis, n times over."""
    return _cr.diff(x, n, axis, prepend, append)


# ---- inspection ----


class _Info:
    """What ``__array_namespace_info__()`` returns."""

    def capabilities(self) -> dict[str, _bool | _int | None]:
        """Answers to the questions that the standard leaves to the library."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Device:
        """The device of new arrays when none is named."""
        return _cr.get_default_device()

    def default_dtypes(self, *, device: _DeviceLike = None) -> dict[str, _dtype]:
        """The dtypes of arrays made without a dtype; there is no complex one."""
        return {"real floating": float32, "integral": int64, "indexing": int64}

    def devices(self) -> list[Device]:
        """Those of this process."""
        return [Device(name) for name in _cr._core._devices()]

    def dtypes(self, *, device: _DeviceLike = None, kind: str | tuple[str, ...] | None = None) -> dict[str, _dtype]:
        """Names and dtypes of the standard, all or of some kinds."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        for k in kinds:
            if k not in _KINDS:
                raise ValueError(f"kind {k!r}: there are {', '.join(_KINDS)}")
        return {name: dtype for k in kinds for name, dtype in _KINDS[k].items()}


def __array_namespace_info__() -> _Info:
    """Devices, dtypes and capabilities."""
    return _Info()


def __getattr__(name: str) -> Any:
    """The extension ``linalg``, which takes functions from here."""
    if name != "linalg":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("._array_linalg", __package__)
