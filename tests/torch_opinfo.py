"""PyTorch's own samples of the functions of linear algebra (``torch.testing``'s OpInfo: linalg and the older names),
in float64 and float32, through the drop-in: results, and in float64 gradients of first and second order, beside
PyTorch's.

use: python tests/torch_opinfo.py [part-of-a-name ...]

What differs on purpose is in tests/torch_opinfo.txt, with the reason; a line there that nothing needs is a failure."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import time
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
CHOICES = Path(__file__).with_suffix(".txt")
OLDER = (
    "addbmm addmm addmv addr baddbmm bmm cholesky cholesky_inverse cholesky_solve cov dist dot einsum geqrf inner kron"
    " logdet lu_solve lu_unpack matmul matrix_exp mm mv norm ormqr outer pinverse qr renorm svd svd_lowrank pca_lowrank"
    " tensordot trace triangular_solve tril triu vdot"
).split()


def leaves(x: Any) -> Iterator[Any]:
    """Tensors of a nest, in order."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, list | tuple):
        for part in x:
            yield from leaves(part)
    elif hasattr(x, "requires_grad"):
        yield x


class Sides:
    """The two libraries, and how a sample goes from one to the other."""

    def __init__(self) -> None:
        stub: Any = types.ModuleType("expecttest")  # which PyTorch's tests derive classes from
        stub.TestCase = unittest.TestCase
        sys.modules.setdefault("expecttest", stub)
        self.theirs = importlib.import_module("torch")
        self.db = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
        self.ours = importlib.import_module("chainrule.torch")

    def moved(self, x: Any) -> Any:
        """A sample of PyTorch's as ours."""
        torch = self.theirs
        if isinstance(x, torch.Tensor):
            dtype = getattr(self.ours, str(x.dtype).removeprefix("torch."))
            return self.ours.tensor(x.detach().tolist(), dtype=dtype).reshape(x.shape).requires_grad_(x.requires_grad)
        if isinstance(x, torch.dtype):
            return getattr(self.ours, str(x).removeprefix("torch."))
        if isinstance(x, list | tuple):
            return type(x)(*map(self.moved, x)) if hasattr(x, "_fields") else type(x)(map(self.moved, x))
        return {key: self.moved(value) for key, value in x.items()} if isinstance(x, dict) else x


def same_of(ours: Any, op: Any) -> Any:
    """The function that an OpInfo calls, of our library."""
    if isinstance(op.op, types.FunctionType) and op.op.__name__ == "<lambda>":
        return types.FunctionType(op.op.__code__, {**op.op.__globals__, "torch": ours})
    for part in op.name.split("."):
        ours = getattr(ours, part)
    return ours


def derivatives(lib: Any, function: Any, sample: Any, weights: list[list[Any]]) -> list[list[Any]]:
    """Results, gradients of their weighted sum, gradients of the weighted sum of these."""
    given, args, kwargs, process = sample
    out = [y for y in leaves(process(function(given, *args, **kwargs))) if y.is_floating_point()]
    found, inputs = [out], [x for x in leaves((given, args, kwargs)) if x.requires_grad]
    for drawn in weights:
        pairs = [(y, w) for y, w in zip(found[-1], drawn, strict=True) if w is not None and y.requires_grad]
        if not pairs or not inputs:
            break
        total = sum((y * w).sum() for y, w in pairs)
        grads = lib.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
        found.append([lib.zeros_like(x) if g is None else g for g, x in zip(grads, inputs, strict=True)])
    return found


