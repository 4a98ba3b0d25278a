"""Runs one call of table.py in chainrule and in PyTorch and says how the two differ, in words, or None.

What is compared: values, shapes, dtypes, gradients with random cotangents; where one raises, that
both do, with a matching kind."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import chainrule as cr
import table

KINDS = (TypeError, ValueError, IndexError, RuntimeError, OverflowError, AttributeError)
ran: Counter[str] = Counter()  # calls made in both libraries; of these refused by both, compared; gradients compared
TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def build(x: Any, lib: Any, leaves: list[Any] | None) -> Any:
    """The argument x of a call as this library's object."""
    if isinstance(x, table.X):
        return x.make(lib, leaves)
    if isinstance(x, table.Dtype):
        return getattr(lib, x.name)
    if isinstance(x, (list, tuple)):
        return type(x)(build(i, lib, leaves) for i in x)
    return x


class Outcome:
    def __init__(self, f: Any, lib: Any, call: table.Call, grad: bool, in_place: bool) -> None:
        self.leaves: list[Any] = []
        self.error: Exception | None = None
        self.value: Any = None
        args, kwargs = call
        try:
            made = [build(x, lib, self.leaves if grad else None) for x in args]
            named = {k: build(x, lib, self.leaves if grad else None) for k, x in kwargs.items()}
            self.value = f(*made, **named)
            if in_place and self.value is not made[0]:
                raise AssertionError("not written into its first argument")
        except Exception as e:
            self.error = e


def tensors(x: Any, lib: Any) -> list[Any]:
    if isinstance(x, lib.Tensor):
        return [x]
    return [t for i in x for t in tensors(i, lib)] if isinstance(x, (tuple, list)) else []


def backward(o: Outcome, lib: Any) -> list[Any] | None:
    """Gradients of the leaves with fixed random cotangents; None where nothing is differentiable."""
    found = [t for t in tensors(o.value, lib) if t.requires_grad]
    if not found or not o.leaves:
        return None
    total: Any = 0
    for k, t in enumerate(found):
        cotangent = table.X(tuple(t.shape), str(t.dtype).split(".")[1], -1, 1, seed=77 + k).make(lib)
        total = total + (t * cotangent).sum().to(lib.float64)
    total.backward()
    return [x.grad for x in o.leaves]


def numbers(x: Any) -> list[Any]:
    if isinstance(x, list):
        return [v for i in x for v in numbers(i)]
    return [x]


