#!/usr/bin/env python3
"""Products, elementwise operations and attention in another library, under the row names of `chainrule bench`: the peer of its second half.

use: python bench/peers.py numpy|torch|jax [--only operations|attention] [--quick] [--threads 2]        prints JSON
Set the thread count before the library is imported: OMP_NUM_THREADS and its like are set here.
"""

import argparse
import json
import os
import statistics
import time

PRODUCTS = {"product 64 x 64 x 64": (64, 64, 64), "product 256 x 256 x 256": (256, 256, 256), "product 1024 x 1024 x 1024": (1024, 1024, 1024),
            "linear 256 x 2304 x 768": (256, 2304, 768), "linear 256 x 768 x 3072": (256, 768, 3072), "linear 256 x 50257 x 768": (256, 50257, 768)}
ELEMENTWISE = {"add": 3, "exp": 2, "tanh": 2, "gelu (tanh form)": 2, "sum": 1, "softmax, rows of 1024": 2}  # passes over memory
ATTENTION = (64, 128, 256, 512, 1024, 2048)  # T; causal, B 2, H 12, D 64


def numpy_operations():
    import numpy as np

    g = np.random.default_rng(1)
    make = lambda *shape: g.standard_normal(shape, dtype=np.float32)
    gelu = lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    ops = {"add": lambda a, b: a + b, "exp": lambda a, b: np.exp(a), "tanh": lambda a, b: np.tanh(a), "gelu (tanh form)": lambda a, b: gelu(a),
           "sum": lambda a, b: a.sum(), "softmax, rows of 1024": lambda a, b: softmax(a)}
    return f"NumPy {np.__version__}", make, lambda a, w: a @ w.T, ops


def torch_operations(threads: int):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    ops = {"add": lambda a, b: a + b, "exp": lambda a, b: a.exp(), "tanh": lambda a, b: a.tanh(),
           "gelu (tanh form)": lambda a, b: F.gelu(a, approximate="tanh"), "sum": lambda a, b: a.sum(), "softmax, rows of 1024": lambda a, b: a.softmax(-1)}
    return f"PyTorch {torch.__version__}", torch.randn, lambda a, w: a @ w.T, ops


def torch_attention(T: int):
    """Forward, and forward with the gradients of q, k, v: (B, H, T, D), in memory (B, T, H, D) as a projection leaves them."""
    import torch
    import torch.nn.functional as F

    q, k, v, g = (torch.randn(2, T, 12, 64).transpose(1, 2) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]

    def forward(a, b):
        with torch.no_grad():
            return F.scaled_dot_product_attention(*inputs, is_causal=True)

    def both(a, b):
        with torch.enable_grad():
            return torch.autograd.grad(F.scaled_dot_product_attention(*inputs, is_causal=True), inputs, g)

    return {"forward": (forward, 4), "forward+backward": (both, 14)}


def jax_operations():
    import jax
    import jax.numpy as jnp
    import numpy as np

    g = np.random.default_rng(1)
    make = lambda *shape: jnp.asarray(g.standard_normal(shape, dtype=np.float32))
    plain = {"add": lambda a, b: a + b, "exp": lambda a, b: jnp.exp(a), "tanh": lambda a, b: jnp.tanh(a), "gelu (tanh form)": lambda a, b: jax.nn.gelu(a),
             "sum": lambda a, b: a.sum(), "softmax, rows of 1024": lambda a, b: jax.nn.softmax(a, -1)}

    def wait(f):
        compiled = jax.jit(f)
        return lambda a, b: compiled(a, b).block_until_ready()

    return f"JAX {jax.__version__}", make, wait(lambda a, w: a @ w.T), {name: wait(f) for name, f in plain.items()}


def measure(f, a, b, limit: float) -> dict[str, float]:
    times, started = [], time.perf_counter()
    for run in range(-2, 400):  # two to warm up
        start = time.perf_counter()
        f(a, b)
        if run >= 0:
            times.append(time.perf_counter() - start)
        if run >= 5 and time.perf_counter() - started > limit:
            break
    return {"min_ms": min(times) * 1e3, "median_ms": statistics.median(times) * 1e3}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["numpy", "torch", "jax"])
    parser.add_argument("--only", choices=["operations", "attention"], default="operations")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(o.threads)
    version, make, product, operations = {"numpy": numpy_operations, "torch": lambda: torch_operations(o.threads), "jax": jax_operations}[o.library]()
    limit, rows = 0.1 if o.quick else 0.5, []
    for T in ATTENTION if o.only == "attention" else ():
        for name, (f, flops) in torch_attention(T).items():
            t = measure(f, None, None, limit)
            rows.append({"name": f"attention T={T} {name}", **t, "rate": flops * 2e-6 * 12 * 64 * T * (T + 1) / 2 / t["median_ms"], "unit": "GFLOP/s"})
    for name, (m, n, k) in PRODUCTS.items() if o.only == "operations" else ():
        t = measure(product, make(m, k), make(n, k), limit)
        rows.append({"name": name, **t, "rate": 2e-6 * m * n * k / t["median_ms"], "unit": "GFLOP/s"})
    for name, passes in ELEMENTWISE.items() if o.only == "operations" else ():
        t = measure(operations[name], make(4096, 1024), make(4096, 1024), limit)
        rows.append({"name": name, **t, "rate": passes * 4e-6 * 4096 * 1024 / t["median_ms"], "unit": "GB/s"})
    print(json.dumps({"version": version, "threads": o.threads, "rows": rows}))


if __name__ == "__main__":
    main()
