"""Transforms of functions and linear algebra beside PyTorch and JAX, from Python: milliseconds, the least of rounds in
turn.
use: maths.py [--quick] [--threads 2] [--cpu] [--only part-of-a-name]        prints JSON

Per-sample gradients of an MLP 64-64-10 (512 samples) and of a small CNN (64 samples of 1 x 16 x 16), the Hessian of a
function of 100 numbers, a Jacobian 10 -> 1000 by forward mode, and one derivative of a GPT block (4 x 64 x 128) by
forward mode beside the block itself.  JAX is under jit; "compiled" is chainrule.compile of the same call.  Matrices of
512 rows, of A = B B^T / 512 + I, and 4096 of 8 rows; "and gradient": of the sum of all results, by A."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

from turns import Runs, Turns, arguments, prepared

LIBRARIES = ("chainrule", "torch", "jax")
CASES = ("MLP, gradients of 512 samples", "CNN, gradients of 64 samples", "Hessian of 100 numbers",
         "Jacobian 10 -> 1000", "GPT block, forward", "GPT block, forward mode",
         *(f"{name} 512, {how}" for name in ("solve", "inv", "cholesky", "qr")
           for how in ("f32", "f64", "f64, and gradient")),
         *(f"{name} 4096 x 8, f32" for name in ("solve", "inv", "cholesky", "eigh", "svd")))  # fmt: skip


class Torch:
    """chainrule and PyTorch by the names that both have."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.f = lib, lib.nn.functional
        self.func = importlib.import_module(lib.__name__ + ".func")

    def randn(self, *shape: int) -> Any:
        return self.lib.randn(*shape) * 0.3

    def labels(self, n: int) -> Any:
        return self.lib.arange(n) % 10

    def dense(self, x: Any, w: Any, b: Any) -> Any:
        return self.f.linear(x, w, b)

    def loss(self, logits: Any, label: Any) -> Any:
        return self.f.cross_entropy(logits[None], label[None])

    def conv(self, x: Any, w: Any) -> Any:
        return self.f.conv2d(x[None], w, padding=1)[0]

    def pool(self, x: Any) -> Any:
        return self.f.avg_pool2d(x[None], 2)[0]

    def block(self, x: Any, p: list[Any]) -> Any:
        wide, heads = x.shape[-1], 4
        h = self.f.layer_norm(x, (wide,))
        split = lambda t: t.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
        q, k, v = (split(self.f.linear(h, w)) for w in p[:3])
        scores = self.lib.softmax(q @ k.transpose(-1, -2) * (wide // heads) ** -0.5, -1)
        x = x + self.f.linear((scores @ v).transpose(1, 2).reshape(x.shape), p[3])
        return x + self.f.linear(self.f.gelu(self.f.linear(self.f.layer_norm(x, (wide,)), p[4])), p[5])

    grad = property(lambda self: self.func.grad)
    sin = property(lambda self: self.lib.sin)
    tanh = property(lambda self: self.lib.tanh)
    linalg = property(lambda self: self.lib.linalg)
    hessian = property(lambda self: self.func.hessian)
    jacfwd = property(lambda self: self.func.jacfwd)
    jvp = property(lambda self: self.func.jvp)

    def matrices(self, values: Any) -> Any:
        return self.lib.tensor(values)

    def vmap(self, f: Any, dims: Any) -> Any:
        return self.func.vmap(f, in_dims=dims)

    def runs(self, f: Callable[..., Any], *args: Any) -> Runs:
        found: Runs = {"run": lambda: f(*args)}
        if self.lib.__name__ == "chainrule":
            compiled = self.lib.compile(f)
            found["compiled"] = lambda: compiled(*args)
        return found


class Jax:
    def __init__(self, jax: Any) -> None:
        import numpy as np

        jax.config.update("jax_enable_x64", True)  # f64 exists; what is f32 stays
        self.jax, self.np, self.draw = jax, jax.numpy, np.random.default_rng(1)
        self.linalg = jax.numpy.linalg
        self.grad, self.hessian, self.jacfwd, self.jvp = jax.grad, jax.hessian, jax.jacfwd, jax.jvp
        self.sin, self.tanh = jax.numpy.sin, jax.numpy.tanh

    def randn(self, *shape: int) -> Any:
        return self.np.asarray(self.draw.standard_normal(shape) * 0.3, dtype="float32")

    def labels(self, n: int) -> Any:
        return self.np.arange(n) % 10

    def dense(self, x: Any, w: Any, b: Any) -> Any:
        return x @ w.T + b

    def loss(self, logits: Any, label: Any) -> Any:
        return -self.jax.nn.log_softmax(logits)[label]

    def conv(self, x: Any, w: Any) -> Any:
        return self.jax.lax.conv_general_dilated(x[None], w, (1, 1), [(1, 1)] * 2)[0]

    def pool(self, x: Any) -> Any:
        c, h, w = x.shape
        return x.reshape(c, h // 2, 2, w // 2, 2).mean((2, 4))

    def block(self, x: Any, p: list[Any]) -> Any:
        wide, heads = x.shape[-1], 4
        norm = lambda t: (t - t.mean(-1, keepdims=True)) * self.jax.lax.rsqrt(t.var(-1, keepdims=True) + 1e-5)
        split = lambda t: t.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)
        h = norm(x)
        q, k, v = (split(h @ w.T) for w in p[:3])
        scores = self.jax.nn.softmax(q @ k.swapaxes(-1, -2) * (wide // heads) ** -0.5, -1)
        x = x + (scores @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ p[3].T
        return x + self.jax.nn.gelu(norm(x) @ p[4].T, approximate=False) @ p[5].T

    def matrices(self, values: Any) -> Any:
        return self.np.asarray(values)

    def vmap(self, f: Any, dims: Any) -> Any:
        return self.jax.vmap(f, in_axes=dims)

    def runs(self, f: Callable[..., Any], *args: Any) -> Runs:
        compiled = self.jax.jit(f)
        return {"run": lambda: self.jax.block_until_ready(compiled(*args))}


def is_of_matrices(name: str) -> bool:
    return name.endswith(("f32", "f64", "gradient"))


def of_matrices(lib: Any, name: str) -> Runs:
    import numpy as np

    shape, dtype = (4096, 8, 8) if "4096" in name else (512, 512), "float64" if "f64" in name else "float32"
    b = np.random.default_rng(1).standard_normal(shape)
    a = lib.matrices((b @ b.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype))
    call = getattr(lib.linalg, name.split()[0])
    right = (lib.matrices(b.astype(dtype)),) if name.startswith("solve") else ()
    if "gradient" not in name:
        return lib.runs(call, a, *right)  # type: ignore[no-any-return]

    def total(a: Any) -> Any:
        found = call(a, *right)
        return sum(part.sum() for part in found) if isinstance(found, tuple) else found.sum()

    return lib.runs(lib.grad(total), a)  # type: ignore[no-any-return]


def case(lib: Any, name: str) -> Runs:
    r = lib.randn
    if is_of_matrices(name):
        return of_matrices(lib, name)
    if name.startswith("MLP"):
        p = [r(64, 64), r(64), r(10, 64), r(10)]
        net = lambda p, x, y: lib.loss(lib.dense(lib.tanh(lib.dense(x, p[0], p[1])), p[2], p[3]), y)
        return lib.runs(lib.vmap(lib.grad(net), (None, 0, 0)), p, r(512, 64), lib.labels(512))
    if name.startswith("CNN"):
        p = [r(8, 1, 3, 3), r(16, 8, 3, 3), r(10, 256), r(10)]

        def cnn(p: Any, x: Any, y: Any) -> Any:
            x = lib.pool(lib.tanh(lib.conv(x, p[0])))
            x = lib.pool(lib.tanh(lib.conv(x, p[1])))
            return lib.loss(lib.dense(x.reshape(-1), p[2], p[3]), y)

        return lib.runs(lib.vmap(lib.grad(cnn), (None, 0, 0)), p, r(64, 1, 16, 16), lib.labels(64))
    if name.startswith("Hessian"):
        w = r(100, 100)
        return lib.runs(lib.hessian(lambda x: (lib.sin(w @ x) * x).sum()), r(100))
    if name.startswith("Jacobian"):
        w = r(1000, 10)
        return lib.runs(lib.jacfwd(lambda x: lib.tanh(w @ x) * x.sum()), r(10))
    p = [r(128, 128) for _ in range(4)] + [r(512, 128), r(128, 512)]
    x, t = r(4, 64, 128), r(4, 64, 128)
    if name.endswith("mode"):
        return lib.runs(lambda x, t: lib.jvp(lambda a: lib.block(a, p), (x,), (t,)), x, t)
    return lib.runs(lambda x: lib.block(x, p), x)


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    lib = prepared(library, threads)
    ours = Jax(lib) if library == "jax" else Torch(lib)
    return f"{library} {lib.__version__}", lambda name: case(ours, name)


def main() -> None:
    o = arguments().parse_args()
    turns = Turns(open_library, [lib for lib in LIBRARIES if importlib.util.find_spec(lib)], o)
    rows = []
    for name in (c for c in CASES if o.only in c):
        ms = turns.least(name, "run", 0.4)
        if not is_of_matrices(name):  # whose checks read values, which a plan does not
            compiled = turns.least(name, "compiled", 0.4, without=[x for x in turns.libraries if x != "chainrule"])
            ms["chainrule compiled"] = compiled["chainrule"]
        rows.append({"name": name, "ms": ms})
    turns.end()
    json.dump({"versions": turns.versions, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
