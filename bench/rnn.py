#!/usr/bin/env python3
"""LSTM and GRU, 2 layers of 256, 64 time steps, batch 32: forward, and a training step without an optimizer, in
chainrule, PyTorch and JAX (lax.scan) where installed.  One process; the libraries alternate, run by run.

use: python bench/rnn.py [--quick] [--threads 2] [--processor]        prints JSON: milliseconds, least of all runs
--processor: processor time in place of elapsed time; with --threads 1 other processes hardly change it"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAYERS, WIDTH, STEPS, BATCH = 2, 256, 64, 32
GATES = {"LSTM": 4, "GRU": 3}
Runs = dict[str, Callable[[], Any]]


def flops(kind: str, step: bool) -> float:
    """Of the products: two of each layer, forward; in a step three times as many, without the gradient of the input."""
    product = 2 * STEPS * BATCH * GATES[kind] * WIDTH * WIDTH
    return product * (6 * LAYERS - 1 if step else 2 * LAYERS)


def eager(lib: Any, kind: str) -> Runs:
    """The same lines in chainrule and PyTorch."""
    net, x = getattr(lib.nn, kind)(WIDTH, WIDTH, LAYERS), lib.randn(STEPS, BATCH, WIDTH)

    def forward() -> None:
        with lib.no_grad():
            net(x)

    def step() -> None:
        net.zero_grad()
        net(x)[0].sum().backward()

    return {"forward": forward, "step": step}


def scanned(jax: Any, kind: str) -> Runs:
    """All inputs of a layer in one product, then lax.scan; compiled."""
    jnp, gates = jax.numpy, GATES[kind] * WIDTH
    keys = jax.random.split(jax.random.key(0), 2 * LAYERS + 1)
    draw = lambda key, *shape: jax.random.uniform(key, shape, minval=-1 / 16, maxval=1 / 16)
    weights = [
        (draw(keys[2 * k], WIDTH, gates), draw(keys[2 * k + 1], WIDTH, gates), jnp.zeros(gates), jnp.zeros(gates))
        for k in range(LAYERS)
    ]
    x = jax.random.normal(keys[-1], (STEPS, BATCH, WIDTH))

    def lstm(weight: Any, bias: Any, carry: Any, a: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(a + h @ weight + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def gru(weight: Any, bias: Any, carry: Any, a: Any) -> Any:
        (h,) = carry
        xr, xz, xn = jnp.split(a, 3, -1)
        hr, hz, hn = jnp.split(h @ weight + bias, 3, -1)
        z, n = jax.nn.sigmoid(xz + hz), jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = n + z * (h - n)
        return (h,), h

    def net(all_weights: Any, y: Any) -> Any:
        cell, states = (lstm, 2) if kind == "LSTM" else (gru, 1)
        for w_ih, w_hh, b_ih, b_hh in all_weights:
            start = (jnp.zeros((BATCH, WIDTH)),) * states
            _, y = jax.lax.scan(lambda carry, a, w=w_hh, b=b_hh: cell(w, b, carry, a), start, y @ w_ih + b_ih)
        return y

    forward, step = jax.jit(net), jax.jit(jax.grad(lambda w, y: net(w, y).sum()))
    return {
        "forward": lambda: forward(weights, x).block_until_ready(),
        "step": lambda: jax.block_until_ready(step(weights, x)),
    }


def product(lib: Any) -> Callable[[], Any]:
    """1024 x 1024 x 1024, for the share of the peak."""
    a, b = lib.randn(1024, 1024), lib.randn(1024, 1024)
    return lambda: a @ b


def least(runs: Runs, rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Milliseconds; the runs take turns, the first turn warms up."""
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            run()
            if turn:
                best[name] = min(best[name], 1e3 * (clock() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processor", action="store_true")
    o = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(o.threads))
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={o.threads}")
    if "CHAINRULE_BUILD" in os.environ:
        sys.path.insert(0, str(Path(os.environ["CHAINRULE_BUILD"]) / "python"))
    libraries = {}
    for name in ("chainrule", "torch", "jax"):
        try:
            libraries[name] = importlib.import_module(name)
        except ImportError:
            continue
    for name in ("chainrule", "torch"):
        if name in libraries:
            libraries[name].set_num_threads(o.threads)
    rows = []
    for kind in GATES:
        made = {n: scanned(lib, kind) if n == "jax" else eager(lib, kind) for n, lib in libraries.items()}
        for what in ("forward", "step"):
            runs = {n: made[n][what] for n in libraries} | {"product": product(libraries["chainrule"])}
            ms = least(runs, 5 if o.quick else 20, time.process_time if o.processor else time.perf_counter)
            share = flops(kind, what == "step") / ms["chainrule"] / (2 * 1024**3 / ms.pop("product"))
            rows.append({"name": f"{kind}, {what}", "ms": ms, "peak": share})
    print(json.dumps({"rows": rows, "versions": {n: lib.__version__ for n, lib in libraries.items()}}))


if __name__ == "__main__":
    main()
