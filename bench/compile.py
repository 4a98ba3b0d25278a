"""Steps that are recorded and replayed, beside the same steps run op by op, PyTorch eager and compiled, and JAX's jit:
milliseconds, the least of rounds in turn, and the peak memory of GPT-2's steps.
use: compile.py [--quick] [--threads 2] [--cpu] [--only part-of-a-name] [--no-memory] [--eager]        prints JSON

Elementwise steps are of 4 M elements.  GPT-2 is bench/torch_gpt.py, which chainrule runs as `python -m chainrule.torch`
does: a step with AdamW, B 4, T 64.  --eager: without PyTorch compiled, which takes minutes to compile."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import Runs, Turns, arguments, prepared, start

ROWS, COLUMNS = 2048, 2048
LIBRARIES = ("chainrule", "chainrule compiled", "torch", "torch compiled", "jax")
SQUARE, GELU, STANDARDIZE = "a * a + a", "GELU, forward and backward", "(x - m) / s * w + b"
CROSS_ENTROPY, NORM = "cross-entropy, by hand", "dropout, residual, layer norm"
MOONS, GPT2 = "two moons, MLP 2-16-16-1, a step", "GPT-2 124M, a step"
CASES = (SQUARE, GELU, STANDARDIZE, CROSS_ENTROPY, NORM, MOONS, GPT2)
SECONDS = {GPT2: 4.0}  # of a round; else 0.4
ROUNDS = {GPT2: 3}


# ---- chainrule and PyTorch: the same lines


def elementwise(torch: Any, compiled: Callable[..., Any], whole: Callable[..., Any], name: str) -> Callable[[], Any]:
    F = torch.nn.functional
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    m, s = torch.randn(ROWS, 1), torch.rand(ROWS, 1) + 1
    w, b = torch.randn(COLUMNS), torch.randn(COLUMNS)
    target = torch.randint(0, COLUMNS, (ROWS, 1))

    def cross_entropy(x: Any, target: Any) -> Any:
        x = x - x.max(-1, keepdim=True).values
        return (x.exp().sum(-1, keepdim=True).log() - x.gather(-1, target)).mean()

    if name == GELU:
        leaf, gelu = x.clone().requires_grad_(), F.gelu if whole is compiled else compiled(lambda x: F.gelu(x))

        def both(x: Any, y: Any) -> Any:
            x.grad = None
            out = gelu(x)
            out.backward(y)
            return out

        step = whole(both)
        return lambda: step(leaf, y)
    if name == SQUARE:
        f = compiled(lambda a: a * a + a)
        return lambda: f(x)
    if name == STANDARDIZE:
        f = compiled(lambda x, m, s, w, b: (x - m) / s * w + b)
        return lambda: f(x, m, s, w, b)
    if name == CROSS_ENTROPY:
        f = compiled(cross_entropy)
        return lambda: f(x, target)
    f = compiled(lambda x, y, w, b: F.layer_norm(x + F.dropout(y, 0.1, True), (COLUMNS,), w, b))
    return lambda: f(x, y, w, b)


def moons(torch: Any, compile_step: Callable[..., Any], compile_model: Callable[..., Any]) -> Callable[[], Any]:
    """100 points, full batch, SGD."""
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    model, optimizer = compile_model(net), torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(100, 2), torch.randint(0, 2, (100, 1)).float()

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = compile_step(step)
    return lambda: f(x, y)


def gpt2(torch: Any, compile_step: Callable[..., Any], compile_model: Callable[..., Any]) -> Callable[[], Any]:
    own = importlib.import_module("torch_gpt")
    torch.manual_seed(0)
    net = own.GPT(50257, 1024, 12, 12, 768)
    optimizer = own.adamw(net, 1e-4)
    x, y = torch.randint(0, 50257, (4, 64)), torch.randint(0, 50257, (4, 64))
    model = compile_model(net)

    def step(x: Any, y: Any) -> Any:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    f = compile_step(step)
    return lambda: f(x, y)


def of_torch(torch: Any, library: str, name: str) -> Runs:
    """cr.compile records whole steps; PyTorch compiles the model, and the rest of a step is as it is."""
    plain = lambda f: f
    compiled = torch.compile if library.endswith("compiled") else plain
    whole = compiled if library.startswith("chainrule") else plain
    model = plain if library.startswith("chainrule") else compiled
    step = {MOONS: moons, GPT2: gpt2}.get(name)
    run = step(torch, whole, model) if step else elementwise(torch, compiled, whole, name)
    for _ in range(3):  # the first makes moments, the second is recorded or compiled
        run()
    return {"run": run}


# ---- JAX


def of_jax(name: str) -> Runs:
    import jax
    import numpy as np

    jnp, g = jax.numpy, np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(g.standard_normal(shape, dtype=np.float32))
    x, y, m, w, b = draw(ROWS, COLUMNS), draw(ROWS, COLUMNS), draw(ROWS, 1), draw(COLUMNS), draw(COLUMNS)
    s, target = jnp.abs(m) + 1, jnp.asarray(g.integers(0, COLUMNS, (ROWS, 1)))

    def cross_entropy(x: Any, target: Any) -> Any:
        x = x - x.max(-1, keepdims=True)
        return (jnp.log(jnp.exp(x).sum(-1, keepdims=True)) - jnp.take_along_axis(x, target, -1)).mean()

    def norm(x: Any, y: Any, w: Any, b: Any, key: Any) -> Any:
        h = x + jnp.where(jax.random.bernoulli(key, 0.9, y.shape), y / 0.9, 0)
        return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5) * w + b

    def gelu(x: Any, y: Any) -> Any:
        out, back = jax.vjp(lambda x: jax.nn.gelu(x, approximate=False), x)
        return out, back(y)

    functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        SQUARE: (lambda a: a * a + a, (x,)),
        GELU: (gelu, (x, y)),
        STANDARDIZE: (lambda x, m, s, w, b: (x - m) / s * w + b, (x, m, s, w, b)),
        CROSS_ENTROPY: (cross_entropy, (x, target)),
        NORM: (norm, (x, y, w, b, jax.random.key(0))),
    }
    if name == MOONS:
        return {"run": jax_moons(jax, draw)}
    f, words = functions[name]
    compiled = jax.jit(f)
    return {"run": lambda: jax.block_until_ready(compiled(*words))}


def jax_moons(jax: Any, draw: Callable[..., Any]) -> Callable[[], Any]:
    jnp = jax.numpy
    shapes = ((2, 16), (16, 16), (16, 1))
    weights = [(draw(*shape) / 4, jnp.zeros(shape[1])) for shape in shapes]
    x, y = draw(100, 2), (draw(100, 1) > 0).astype(jnp.float32)

    def loss(weights: Any) -> Any:
        h = x
        for i, (w, b) in enumerate(weights):
            h = h @ w + b if i == 2 else jnp.tanh(h @ w + b)
        return (jnp.logaddexp(0, h) - y * h).mean()

    @jax.jit
    def step(weights: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    state = [weights]

    def run() -> None:
        value, state[0] = step(state[0])
        value.block_until_ready()

    return run


# ---- turns


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    lib = prepared(library.removesuffix(" compiled"), threads)
    if library == "jax":
        return f"jax {lib.__version__}", of_jax
    if library.startswith("chainrule"):
        importlib.import_module("chainrule.torch").install()
    torch = importlib.import_module("torch")
    return f"{library} {lib.__version__}", lambda name: of_torch(torch, library, name)


def peak(library: str, threads: int, pipe: Any) -> None:
    """Sends the bytes at most of a process that trains GPT-2, less what the loaded library takes: from its start, and
    of the steps after the first five, which are eager, recorded or compiled."""
    from scripts import own_memory

    _, make = open_library(library, threads)
    make(SQUARE)["run"]()
    before = own_memory("VmRSS")
    run = make(GPT2)["run"]
    for _ in range(2):
        run()
    first = own_memory("VmHWM") - before
    Path("/proc/self/clear_refs").write_text("5")  # from here on VmHWM counts anew
    for _ in range(2):
        run()
    pipe.send((first, own_memory("VmHWM") - before))


def main() -> None:
    parser = arguments()
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--eager", action="store_true")
    o = parser.parse_args()
    compiler = shutil.which("g++") or shutil.which("clang++")
    libraries = [lib for lib in LIBRARIES if importlib.util.find_spec(lib.split()[0])]
    if o.eager or not compiler:
        libraries = [lib for lib in libraries if lib != "torch compiled"]
    names = [name for name in CASES if o.only in name]
    rows: list[dict[str, Any]] = []
    turns = Turns(open_library, libraries, o)
    for name in names:
        without = ("jax",) * (name == GPT2)  # step_jax.py has it
        rows.append(
            {"name": name, "ms": turns.least(name, "run", SECONDS.get(name, 0.4), ROUNDS.get(name, 7), without)}
        )
    turns.end()
    memory: dict[str, tuple[int, int]] = {}
    for library in libraries if GPT2 in names and not o.no_memory else ():
        if library != "jax":
            memory[library] = start(peak, library, o.threads).recv()
    json.dump({"versions": turns.versions, "rows": rows, "memory": memory}, sys.stdout)


if __name__ == "__main__":
    main()
