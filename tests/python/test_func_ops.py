"""Every function of the tables inside vmap and in forward mode: against a loop over the samples, and against reverse
mode: the products of tangents and cotangents with the Jacobian agree, <v, J t> = <J^T v, t>."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import chainrule as cr
import chainrule.nn.functional as nn_functional
import pytest
import table
from chainrule import func
from conftest import FULL
from test_names import FORMS, RANDOM, label
from test_nn_functions import ROWS as NN_ROWS

SAMPLES = 3
PART = 60 if FULL else 7  # calls of each name
TOLERANCE = {cr.float64: 1e-9, cr.float32: 3e-5, cr.float16: 1e-2, cr.bfloat16: 6e-2}

# What needs values: its shape, or the number itself, differs from sample to sample.
VALUES = set(
    """
    allclose arange argwhere bincount bool equal float full histc histogram histogramdd index_put index_put_ int item
    linspace long masked_scatter masked_scatter_ masked_select nonzero one_hot ones
    repeat_interleave tensor tensor_split tolist unique unique_consecutive where zeros
    """.split()
)

Call = table.Call


def places(x: Any) -> list[table.X]:
    """The tensors of a call, in order."""
    if isinstance(x, table.X):
        return [x]
    if isinstance(x, dict):
        return places(list(x.values()))
    return [p for i in x for p in places(i)] if isinstance(x, (list, tuple)) else []


def filled(x: Any, tensors: Iterator[Any]) -> Any:
    """The argument with these tensors in its places."""
    if isinstance(x, table.X):
        return next(tensors)
    if isinstance(x, table.Dtype):
        return getattr(cr, x.name)
    if isinstance(x, dict):
        return {k: filled(v, tensors) for k, v in x.items()}
    return type(x)(filled(i, tensors) for i in x) if isinstance(x, (list, tuple)) else x


def tensors_of(y: Any) -> list[cr.Tensor]:
    if isinstance(y, cr.Tensor):
        return [y]
    return [t for i in y for t in tensors_of(i)] if isinstance(y, (list, tuple)) else []


class Function:
    """A call as a function of its tensors."""

    def __init__(self, f: Any, call: Call, name: str) -> None:
        self.f, self.call, self.name = f, call, name
        self.xs = places(call)

    def __call__(self, *tensors: cr.Tensor) -> Any:
        args, kwargs = filled(self.call, iter(tensors))
        return self.f(*args, **kwargs)

    def flat(self, *tensors: cr.Tensor) -> tuple[cr.Tensor, ...]:
        return tuple(tensors_of(self(*tensors)))

    def samples(self, k: int) -> list[cr.Tensor]:
        return [replace(x, seed=x.seed + 100 * k).make(cr) for x in self.xs]


def allowed(f: Function, e: Exception) -> bool:
    """May this call refuse vmap?  What needs values, also a tensor that is given for a number; a leaf that is made
    inside; and views of a batch whose samples lie across each other."""
    text = str(e)
    numbers = any(x.shape == () for x in f.xs)
    if "inside vmap" in text and (f.name in VALUES or (numbers and "needs the elements" in text)):
        return True
    if "use func.grad" in text:
        return "requires_grad" in f.call[1]
    if f.name in ("view", "view_as"):
        return "without a copy" in text or "the stride of" in text
    return f.name == "as_strided" and "must be contiguous" in text


def in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def differ(a: cr.Tensor, b: cr.Tensor, scale: float = 1.0) -> str | None:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {tuple(a.shape)} for {b.dtype} {tuple(b.shape)}"
    tolerance = scale * TOLERANCE.get(a.dtype, 0.0)
    if a.numel() == 0 or cr.allclose(a.double(), b.double(), tolerance, tolerance, equal_nan=True):
        return None
    return f"{a.tolist()} for {b.tolist()}"


def patterns(f: Function, r: random.Random) -> Iterator[list[int | None]]:
    """All inputs mapped, at each axis of the first; and each alone."""
    n = len(f.xs)
    for axis in range(len(f.xs[0].shape) + 1):
        yield [axis if i == 0 else r.randrange(len(x.shape) + 1) for i, x in enumerate(f.xs)]
    for i in range(n if n > 1 else 0):
        yield [r.randrange(len(f.xs[i].shape) + 1) if k == i else None for k in range(n)]


def against_loop(f: Function, dims: list[int | None]) -> str | None:
    """How vmap differs from a loop."""
    every = [f.samples(k) for k in range(SAMPLES)]
    every = [[every[0][i] if d is None else x for i, (x, d) in enumerate(zip(s, dims, strict=True))] for s in every]
    loop, refused = [], None
    stacked = [every[0][i].clone() if d is None else cr.stack([s[i] for s in every], d) for i, d in enumerate(dims)]
    for s in every:
        try:
            loop.append(
                f.flat(*[x.clone() if d is not None or in_place(f.name) else x for x, d in zip(s, dims, strict=True)])
            )
        except Exception as e:
            refused = e
    try:
        found = func.vmap(f.flat, in_dims=tuple(dims))(*stacked)
    except Exception as e:
        return None if refused or allowed(f, e) else f"{type(e).__name__}: {e}"
    if refused and "without a copy" in str(refused):  # the tensor for all samples is a clone here
        return None
    if refused:
        return f"a loop raises {type(refused).__name__}: {refused}"
    if len(found) != len(loop[0]):
        return f"{len(found)} results for {len(loop[0])}"
    for k, y in enumerate(found):
        if wrong := differ(y, cr.stack([row[k] for row in loop])):
            return f"result {k}: {wrong}"
    return None


def smooth(f: Function, ys: tuple[cr.Tensor, ...], at: list[cr.Tensor]) -> bool:
    return bool(at) and any(y.dtype == cr.float64 and y.requires_grad for y in ys)


def dot(a: Any, b: Any) -> float:
    return sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))


def against_reverse(f: Function) -> str | None:
    """How forward mode differs from reverse mode, which other tests check; of float64, at numbers without ties."""
    at = f.samples(0)
    which = [i for i, x in enumerate(at) if x.dtype == cr.float64]
    if not which or len(which) < sum(x.is_floating_point() for x in at):
        return None

    def of(*chosen: cr.Tensor) -> tuple[cr.Tensor, ...]:
        full = list(at)
        for i, x in zip(which, chosen, strict=True):
            full[i] = x.clone() if in_place(f.name) else x
        return f.flat(*full)

    leaves = [at[i].clone().requires_grad_() for i in which]
    try:
        ys = of(*leaves)
    except Exception:
        return None
    if not any(y.requires_grad for y in ys):
        return None
    chosen = [at[i] for i in which]
    tangents = [cr.randn(*x.shape, dtype=cr.float64) for x in chosen]
    try:
        values, pushed = func.jvp(of, tuple(chosen), tuple(tangents))
    except Exception as e:
        if allowed(f, e):
            return None
        return f"jvp: {type(e).__name__}: {e}"
    used = [k for k, y in enumerate(ys) if y.requires_grad]
    for y, v in zip(ys, values, strict=True):
        if wrong := differ(v, y.detach()):
            return f"jvp: value {wrong}"
    cotangents = [cr.randn(*ys[k].shape, dtype=ys[k].dtype) for k in used]
    grads = cr.autograd.grad([ys[k] for k in used], leaves, cotangents, materialize_grads=True)
    forward, reverse = dot([pushed[k] for k in used], cotangents), dot(tangents, grads)
    rough = 1e-7 if all(ys[k].dtype == cr.float64 for k in used) else 1e-5
    if not abs(forward - reverse) <= rough * (1 + abs(reverse)) and forward == forward and reverse == reverse:
        return f"jvp: {forward} for {reverse}"
    for k, t in enumerate(pushed):
        if k not in used and float(t.double().abs().sum()):
            return f"jvp: result {k} is constant and has a tangent"
    return None if f.name in VALUES else through_vmap(of, chosen, ys, used)


def through_vmap(of: Any, chosen: list[cr.Tensor], ys: tuple[cr.Tensor, ...], used: list[int]) -> str | None:
    """Gradients of mapped functions, mapped gradients, and forward mode through both, against a loop."""
    more = [cr.stack([x, x + 0.01 * cr.rand(*x.shape, dtype=x.dtype)]) for x in chosen]
    cotangents = [cr.randn(2, *ys[k].shape, dtype=ys[k].dtype) for k in used]

    def back(v: Any, *xs: cr.Tensor) -> Any:
        return func.vjp(lambda *given: tuple(of(*given)[k] for k in used), *xs)[1](tuple(v))

    loop = [back([v[i] for v in cotangents], *[x[i].clone() for x in more]) for i in range(2)]
    mapped = func.vmap(lambda *xs: tuple(of(*xs)[k] for k in used))
    ways: list[tuple[str, Any]] = [
        ("vmap of vjp", lambda: func.vmap(back)(cotangents, *more)),
        ("vjp of vmap", lambda: func.vjp(mapped, *more)[1](tuple(cotangents))),
    ]
    for what, found in ways:
        try:
            grads = found()
        except Exception as e:
            return f"{what}: {type(e).__name__}: {e}"
        for i, g in enumerate(grads):
            if wrong := differ(g, cr.stack([row[i] for row in loop]), 100):
                return f"{what}: input {i}: {wrong}"
    return None


def checked(name: str, f: Any, calls: list[Call]) -> list[str]:
    found = []
    r = random.Random(name)
    calls = [c for c in calls if places(c)]
    if len(calls) > PART:
        calls = calls[:2] + r.sample(calls[2:], PART - 2)
    for call in calls:
        of = Function(f, call, name)
        cr.manual_seed(1)
        for dims in patterns(of, r):
            if in_place(name) and dims[0] is None:
                continue
            if wrong := against_loop(of, dims):
                found.append(f"{name}{call} in_dims={dims}: {wrong}"[:600])
                break
        if wrong := against_reverse(of):
            found.append(f"{name}{call}: {wrong}"[:600])
    return found


def calls_of(name: str) -> list[Call]:
    rows = table.ROWS.get(name) or table.ROWS.get(name.removeprefix("Tensor.")) or table.ROWS.get(
        name.removeprefix("Tensor.").removesuffix("_"))  # fmt: skip
    return list(rows()) if rows else []


CONSTANT = {"grad_fn", "requires_grad", "requires_grad_", "share_memory_", "retain_grad", "register_hook", "backward"}
ONCE = {label(form): form for form in FORMS if not form[1] or in_place(form[0]) or not hasattr(cr, form[0])}
NAMES = [n for n, form in ONCE.items() if form[0] not in RANDOM | CONSTANT and calls_of(n)]


@pytest.mark.parametrize("name", NAMES)
def test_function(name: str) -> None:
    form = ONCE[name]
    found = checked(form[0], getattr(cr.Tensor if form[1] else cr, form[0]), calls_of(name))
    assert not found, f"{len(found)} calls differ:\n" + "\n".join(found)


@pytest.mark.parametrize("name", [n for n in NN_ROWS if "dropout" not in n and n not in ("rrelu", "gumbel_softmax")])
def test_nn_function(name: str) -> None:
    found = checked(name, getattr(nn_functional, name), NN_ROWS[name])
    assert not found, f"{len(found)} calls differ:\n" + "\n".join(found)
