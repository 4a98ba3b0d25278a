"""Pooling, resampling and normalization beside PyTorch and JAX, from Python: milliseconds, the least of rounds in turn.
use: pool.py [--quick] [--threads 2] [--cpu] [--only part-of-a-call]        prints JSON

Forward, and forward with all gradients.  JAX (compiled) takes part in the calls of OF_JAX, which have a plain
equivalent there."""

from __future__ import annotations

import importlib.util
import json
import math
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


# ---- the same in JAX: functions of x, w and b; channels are axis 1


def jax_pool(how: str, kernel: int, stride: int, pad: int = 0) -> Any:
    """Windows of the last two axes, or of the last one of three."""

    def pool(x: Any, w: Any, b: Any) -> Any:
        import jax

        n = x.ndim - 2
        window, steps, pads = (1, 1) + (kernel,) * n, (1, 1) + (stride,) * n, ((0, 0),) * 2 + ((pad, pad),) * n
        if how == "max":
            return jax.lax.reduce_window(x, -math.inf, jax.lax.max, window, steps, pads)
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, steps, pads) / kernel**n

    return pool


def jax_resize(method: str) -> Any:
    def resize(x: Any, w: Any, b: Any) -> Any:
        import jax

        return jax.image.resize(x, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), method)

    return resize


def jax_norm(groups: int, axes: tuple[int, ...], affine: bool = True) -> Any:
    """x as (batch, groups, channels of a group, ...), normalized over these axes; groups 0: as it is."""

    def norm(x: Any, w: Any, b: Any) -> Any:
        rows = x.reshape(x.shape[0], groups, -1, *x.shape[2:]) if groups else x
        d = rows - rows.mean(axes, keepdims=True)
        y = (d / ((d * d).mean(axes, keepdims=True) + 1e-5) ** 0.5).reshape(x.shape)
        column = (1, -1, *(1,) * (x.ndim - 2))
        return y * w.reshape(column) + b.reshape(column) if affine else y

    return norm


def jax_eval_norm(x: Any, w: Any, b: Any) -> Any:
    column = (1, -1, 1, 1)
    return x * (w / (1 + 1e-5) ** 0.5).reshape(column) + b.reshape(column)  # mean 0 and variance 1, as r and v


OF_JAX: dict[str, Any] = {
    "max_pool2d(x, 2)": jax_pool("max", 2, 2),
    "max_pool2d(x, 3, 2, 1)": jax_pool("max", 3, 2, 1),
    "avg_pool2d(x, 2)": jax_pool("mean", 2, 2),
    "avg_pool2d(x, 3, 2, 1)": jax_pool("mean", 3, 2, 1),
    "adaptive_avg_pool2d(x, 1)": jax_pool("mean", 56, 56),
    "adaptive_avg_pool2d(x, 7)": jax_pool("mean", 8, 8),
    "adaptive_max_pool2d(x, 7)": jax_pool("max", 8, 8),
    "max_pool1d(t, 2)": jax_pool("max", 2, 2),
    "interpolate(x, scale_factor=2)": jax_resize("nearest"),
    "interpolate(x, scale_factor=2, mode='bilinear')": jax_resize("linear"),
    "batch_norm(x, r, v, w, b, True)": jax_norm(0, (0, 2, 3)),
    "batch_norm(x, r, v, w, b)": jax_eval_norm,
    "batch_norm(s, r, v, w, b, True)": jax_norm(0, (0, 2, 3)),
    "group_norm(x, 8, w, b)": jax_norm(8, (2, 3, 4)),
    "group_norm(s, 32, w, b)": jax_norm(32, (2, 3, 4)),
    "instance_norm(x)": jax_norm(0, (2, 3), False),
    "instance_norm(x, None, None, w, b)": jax_norm(0, (2, 3)),
    "layer_norm(t, (512,))": jax_norm(0, (2,), False),
}


def runs_of_jax(call: str) -> Runs:
    import jax
    import numpy as np

    function, draw = OF_JAX[call], np.random.default_rng(1)
    shape = SHAPES[call[call.index("(") + 1]]
    x = jax.numpy.asarray(draw.standard_normal(shape, dtype=np.float32))
    w, b = (jax.numpy.asarray(draw.random(shape[1], dtype=np.float32) + 0.5) for _ in range(2))
    forward = jax.jit(function)
    both = jax.jit(lambda x, w, b, g: (lambda y, back: (y, back(g)))(*jax.vjp(function, x, w, b)))
    cotangent = jax.numpy.asarray(draw.standard_normal(forward(x, w, b).shape, dtype=np.float32))
    return {
        "forward": lambda: forward(x, w, b).block_until_ready(),
        "both": lambda: jax.block_until_ready(both(x, w, b, cotangent)),
    }


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    lib = prepared(library, threads)
    return f"{library} {lib.__version__}", runs_of_jax if library == "jax" else lambda call: runs(lib, call)


def main() -> None:
    o = arguments().parse_args()
    turns = Turns(open_library, [lib for lib in ("chainrule", "torch", "jax") if importlib.util.find_spec(lib)], o)
    rows = [
        {"name": call, "what": what, "ms": turns.least(call, what, 0.1, without=() if call in OF_JAX else ("jax",))}
        for call in CALLS
        if o.only in call
        for what in ("forward", "both")
    ]
    turns.end()
    json.dump({"versions": turns.versions, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