def close(a: Any, b: Any, tolerance: float, scale: float) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or tolerance == 0:
        return type(a) is type(b) and bool(a == b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return bool(a == b) or abs(a - b) <= tolerance * max(abs(a), abs(b), scale)


def differ(
    what: str, ours: Any, theirs: Any, torch: Any, values: bool = True, tolerance: float = 0.0, size: float = 1e-3
) -> str | None:
    """Two results: tensors, tuples of them, or plain Python objects.  size: of what is summed; a
    sum that cancels is no more exact than that."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, cr.Tensor):
            return f"{what} is a {type(ours).__name__}, PyTorch's a tensor"
        if tuple(ours.shape) != tuple(theirs.shape):
            return f"{what} has shape {tuple(ours.shape)}, PyTorch's {tuple(theirs.shape)}"
        dtype = str(theirs.dtype).split(".")[1]
        if str(ours.dtype).split(".")[1] != dtype:
            return f"{what} is {ours.dtype}, PyTorch's {theirs.dtype}"
        if not values:
            return None
        a, b = numbers(ours.detach().tolist()), numbers(theirs.detach().tolist())
        tolerance = max(tolerance, TOLERANCE.get(dtype, 0.0))
        scale = max((abs(v) for v in b if tolerance and math.isfinite(v)), default=0.0)
        scale = max(scale, size)
        for i, (v, w) in enumerate(zip(a, b, strict=True)):
            if not close(v, w, tolerance, scale):
                return f"{what}, element {i}: {v}, PyTorch's {w} ({dtype})"
        return None
    if isinstance(theirs, (tuple, list)) and not (theirs and isinstance(theirs[0], (int, float))):
        if not isinstance(ours, (tuple, list)) or len(ours) != len(theirs):
            return f"{what} is {show(ours, cr)}, PyTorch's {show(theirs, torch)}"
        return next(
            (
                d
                for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
                if (d := differ(f"{what}[{i}]", a, b, torch, values))
            ),
            None,
        )
    if isinstance(theirs, tuple):
        theirs = tuple(theirs)
        ours = tuple(ours) if isinstance(ours, tuple) else ours
    if isinstance(theirs, float) and isinstance(ours, float):
        return None if close(ours, theirs, 1e-6, 0) else f"{what} is {ours}, PyTorch's {theirs}"
    if type(theirs).__module__.startswith("torch"):  # a Generator
        return None if type(ours).__name__ == type(theirs).__name__ else f"{what} is {ours}, PyTorch's {theirs}"
    return (
        None
        if type(ours) is type(theirs) and str(ours) == str(theirs)
        else f"{what} is {show(ours, cr)}, PyTorch's {show(theirs, torch)}"
    )


def show(x: Any, lib: Any) -> str:
    if isinstance(x, (tuple, list)):
        return f"{type(x).__name__} of {len(x)}: {', '.join(show(i, lib) for i in x)}"[:80]
    return f"{x.dtype} {x.tolist()}"[:80] if isinstance(x, lib.Tensor) else f"{x!r:.80}"


def kinds(e: Exception) -> set[str]:
    return {k.__name__ for k in KINDS if isinstance(e, k)}


def coarsest(through: list[Any]) -> float:
    """A gradient that went through float16 is no more exact than that."""
    return max((TOLERANCE.get(str(x.dtype).split(".")[1], 0.0) for x in through), default=0.0)


def compare(
    f: Any, g: Any, torch: Any, call: table.Call, *, grad: bool = True, in_place: bool = False, values: bool = True
) -> str | None:
    ran["calls"] += 1
    ours = Outcome(f, cr, call, grad, in_place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Outcome(g, torch, call, grad, in_place)
        if theirs.error or ours.error:
            if not theirs.error:
                return f"raises {type(ours.error).__name__}: {ours.error}; PyTorch gives {show(theirs.value, torch)}"
            if not ours.error:
                return (
                    f"gives {show(ours.value, cr)}; PyTorch raises {type(theirs.error).__name__}:"
                    f" {str(theirs.error).splitlines()[0][:150]}"
                )
            if not kinds(theirs.error) <= kinds(ours.error):
                return (
                    f"raises {type(ours.error).__name__}: {ours.error}; PyTorch {type(theirs.error).__name__}:"
                    f" {str(theirs.error).splitlines()[0][:150]}"
                )
            ran["refused"] += 1
            return None
        ran["compared"] += 1
        found = differ("the result", ours.value, theirs.value, torch, values)
        if found or not grad:
            return found
        wants = [[t.requires_grad for t in tensors(o.value, lib)] for o, lib in ((ours, cr), (theirs, torch))]
        if wants[0] != wants[1]:
            return f"requires_grad of the results: {wants[0]}, PyTorch's {wants[1]}"
        mine = backward(ours, cr)
        try:
            other = backward(theirs, torch)
        except RuntimeError:
            return None  # PyTorch's own gradient fails, as that of atan2 with a bool
    if mine is None or other is None:
        return None if mine is other else f"gradients: only {'PyTorch' if mine is None else 'chainrule'} has them"
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        if a is None or b is None:
            if (
                (a is None) != (b is None)
                and not (b is None and not any(numbers(a.tolist())))
                and not (a is None and not any(numbers(b.tolist())))
            ):
                return f"gradient {i} is {'None' if a is None else 'there'}, PyTorch's {b}"
        elif found := differ(
            f"gradient {i}", a, b, torch, tolerance=coarsest([*ours.leaves, *tensors(ours.value, cr)]), size=3.0
        ):  # cotangents of size 1 times slopes
            return found
        else:
            ran["gradients"] += 1
    return None
