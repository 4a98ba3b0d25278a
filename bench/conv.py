"""Convolutions beside PyTorch and JAX, from Python: milliseconds, the least of rounds in turn.
use: conv.py [--quick] [--threads 2] [--cpu] [--only part-of-a-name]        prints JSON

Forward, and forward with both gradients.  --cpu: processor time instead of elapsed time, for one thread on a busy
machine."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Callable
from typing import Any

from turns import Runs, Turns, arguments, prepared

# name: shapes of x and w, stride, padding, groups
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = {
    "3x3, 64 -> 64, 56x56": ((8, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    "1x1, 256 -> 256, 14x14": ((8, 256, 14, 14), (256, 256, 1, 1), 1, 0, 1),
    "5x5, 1 -> 32, 28x28": ((32, 1, 28, 28), (32, 1, 5, 5), 1, 2, 1),
    "3x3 depthwise, 128, 56x56": ((8, 128, 56, 56), (128, 1, 3, 3), 1, 1, 128),
    "7x7 stride 2, 3 -> 64, 224x224": ((4, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
}
LIBRARIES = ("chainrule", "torch", "jax")


def of_jax(name: str) -> Runs:
    import jax
    import numpy as np

    xs, ws, stride, pad, groups = CASES[name]
    g = np.random.default_rng(1)
    x, w = (jax.numpy.asarray(g.standard_normal(s, dtype=np.float32)) for s in (xs, ws))

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (stride,) * 2, [(pad, pad)] * 2, feature_group_count=groups)

    forward, value = jax.jit(conv), jax.jit(lambda x, w, g: (lambda y, back: (y, back(g)))(*jax.vjp(conv, x, w)))
    cotangent = jax.numpy.ones(forward(x, w).shape, jax.numpy.float32)
    return {
        "forward": lambda: forward(x, w).block_until_ready(),
        "both": lambda: jax.block_until_ready(value(x, w, cotangent)),
    }


def of_torch(lib: Any, name: str) -> Runs:
    """chainrule and PyTorch."""
    xs, ws, stride, pad, groups = CASES[name]
    conv = lib.nn.functional.conv2d
    x, w = lib.randn(*xs), lib.randn(*ws)
    leaf_x, leaf_w = x.clone().requires_grad_(), w.clone().requires_grad_()
    cotangent = lib.randn(*conv(x, w, None, stride, pad, 1, groups).shape)

    def both() -> None:
        leaf_x.grad = leaf_w.grad = None
        conv(leaf_x, leaf_w, None, stride, pad, 1, groups).backward(cotangent)

    return {"forward": lambda: conv(x, w, None, stride, pad, 1, groups), "both": both}


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    lib = prepared(library, threads)
    return f"{library} {lib.__version__}", of_jax if library == "jax" else lambda name: of_torch(lib, name)


def multiplications(name: str) -> int:
    xs, ws, stride, pad, _ = CASES[name]
    out = math.prod((n + 2 * pad - k) // stride + 1 for n, k in zip(xs[2:], ws[2:], strict=True))
    return xs[0] * out * math.prod(ws)


def main() -> None:
    o = arguments().parse_args()
    turns = Turns(open_library, [lib for lib in LIBRARIES if importlib.util.find_spec(lib)], o)
    rows = []
    for name in (c for c in CASES if o.only in c):
        for what, passes in (("forward", 1), ("both", 3)):
            ms = turns.least(name, what, 0.4)
            rows.append({"name": name, "what": what, "flops": 2 * passes * multiplications(name), "ms": ms})
    turns.end()
    json.dump({"versions": turns.versions, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
