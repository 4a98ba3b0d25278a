"""The training steps of bench/nets.py in plain JAX: the same weights, data, losses and optimizers.

A step is one call of jax.jit, which reuses the buffers of parameters, moments and statistics; its loss is computed when
it returns. Images are NHWC and the weights of convolutions HWIO: ResNet-18 takes 13 % more processor time as NCHW.
PyTorch's last backward pass of DCGAN also computes gradients of the discriminator, which nothing reads; here not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Tree = dict[str, Any]  # parameters by name, or the mean and variance of each batch norm by its name
Shapes = dict[str, tuple[int, ...]]  # of parameters: PyTorch's, in PyTorch's order
State = tuple[Any, ...]  # of an optimizer: the number of steps, and the moments
Update = Callable[[Tree, Tree, State], tuple[Tree, State]]  # parameters, gradients, state -> parameters, state
Step = Callable[[], jax.Array]


# ---- weights and data: the formulas of bench/nets.py


def nhwc(x: Any) -> jax.Array:
    return jnp.asarray(x.transpose(0, 2, 3, 1))


def affine(name: str, *shape: int) -> Shapes:
    """The weight of a layer, outputs first, and its bias."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def fill(shapes: Shapes) -> Tree:
    p = {}
    for number, (name, shape) in enumerate(shapes.items()):
        if len(shape) == 1:  # the weight of a norm, or a bias
            p[name] = jnp.full(shape, "bias" not in name, jnp.float32)
            continue
        count = np.arange(math.prod(shape), dtype=np.float64)
        uniform = ((count + 1) * 0.6180339887498949 + number * 0.7548776662466927) % 1 * 2 - 1
        w = (uniform * math.sqrt(6 / math.prod(shape[1:]))).astype(np.float32).reshape(shape)
        p[name] = jnp.asarray(w.transpose(2, 3, 1, 0) if len(shape) == 4 else w)
    return p


def spread(*shape: int) -> Any:
    count = np.arange(math.prod(shape), dtype=np.float64)
    return ((count * 0.7548776662466927 % 1 * 2 - 1) * 1.7).astype(np.float32).reshape(shape)


def labels(count: int, *shape: int) -> jax.Array:
    return jnp.asarray((np.arange(math.prod(shape)) * 7919 % count).reshape(shape))


# ---- layers