def check(sides: Sides, op: Any, function: Any, dtype: Any) -> Iterator[str]:
    """A line for each sample: empty, or what differs."""
    torch = sides.theirs
    double = dtype is torch.float64 and op.supports_autograd
    for number, s in enumerate(op.sample_inputs("cpu", dtype, requires_grad=double)):
        torch.manual_seed(number)
        process = getattr(s, "output_process_fn_grad", lambda x: x)
        weights: list[list[Any]] = []
        theirs: list[list[Any]] = []
        try:  # the weights have the shapes of what they weigh
            for order in range(1 + double + (double and op.supports_gradgrad)):
                theirs = derivatives(torch, op.op, (s.input, s.args, s.kwargs, process), weights)
                if len(theirs) <= order:
                    break
                weights.append([torch.randn_like(y) if y.requires_grad else None for y in theirs[-1]])
            weights = weights[: len(theirs) - 1]
        except (RuntimeError, NotImplementedError):
            continue  # PyTorch refuses its own sample
        what = f"sample {number}: {tuple(getattr(s.input, 'shape', ()))} {s.args} {s.kwargs}".replace("\n", " ")[:200]
        try:
            given = *(sides.moved(x) for x in (s.input, s.args, s.kwargs)), process
            ours = derivatives(sides.ours, function, given, sides.moved(weights))
        except Exception as error:
            yield f"{what}: {type(error).__name__}: {error}".replace("\n", " ")
            continue
        narrow = any(x.dtype is torch.float32 for x in leaves((s.input, s.args, s.kwargs)))
        yield next((f"{what}: {text}" for text in differences(ours, theirs, 2e-3 if narrow else 1e-7)), "")


def differences(ours: list[list[Any]], theirs: list[list[Any]], near: float) -> Iterator[str]:
    import numpy as np

    for order, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if len(mine) != len(other):
            yield f"order {order}: {len(mine)} tensors, not {len(other)}"
            continue
        for a, b in zip(mine, other, strict=True):
            x, y = np.asarray(a.detach().tolist(), "f8"), b.detach().double().numpy(force=True)
            if tuple(a.shape) != tuple(b.shape) or str(a.dtype).split(".")[-1] != str(b.dtype).split(".")[-1]:
                yield f"order {order}: {a.dtype} {tuple(a.shape)}, not {b.dtype} {tuple(b.shape)}"
            elif y.size:
                scale = max(1.0, float(np.abs(np.nan_to_num(y)).max()))
                if not np.allclose(x.reshape(y.shape), y, near, near * scale, equal_nan=True):
                    yield f"order {order}: differs by {float(np.nanmax(np.abs(x.reshape(y.shape) - y))):.3g}"
    if len(ours) < len(theirs) and any(y.numel() for y in ours[-1]):
        yield f"no derivatives of order {len(ours)}"


def choices() -> dict[str, str]:
    """Pattern of "name dtype: difference" -> reason."""
    lines = CHOICES.read_text().splitlines() if CHOICES.is_file() else []
    return dict(line.split("  # ") for line in lines if line.strip() and not line.startswith("#"))


def main() -> int:
    if not importlib.util.find_spec("torch"):
        print("torch is not installed")
        return 77
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(BUILD / "python"))
    sides, start, known = Sides(), time.monotonic(), choices()
    counts: Counter[str] = Counter()
    used: set[str] = set()
    for op in sides.db:
        full = f"{op.name}{'.' * bool(op.variant_test_name)}{op.variant_test_name}"
        wanted = op.name.startswith("linalg.") or op.name in OLDER
        if not wanted or not any(part in full for part in sys.argv[1:] or [""]):
            continue
        for dtype in (sides.theirs.float64, sides.theirs.float32):
            if not op.supports_dtype(dtype, "cpu"):
                continue
            try:
                found = list(check(sides, op, same_of(sides.ours, op), dtype))
            except AttributeError as error:
                found = [str(error)]
            for text in filter(None, found):
                line = f"{full} {str(dtype).removeprefix('torch.')}: {text}"
                chosen = [pattern for pattern in known if re.search(pattern, line)]
                used.update(chosen)
                counts["chosen" if chosen else "failed"] += 1
                if not chosen:
                    print(f"failed {line}")
            counts["passed"] += found.count("")
    if not sys.argv[1:]:
        for pattern in known.keys() - used:
            print(f"failed {CHOICES.name}: nothing needs the line {pattern}")
            counts["failed"] += 1
    seconds = time.monotonic() - start
    print(f"report {counts['passed']} samples, {counts['chosen']} that differ on purpose, {seconds:.0f} s")
    print(f"result: {counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
