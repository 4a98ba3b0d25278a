"""LSTM and GRU, 2 layers of 256, 64 time steps, batch 32: forward, and a training step without an optimizer, in
chainrule, PyTorch and JAX (lax.scan) where installed: milliseconds, the least of rounds in turn.
use: rnn.py [--quick] [--threads 2] [--cpu] [--only part-of-a-name]        prints JSON

--cpu: processor time instead of elapsed time; with --threads 1 other processes hardly change it"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

from turns import Runs, Turns, arguments, prepared

LAYERS, WIDTH, STEPS, BATCH = 2, 256, 64, 32
GATES = {"LSTM": 4, "GRU": 3}
LIBRARIES = ("chainrule", "torch", "jax")


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


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    lib = prepared(library, threads)
    return f"{library} {lib.__version__}", lambda kind: scanned(lib, kind) if library == "jax" else eager(lib, kind)


def main() -> None:
    o = arguments().parse_args()
    turns = Turns(open_library, [lib for lib in LIBRARIES if importlib.util.find_spec(lib)], o)
    rows = [
        {"name": kind, "what": what, "flops": flops(kind, what == "step"), "ms": turns.least(kind, what, 0.5)}
        for kind in GATES
        if o.only in kind
        for what in ("forward", "step")
    ]
    turns.end()
    json.dump({"versions": turns.versions, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