def conv(p: Tree, name: str, x: jax.Array, stride: int = 1, pad: int = 0) -> jax.Array:
    y = lax.conv_general_dilated(
        x, p[f"{name}.weight"], (stride,) * 2, [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y + p.get(f"{name}.bias", 0)


def conv_transpose(p: Tree, name: str, x: jax.Array, stride: int, pad: int = 0) -> jax.Array:
    """Weights (k, k, outputs, inputs)."""
    w = p[f"{name}.weight"]
    n, height, width, _ = x.shape
    k = len(w)
    if k == stride:  # the outputs of a pixel are its own: one product
        y = jnp.einsum("nhwi,kloi->nhkwlo", x, w).reshape(n, k * height, k * width, -1)
    else:
        y = lax.conv_transpose(x, w, (stride,) * 2, [(k - 1 - pad,) * 2] * 2, transpose_kernel=True)
    return y + p.get(f"{name}.bias", 0)


def linear(p: Tree, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def standardized(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Also the mean and the variance."""
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5), mean, var


def batch_norm(p: Tree, name: str, x: jax.Array, seen: Tree) -> jax.Array:
    """Adds the mean and the unbiased variance of the batch to seen."""
    h, mean, var = standardized(x, (0, 1, 2))
    count = x.size // mean.size
    seen[name] = mean.ravel(), var.ravel() * (count / (count - 1))
    return h * p[f"{name}.weight"] + p[f"{name}.bias"]


def group_norm(p: Tree, name: str, x: jax.Array, groups: int = 8) -> jax.Array:
    h, _, _ = standardized(x.reshape(*x.shape[:3], groups, -1), (1, 2, 4))
    return h.reshape(x.shape) * p[f"{name}.weight"] + p[f"{name}.bias"]


def max_pool(x: jax.Array) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[..., None], -1)[..., 0]).mean()


# ---- optimizers, and a step


def sgd(lr: float, momentum: float, decay: float) -> Update:
    def update(p: Tree, g: Tree, state: State) -> tuple[Tree, State]:
        t, m = state
        m = jax.tree.map(lambda w, d, m: momentum * m + d + decay * w, p, g, m)
        return jax.tree.map(lambda w, m: w - lr * m, p, m), (t + 1, m)

    return update


def adam(lr: float, b1: float = 0.9, b2: float = 0.999, decay: float = 0.0) -> Update:
    """AdamW where there is a decay."""

    def update(p: Tree, g: Tree, state: State) -> tuple[Tree, State]:
        t, m, v = state
        t = t + 1
        m = jax.tree.map(lambda m, d: b1 * m + (1 - b1) * d, m, g)
        v = jax.tree.map(lambda v, d: b2 * v + (1 - b2) * d * d, v, g)
        rate, scale = lr / (1 - b1**t), lax.rsqrt(1 - b2**t)
        new = lambda w, m, v: (1 - lr * decay) * w - rate * m / (jnp.sqrt(v) * scale + 1e-8)
        return jax.tree.map(new, p, m, v), (t, m, v)

    return update


def begin(shapes: Shapes, moments: int) -> tuple[Tree, State, Tree]:
    """Parameters, the state of their optimizer, and the running statistics of batch norms (their names have bn)."""
    p = fill(shapes)
    weights = {name.removesuffix(".weight"): w for name, w in p.items() if "bn" in name and name.endswith(".weight")}
    state = (jnp.float32(0), *(jax.tree.map(jnp.zeros_like, p) for _ in range(moments)))
    return p, state, {name: (jnp.zeros_like(w), jnp.ones_like(w)) for name, w in weights.items()}


def follow(running: Tree, *batches: Tree) -> Tree:
    """The running statistics after those of some batches."""
    for seen in batches:
        running = jax.tree.map(lambda r, s: 0.9 * r + 0.1 * s, running, seen)
    return running


def repeated(step: Callable[..., Any], carried: Any, *data: jax.Array) -> Step:
    """Calls of step(carried, *data), which returns what the next call carries, and the loss."""
    compiled = jax.jit(step, donate_argnums=0)

    def run() -> jax.Array:
        nonlocal carried
        carried, loss = jax.block_until_ready(compiled(carried, *data))
        return loss

    return run


def trained(loss_of: Callable[..., Any], update: Update, carried: Any, *data: jax.Array) -> Step:
    """loss_of(parameters, *data) returns the loss, and the statistics of its batch norms."""

    def step(carried: Any, *data: jax.Array) -> Any:
        p, state, running = carried
        (loss, seen), g = jax.value_and_grad(loss_of, has_aux=True)(p, *data)
        return (*update(p, g, state), follow(running, seen)), loss

    return repeated(step, carried, *data)


# ---- ResNet-18


def resnet() -> Step:
    shapes: Shapes = {"stem.weight": (64, 3, 3, 3)} | affine("stem.bn", 64)
    blocks, before = [], 64
    for k, c in enumerate((64, 64, 128, 128, 256, 256, 512, 512)):
        blocks.append((f"blocks.{k}", 1 if c == before else 2))
        shapes |= {f"blocks.{k}.conv1.weight": (c, before, 3, 3)} | affine(f"blocks.{k}.bn1", c)
        shapes |= {f"blocks.{k}.conv2.weight": (c, c, 3, 3)} | affine(f"blocks.{k}.bn2", c)
        if c != before:
            shapes |= {f"blocks.{k}.short.weight": (c, before, 1, 1)} | affine(f"blocks.{k}.bn3", c)
        before = c
    shapes |= affine("head", 10, 512)

    def loss_of(p: Tree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Tree]:
        seen: Tree = {}
        x = jax.nn.relu(batch_norm(p, "stem.bn", conv(p, "stem", x, 1, 1), seen))
        for name, stride in blocks:
            h = jax.nn.relu(batch_norm(p, f"{name}.bn1", conv(p, f"{name}.conv1", x, stride, 1), seen))
            h = batch_norm(p, f"{name}.bn2", conv(p, f"{name}.conv2", h, 1, 1), seen)
            if stride != 1:
                x = batch_norm(p, f"{name}.bn3", conv(p, f"{name}.short", x, stride), seen)
            x = jax.nn.relu(h + x)
        return cross_entropy(linear(p, "head", x.mean((1, 2))), y), seen

    x, y = nhwc(spread(32, 3, 32, 32)), labels(10, 32)
    return trained(loss_of, sgd(0.01, 0.9, 5e-4), begin(shapes, 1), x, y)


# ---- LeNet


def lenet() -> Step:
    shapes = affine("conv1", 6, 1, 5, 5) | affine("conv2", 16, 6, 5, 5)
    shapes |= affine("fc1", 120, 400) | affine("fc2", 84, 120) | affine("fc3", 10, 84)

    def loss_of(p: Tree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Tree]:
        h = max_pool(jax.nn.relu(conv(p, "conv1", x, 1, 2)))
        h = max_pool(jax.nn.relu(conv(p, "conv2", h)))
        h = h.transpose(0, 3, 1, 2).reshape(-1, 400)  # as PyTorch's weights of fc1 have it
        h = jax.nn.relu(linear(p, "fc2", jax.nn.relu(linear(p, "fc1", h))))
        return cross_entropy(linear(p, "fc3", h), y), {}

    return trained(loss_of, adam(1e-3), begin(shapes, 2), nhwc(spread(64, 1, 28, 28)), labels(10, 64))


# ---- DCGAN


def dcgan() -> Step:
    up: Shapes = {"0.weight": (100, 512, 4, 4)} | affine("bn0", 512)
    down: Shapes = {"0.weight": (64, 3, 4, 4)}
    for k, c in enumerate((512, 256, 128), 1):
        up |= {f"{k}.weight": (c, c // 2, 4, 4)} | affine(f"bn{k}", c // 2)
    for k, c in enumerate((64, 128, 256), 1):
        down |= {f"{k}.weight": (2 * c, c, 4, 4)} | affine(f"bn{k}", 2 * c)
    up["4.weight"], down["4.weight"] = (64, 3, 4, 4), (1, 512, 4, 4)
    update = adam(2e-4, 0.5, 0.999)

    def make(p: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
        seen: Tree = {}
        for k in range(4):
            h = conv_transpose(p, str(k), x, 2, 1) if k else conv_transpose(p, "0", x, 4)  # of one pixel: any stride
            x = jax.nn.relu(batch_norm(p, f"bn{k}", h, seen))
        return jnp.tanh(conv_transpose(p, "4", x, 2, 1)), seen

    def loss_of(p: Tree, x: jax.Array, real: bool) -> tuple[jax.Array, Tree]:
        seen: Tree = {}
        x = jax.nn.leaky_relu(conv(p, "0", x, 2, 1), 0.2)
        for k in range(1, 4):
            x = jax.nn.leaky_relu(batch_norm(p, f"bn{k}", conv(p, str(k), x, 2, 1), seen), 0.2)
        logits = conv(p, "4", x)
        return jax.nn.softplus(-logits if real else logits).mean(), seen

    def step(carried: Any, images: jax.Array, noise: jax.Array) -> Any:
        (d, d_state, d_running), (g, g_state, g_running) = carried
        by_weights = jax.value_and_grad(loss_of, has_aux=True)
        (loss_real, seen_real), dreal = by_weights(d, images, True)
        drawn, back, seen = jax.vjp(lambda g: make(g, noise), g, has_aux=True)
        (loss_fake, seen_fake), dfake = by_weights(d, drawn, False)
        d, d_state = update(d, jax.tree.map(jnp.add, dreal, dfake), d_state)
        (loss, seen_again), ddrawn = jax.value_and_grad(loss_of, 1, has_aux=True)(d, drawn, True)
        (dg,) = back(ddrawn)
        g, g_state = update(g, dg, g_state)
        d_running, g_running = follow(d_running, seen_real, seen_fake, seen_again), follow(g_running, seen)
        return ((d, d_state, d_running), (g, g_state, g_running)), loss + loss_real + loss_fake

    carried = begin(down, 2), begin(up, 2)
    return repeated(step, carried, nhwc(spread(16, 3, 64, 64) / 1.7), nhwc(spread(16, 100, 1, 1)))


# ---- U-Net


def unet() -> Step:
    def double(name: str, i: int, o: int) -> Shapes:
        first = affine(f"{name}.conv1", o, i, 3, 3) | affine(f"{name}.norm1", o)
        return first | affine(f"{name}.conv2", o, o, 3, 3) | affine(f"{name}.norm2", o)

    shapes = double("down0", 3, 32) | double("down1", 32, 64) | double("down2", 64, 128)
    for k, c in enumerate((32, 64)):
        shapes |= {f"grow{k}.weight": (2 * c, c, 2, 2), f"grow{k}.bias": (c,)}
    shapes |= double("up0", 64, 32) | double("up1", 128, 64) | affine("out", 3, 32, 1, 1)

    def block(p: Tree, name: str, x: jax.Array) -> jax.Array:
        for k in "12":
            x = jax.nn.silu(group_norm(p, f"{name}.norm{k}", conv(p, f"{name}.conv{k}", x, 1, 1)))
        return x

    def loss_of(p: Tree, x: jax.Array, noise: jax.Array) -> tuple[jax.Array, Tree]:
        skips = [block(p, "down0", x + noise)]
        for k in (1, 2):
            skips.append(block(p, f"down{k}", max_pool(skips[-1])))
        h = skips[2]
        for k in (1, 0):
            h = block(p, f"up{k}", jnp.concatenate([skips[k], conv_transpose(p, f"grow{k}", h, 2)], -1))
        return ((conv(p, "out", h) - noise) ** 2).mean(), {}

    x, noise = spread(8, 3, 64, 64), spread(64, 3, 8, 64).swapaxes(0, 2)
    return trained(loss_of, adam(1e-3, decay=1e-2), begin(shapes, 2), nhwc(x), nhwc(noise))


# ---- LSTM


def lstm(words: int = 2000, width: int = 256) -> Step:
    shapes: Shapes = {"embedding.weight": (words, width)}
    for k in range(2):
        shapes |= {f"ih{k}": (4 * width, width), f"hh{k}": (4 * width, width)}
        shapes |= {f"bias_ih{k}": (4 * width,), f"bias_hh{k}": (4 * width,)}
    shapes |= affine("head", words, width)

    def layer(w_ih: jax.Array, w_hh: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
        def cell(carry: Any, a: jax.Array) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(a + h @ w_hh.T, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], width))
        return lax.scan(cell, (zero, zero), x @ w_ih.T + bias)[1]

    def loss_of(p: Tree, tokens: jax.Array) -> tuple[jax.Array, Tree]:
        x = p["embedding.weight"][tokens[:-1]]
        for k in range(2):
            x = layer(p[f"ih{k}"], p[f"hh{k}"], p[f"bias_ih{k}"] + p[f"bias_hh{k}"], x)
        return cross_entropy(linear(p, "head", x), tokens[1:]), {}

    def clipped(p: Tree, g: Tree, state: State) -> tuple[Tree, State]:
        norm = jnp.sqrt(sum(jnp.vdot(d, d) for d in g.values()))
        return adam(1e-3)(p, jax.tree.map(lambda d: d * jnp.minimum(1, 0.25 / (norm + 1e-6)), g), state)

    return trained(loss_of, clipped, begin(shapes, 2), labels(words, 65, 32))


NETS = {
    "ResNet-18, 32 x 3 x 32 x 32": resnet,
    "LeNet, 64 x 28 x 28": lenet,
    "DCGAN, 16 x 3 x 64 x 64": dcgan,
    "U-Net, 8 x 3 x 64 x 64": unet,
    "LSTM words, 64 x 32": lstm,
}
