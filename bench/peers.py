#!/usr/bin/env python3
"""Products, elementwise operations and attention in another library, under the row names of
`chainrule bench`: the peer of its second half. chainrule: our own library through Python.

use: python bench/peers.py numpy|torch|jax|chainrule [--quick] [--only
products|elementwise|attention] [--threads 2]        prints JSON Set the thread count before the
library is imported: OMP_NUM_THREADS and its like are set here."""

import argparse
import json
import os
import statistics
import time

PRODUCTS = {
    "product 64 x 64 x 64": (64, 64, 64),
    "product 256 x 256 x 256": (256, 256, 256),
    "product 1024 x 1024 x 1024": (1024, 1024, 1024),
    "linear 256 x 2304 x 768": (256, 2304, 768),
    "linear 256 x 768 x 3072": (256, 768, 3072),
    "linear 256 x 50257 x 768": (256, 50257, 768),
}
ATTENTION = (64, 128, 256, 512, 1024, 2048)  # T; causal, B 2, H 12, D 64
# rows, columns, passes over memory
ELEMENTWISE = {
    "add": (4096, 1024, 3),
    "exp": (4096, 1024, 2),
    "tanh": (4096, 1024, 2),
    "gelu": (4096, 1024, 2),
    "gelu (tanh form)": (4096, 1024, 2),
    "relu": (4096, 1024, 2),
    "sum": (4096, 1024, 1),
    "row sums": (2048, 2048, 1),
    "column sums": (2048, 2048, 1),
    "transpose": (2048, 2048, 2),
    "softmax": (256, 50257, 2),
    "cross-entropy": (256, 50257, 1),
    "cross-entropy, gradient": (256, 50257, 3),
    "layer norm": (4096, 1024, 2),
    "layer norm, gradients": (4096, 1024, 5),
}


class Operands:
    """As in chainrule bench: a (m, k), b (n, k), row and offset (k), target (m) of integers below k."""

    def __init__(self, m, k, n, array):
        import numpy as np

        g = np.random.default_rng(1)
        make = lambda *shape: array(g.standard_normal(shape, dtype=np.float32))
        self.a, self.b, self.row, self.offset = (
            make(m, k),
            make(n, k),
            array(np.ones(k, np.float32)),
            array(np.zeros(k, np.float32)),
        )
        self.target = array(g.integers(0, k, m))


def numpy_operations():
    """What a NumPy user writes; erf and gradients it has not."""
    import numpy as np

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def cross_entropy(x, target):
        top = x.max(-1)
        return np.mean(np.log(np.exp(x - top[:, None]).sum(-1)) + top - x[np.arange(len(x)), target])

    def layer_norm(x, w, b):
        h = x - x.mean(-1, keepdims=True)
        return h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-5) * w + b

    ops = {
        "add": lambda o: o.a + o.b,
        "exp": lambda o: np.exp(o.a),
        "tanh": lambda o: np.tanh(o.a),
        "gelu (tanh form)": lambda o: 0.5 * o.a * (1 + np.tanh(0.7978845608 * (o.a + 0.044715 * o.a * o.a * o.a))),
        "relu": lambda o: np.maximum(o.a, 0),
        "sum": lambda o: o.a.sum(),
        "row sums": lambda o: o.a.sum(1),
        "column sums": lambda o: o.a.sum(0),
        "transpose": lambda o: o.a.T.copy(),
        "softmax": lambda o: softmax(o.a),
        "cross-entropy": lambda o: cross_entropy(o.a, o.target),
        "layer norm": lambda o: layer_norm(o.a, o.row, o.offset),
    }
    return f"NumPy {np.__version__}", lambda x: x, lambda o: o.a @ o.b.T, ops


def chainrule_operations(threads: int):
    """The cases of `chainrule bench` that Python has a name for: what a call from Python adds."""
    import chainrule as cr

    cr.set_num_threads(threads)
    ops = {
        "add": lambda o: o.a + o.b,
        "exp": lambda o: o.a.exp(),
        "tanh": lambda o: o.a.tanh(),
        "gelu": lambda o: cr.gelu(o.a),
        "gelu (tanh form)": lambda o: cr.gelu(o.a, approximate="tanh"),
        "relu": lambda o: o.a.relu(),
        "sum": lambda o: o.a.sum(),
        "row sums": lambda o: o.a.sum(1),
        "column sums": lambda o: o.a.sum(0),
        "transpose": lambda o: o.a.T.contiguous(),
        "softmax": lambda o: o.a.softmax(-1),
    }
    return f"chainrule {cr.__version__}", cr.tensor, lambda o: o.a @ o.b.T, ops


