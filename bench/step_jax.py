#!/usr/bin/env python3
"""Training steps in JAX (one jitted function, donated buffers, gradients clipped at 1): the peer of
`chainrule bench --only char|char6|gpt2`.

use: python bench/step_jax.py char|char6|gpt2 [--quick] [--threads 2]        prints JSON with the same row names
"""

import argparse
import json
import math
import os

parser = argparse.ArgumentParser()
parser.add_argument("case")
parser.add_argument("--quick", action="store_true")
parser.add_argument("--threads", type=int, default=2)
o = parser.parse_args()
os.environ["XLA_FLAGS"] = (
    f"--xla_cpu_multi_thread_eigen={'true' if o.threads > 1 else 'false'} intra_op_parallelism_threads={o.threads}"
)
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from cases import CASES, Case, measure  # noqa: E402

Tree = dict[str, jax.Array]


def initial(case: Case, key: jax.Array) -> Tree:
    C, p = case.width, {}
    shapes = {"wte": (case.vocabulary, C), "wpe": (case.context, C), "ln_f.w": (C,), "ln_f.b": (C,)}
    for i in range(case.layers):
        for name, rows, columns in (("attn", 3 * C, C), ("proj", C, C), ("fc", 4 * C, C), ("mlp", C, 4 * C)):
            shapes |= {f"{i}.{name}.w": (rows, columns), f"{i}.{name}.b": (rows,)}
        shapes |= {f"{i}.{name}": (C,) for name in ("ln_1.w", "ln_1.b", "ln_2.w", "ln_2.b")}
    for k, (name, shape) in zip(jax.random.split(key, len(shapes)), shapes.items(), strict=True):
        p[name] = (
            0.02 * jax.random.normal(k, shape)
            if len(shape) == 2
            else jnp.ones(shape)
            if "ln" in name and name.endswith("w")
            else jnp.zeros(shape)
        )
    return p


def norm(p: Tree, name: str, x: jax.Array) -> jax.Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p[f"{name}.w"] + p[f"{name}.b"]


def linear(p: Tree, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.w"].T + p[f"{name}.b"]


def loss_of(p: Tree, case: Case, x: jax.Array, y: jax.Array) -> jax.Array:
    B, T = x.shape
    H, D = case.heads, case.width // case.heads
    h = p["wte"][x] + p["wpe"][:T]
    mask = jnp.tril(jnp.ones((T, T), bool))
    for i in range(case.layers):
        q, k, v = jnp.moveaxis(linear(p, f"{i}.attn", norm(p, f"{i}.ln_1", h)).reshape(B, T, 3, H, D), 2, 0)
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(D)
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1)
        h = h + linear(p, f"{i}.proj", jnp.einsum("bhts,bshd->bthd", weights, v).reshape(B, T, H * D))
        h = h + linear(p, f"{i}.mlp", jax.nn.gelu(linear(p, f"{i}.fc", norm(p, f"{i}.ln_2", h))))
    logits = norm(p, "ln_f", h) @ p["wte"].T
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[..., None], -1)[..., 0]).mean()


def main() -> None:
    case = CASES[o.case]
    p = initial(case, jax.random.key(1))
    m, v = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    x, y = jax.random.randint(jax.random.key(2), (2, case.batch, case.time), 0, case.vocabulary)

    def update(p: Tree, m: Tree, v: Tree, t: jax.Array) -> tuple[Tree, Tree, Tree, jax.Array]:
        loss, g = jax.value_and_grad(loss_of)(p, case, x, y)
        length = jnp.sqrt(sum(jnp.vdot(a, a) for a in g.values()))
        g = jax.tree.map(lambda a: a * jnp.minimum(1.0, 1.0 / (length + 1e-6)), g)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        rate = 1e-4 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p = jax.tree.map(
            lambda w, a, b: w * (1 - (1e-5 if w.ndim == 2 else 0)) - rate * a / (jnp.sqrt(b) + 1e-8), p, m, v
        )
        return p, m, v, loss

    jitted, state, t = jax.jit(update, donate_argnums=(0, 1, 2)), (p, m, v), 0.0

    def step() -> None:
        nonlocal state, t
        t += 1
        *new, loss = jitted(*state, jnp.float32(t))
        state = (new[0], new[1], new[2])
        loss.block_until_ready()
        jax.block_until_ready(state)

    print(json.dumps({"version": f"JAX {jax.__version__}", "threads": o.threads, **measure(case, o.quick, step)}))


if __name__ == "__main__":
    main()
