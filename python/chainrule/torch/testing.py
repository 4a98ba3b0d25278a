"""Comparisons of tensors that raise AssertionError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import chainrule as cr

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# (rtol, atol) by dtype, as in PyTorch
TOLERANCES = {
    cr.float16: (1e-3, 1e-5),
    cr.bfloat16: (1.6e-2, 1e-5),
    cr.float32: (1.3e-6, 1e-5),
    cr.float64: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """|actual - expected| <= atol + rtol |expected| for each element, of tensors, numbers, arrays, or nests of them.
    The tolerances depend on the dtype; both or neither are given."""
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    options = {"check_device": check_device, "check_dtype": check_dtype, "equal_nan": equal_nan}
    try:
        _compare(actual, expected, rtol, atol, check_stride, options, "")
    except AssertionError as problem:
        if msg is None:
            raise
        raise AssertionError(msg(str(problem)) if callable(msg) else msg) from None


def _compare(
    a: Any, b: Any, rtol: float | None, atol: float | None, check_stride: bool, options: dict[str, bool], where: str
) -> None:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            raise AssertionError(f"The keys of the mappings do not match: {sorted(a)} and {sorted(b)}{where}")
        for key in a:
            _compare(a[key], b[key], rtol, atol, check_stride, options, f"{where}\nItem [{key!r}]")
        return
    if isinstance(a, Sequence) and isinstance(b, Sequence) and not isinstance(a, str):
        if len(a) != len(b):
            raise AssertionError(f"The length of the sequences mismatch: {len(a)} != {len(b)}{where}")
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            _compare(x, y, rtol, atol, check_stride, options, f"{where}\nItem [{i}]")
        return
    numbers = not isinstance(a, cr.Tensor) and not isinstance(b, cr.Tensor)
    x, y = (cr.as_tensor(v).detach() for v in (a, b))
    if x.shape != y.shape:
        raise AssertionError(f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}.{where}")
    if options["check_dtype"] and not numbers and x.dtype != y.dtype:
        raise AssertionError(f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}.{where}")
    if options["check_device"] and x.device != y.device:
        raise AssertionError(f"The values for attribute 'device' do not match: {x.device} != {y.device}.{where}")
    if check_stride and x.stride() != y.stride():
        raise AssertionError(f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}.{where}")
    both = [TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (x, y)]
    relative = max(t[0] for t in both) if rtol is None else rtol
    absolute = max(t[1] for t in both) if atol is None else atol
    y = y.to(x.device)
    dtype = cr.promote_types(x.dtype, y.dtype)
    if dtype is cr.bool:
        dtype = cr.uint8
    x, y = x.to(dtype), y.to(dtype)
    close = cr.isclose(x, y, relative, absolute, options["equal_nan"])
    if bool(close.all()):
        return
    wrong = int((~close).sum().item())
    difference = (x.to(cr.float64) - y.to(cr.float64)).abs().flatten()
    difference = cr.where(close.flatten(), cr.zeros_like(difference), cr.nan_to_num(difference, float("inf")))
    most = int(difference.argmax().item())
    place = tuple(int(i) for i in _position(most, tuple(x.shape)))
    raise AssertionError(
        f"Tensor-likes are not {'close' if relative or absolute else 'equal'}!\n\n"
        f"Mismatched elements: {wrong} / {x.numel()} ({100 * wrong / x.numel():.1f}%)\n"
        f"Greatest absolute difference: {difference[most].item()} at index {place} (up to {absolute} allowed, and"
        f" {relative} of the expected value)\n"
        f"There: {x[place].item()}, expected {y[place].item()}{where}"
    )


def _position(flat: int, shape: tuple[int, ...]) -> list[int]:
    """The index of an element by its number in order."""
    out: list[int] = []
    for size in reversed(shape):
        flat, at = divmod(flat, size)
        out.append(at)
    return out[::-1]


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """``assert_close`` under its old name: dtypes may differ."""
    assert_close(
        cr.as_tensor(actual),
        cr.as_tensor(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        msg=msg or None,
    )


def make_tensor(
    *shape: Any,
    dtype: cr.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    **options: Any,
) -> cr.Tensor:
    """Random numbers in [low, high): by default [-9, 9), integers and bool from their own range."""
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if dtype.is_floating_point:
        a, b = -9.0 if low is None else low, 9.0 if high is None else high
        return (a + (b - a) * cr.rand(size, dtype=dtype, device=device)).requires_grad_(requires_grad)
    least = 0 if low is None and not dtype.is_signed else -9 if low is None else int(low)
    most = 2 if dtype is cr.bool else 10 if high is None else int(high)
    return cr.randint(least, most, size, dtype=dtype, device=device)