def torch_operations(threads: int):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)

    def gradients(f, o, names, cotangent=None):
        with torch.enable_grad():
            inputs = [getattr(o, name).requires_grad_() for name in names]
            return torch.autograd.grad(f(o), inputs, cotangent)

    entropy = lambda o: F.cross_entropy(o.a, o.target)
    norm = lambda o: F.layer_norm(o.a, o.row.shape, o.row, o.offset)
    ops = {
        "add": lambda o: o.a + o.b,
        "exp": lambda o: o.a.exp(),
        "tanh": lambda o: o.a.tanh(),
        "gelu": lambda o: F.gelu(o.a),
        "gelu (tanh form)": lambda o: F.gelu(o.a, approximate="tanh"),
        "relu": lambda o: o.a.relu(),
        "sum": lambda o: o.a.sum(),
        "row sums": lambda o: o.a.sum(1),
        "column sums": lambda o: o.a.sum(0),
        "transpose": lambda o: o.a.T.contiguous(),
        "softmax": lambda o: o.a.softmax(-1),
        "cross-entropy": entropy,
        "cross-entropy, gradient": lambda o: gradients(entropy, o, ["a"]),
        "layer norm": norm,
        "layer norm, gradients": lambda o: gradients(norm, o, ["a", "row", "offset"], o.b),
    }
    return (
        f"PyTorch {torch.__version__}",
        torch.from_numpy,
        lambda o: o.a @ o.b.T,
        {name: torch.no_grad()(f) for name, f in ops.items()},
    )


def torch_attention(T: int):
    """Forward, and forward with the gradients of q, k, v: (B, H, T, D), in memory (B, T, H, D) as a
    projection leaves them."""
    import torch
    import torch.nn.functional as F

    q, k, v, g = (torch.randn(2, T, 12, 64).transpose(1, 2) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]

    def forward(o):
        with torch.no_grad():
            return F.scaled_dot_product_attention(*inputs, is_causal=True)

    def both(o):
        with torch.enable_grad():
            return torch.autograd.grad(F.scaled_dot_product_attention(*inputs, is_causal=True), inputs, g)

    return {"forward": (forward, 4), "forward+backward": (both, 14)}


def jax_operations():
    import jax
    import jax.numpy as jnp

    def entropy(a, target):
        return -jnp.take_along_axis(jax.nn.log_softmax(a, -1), target[:, None], -1).mean()

    def norm(a, row, offset):
        h = a - a.mean(-1, keepdims=True)
        return h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-5) * row + offset

    def norm_gradients(a, b, row, offset):
        return jax.vjp(norm, a, row, offset)[1](b)

    def on(names, f):
        """Compiled over the operands that it uses; awaited, its results given up."""
        compiled, fields = jax.jit(f), names.split()
        return lambda o: jax.block_until_ready(compiled(*(getattr(o, name) for name in fields)))

    ops = {
        "add": on("a b", lambda a, b: a + b),
        "exp": on("a", jnp.exp),
        "tanh": on("a", jnp.tanh),
        "gelu": on("a", lambda a: jax.nn.gelu(a, approximate=False)),
        "gelu (tanh form)": on("a", jax.nn.gelu),
        "relu": on("a", lambda a: jnp.maximum(a, 0)),
        "sum": on("a", jnp.sum),
        "row sums": on("a", lambda a: a.sum(1)),
        "column sums": on("a", lambda a: a.sum(0)),
        "transpose": on("a", lambda a: a.T.copy()),
        "softmax": on("a", lambda a: jax.nn.softmax(a, -1)),
        "cross-entropy": on("a target", entropy),
        "cross-entropy, gradient": on("a target", jax.value_and_grad(entropy)),
        "layer norm": on("a row offset", norm),
        "layer norm, gradients": on("a b row offset", norm_gradients),
    }
    return f"JAX {jax.__version__}", jnp.asarray, on("a b", lambda a, b: a @ b.T), ops


def measure(f, o, limit: float) -> dict[str, float]:
    times, started = [], time.perf_counter()
    for run in range(-2, 400):  # two to warm up
        start = time.perf_counter()
        f(o)
        if run >= 0:
            times.append(time.perf_counter() - start)
        if run >= 5 and time.perf_counter() - started > limit:
            break
    return {"min_ms": min(times) * 1e3, "median_ms": statistics.median(times) * 1e3}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["numpy", "torch", "jax", "chainrule"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only", choices=["products", "elementwise", "attention"], help="default: products and elementwise"
    )
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(o.threads)
    library = {
        "numpy": numpy_operations,
        "torch": lambda: torch_operations(o.threads),
        "jax": jax_operations,
        "chainrule": lambda: chainrule_operations(o.threads),
    }[o.library]
    version, array, product, operations = library()
    limit, rows = 0.1 if o.quick else 0.5, []
    for T in ATTENTION if o.only == "attention" else ():
        for name, (f, flops) in torch_attention(T).items():
            t = measure(f, None, limit)
            rows.append(
                {
                    "name": f"attention T={T} {name}",
                    **t,
                    "rate": flops * 2e-6 * 12 * 64 * T * (T + 1) / 2 / t["median_ms"],
                    "unit": "GFLOP/s",
                }
            )
    for name, (m, n, k) in PRODUCTS.items() if o.only in (None, "products") else ():
        t = measure(product, Operands(m, k, n, array), limit)
        rows.append({"name": name, **t, "rate": 2e-6 * m * n * k / t["median_ms"], "unit": "GFLOP/s"})
    for name, (m, k, passes) in ELEMENTWISE.items() if o.only in (None, "elementwise") else ():
        if name in operations:
            t = measure(operations[name], Operands(m, k, m, array), limit)
            rows.append({"name": name, **t, "rate": passes * 4e-6 * m * k / t["median_ms"], "unit": "GB/s"})
    print(json.dumps({"version": version, "threads": o.threads, "rows": rows}))


if __name__ == "__main__":
    main()
