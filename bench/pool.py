"""Pooling, resampling and normalization beside PyTorch, from Python: milliseconds, the least of rounds in turn.
use: pool.py [--quick] [--threads 2] [--cpu] [--only part-of-a-call]        prints JSON

Forward, and forward with all gradients."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

from turns import Runs, Turns, arguments, prepared

# x (16, 64, 56, 56), s (32, 512, 4, 4), t (32, 256, 512); w and b of their channels, r and v without gradients
CALLS = (
    "max_pool2d(x, 2)",
    "max_pool2d(x, 3, 2, 1)",
    "max_pool2d(x, 3, 2, 1, return_indices=True)",
    "avg_pool2d(x, 2)",
    "avg_pool2d(x, 3, 2, 1)",
    "adaptive_avg_pool2d(x, 1)",
    "adaptive_avg_pool2d(x, 7)",
    "adaptive_max_pool2d(x, 7)",
    "max_pool1d(t, 2)",
    "interpolate(x, scale_factor=2)",
    "interpolate(x, scale_factor=2, mode='bilinear')",
    "interpolate(x, size=(28, 28), mode='bilinear', align_corners=True)",
    "interpolate(x, scale_factor=2, mode='bicubic')",
    "batch_norm(x, r, v, w, b, True)",
    "batch_norm(x, r, v, w, b)",
    "batch_norm(s, r, v, w, b, True)",
    "group_norm(x, 8, w, b)",
    "group_norm(s, 32, w, b)",
    "instance_norm(x)",
    "instance_norm(x, None, None, w, b)",
    "layer_norm(t, (512,))",
)
SHAPES = {"x": (16, 64, 56, 56), "s": (32, 512, 4, 4), "t": (32, 256, 512)}


def runs(lib: Any, call: str) -> Runs:
    """The call as it stands, where it is 'both' with a cotangent of the result for all that has a gradient."""
    letter = call[call.index("(") + 1]
    lib.manual_seed(1)
    x = lib.randn(*SHAPES[letter])
    channels = x.shape[1]
    names = {letter: x, "w": lib.rand(channels) + 0.5, "b": lib.randn(channels)}
    still = {"r": lib.zeros(channels), "v": lib.ones(channels)}
    leaves = {name: t.clone().requires_grad_() for name, t in names.items()}
    code = compile(call, call, "eval")
    functional = vars(lib.nn.functional)
    first = lambda y: y[0] if isinstance(y, tuple) else y
    cotangent = lib.randn(*first(eval(code, {**functional, **names, **still})).shape)
    plain, recorded = {**functional, **names, **still}, {**functional, **leaves, **still}

    def both() -> None:
        for leaf in leaves.values():
            leaf.grad = None
        first(eval(code, recorded)).backward(cotangent)

    return {"forward": lambda: eval(code, plain), "both": both}


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    lib = prepared(library, threads)
    return f"{library} {lib.__version__}", lambda call: runs(lib, call)


def main() -> None:
    o = arguments().parse_args()
    turns = Turns(open_library, ["chainrule"] + ["torch"] * bool(importlib.util.find_spec("torch")), o)
    rows = [
        {"name": call, "what": what, "ms": turns.least(call, what, 0.1)}
        for call in CALLS
        if o.only in call
        for what in ("forward", "both")
    ]
    turns.end()
    json.dump({"versions": turns.versions, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
