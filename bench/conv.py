"""Convolutions beside PyTorch and JAX, from Python: milliseconds, the least of rounds in turn.
use: conv.py [--quick] [--threads 2] [--cpu] [--only part-of-a-name]        prints JSON

Each library runs in its own process, so that no thread pool waits beside another's work.  Forward, and forward
with both gradients.  --cpu: processor time instead of elapsed time, for one thread on a busy machine."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any

# name: shapes of x and w, stride, padding, groups
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = {
    "3x3, 64 -> 64, 56x56": ((8, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    "1x1, 256 -> 256, 14x14": ((8, 256, 14, 14), (256, 256, 1, 1), 1, 0, 1),
    "5x5, 1 -> 32, 28x28": ((32, 1, 28, 28), (32, 1, 5, 5), 1, 2, 1),
    "3x3 depthwise, 128, 56x56": ((8, 128, 56, 56), (128, 1, 3, 3), 1, 1, 128),
    "7x7 stride 2, 3 -> 64, 224x224": ((4, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
}
LIBRARIES = ("chainrule", "torch", "jax")


def of_jax(name: str) -> dict[str, Callable[[], object]]:
    import jax
    import numpy as np

    xs, ws, stride, pad, groups = CASES[name]
    g = np.random.default_rng(1)
    x, w = (jax.numpy.asarray(g.standard_normal(s, dtype=np.float32)) for s in (xs, ws))

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (stride,) * 2, [(pad, pad)] * 2, feature_group_count=groups)

    forward, value = jax.jit(conv), jax.jit(lambda x, w, g: (lambda y, back: (y, back(g)))(*jax.vjp(conv, x, w)))
    cotangent = jax.numpy.ones(forward(x, w).shape, jax.numpy.float32)
    return {
        "forward": lambda: forward(x, w).block_until_ready(),
        "both": lambda: jax.block_until_ready(value(x, w, cotangent)),
    }


def of_torch(lib: Any, name: str) -> dict[str, Callable[[], object]]:
    """chainrule and PyTorch."""
    xs, ws, stride, pad, groups = CASES[name]
    conv = lib.nn.functional.conv2d
    x, w = lib.randn(*xs), lib.randn(*ws)
    leaf_x, leaf_w = x.clone().requires_grad_(), w.clone().requires_grad_()
    cotangent = lib.randn(*conv(x, w, None, stride, pad, 1, groups).shape)

    def both() -> None:
        leaf_x.grad = leaf_w.grad = None
        conv(leaf_x, leaf_w, None, stride, pad, 1, groups).backward(cotangent)

    return {"forward": lambda: conv(x, w, None, stride, pad, 1, groups), "both": both}


def work(library: str, threads: int, cpu: bool, pipe: Any) -> None:
    """Answers (case, what, seconds) with the least time of one call."""
    for variable in ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if library == "jax":
        os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'false' if threads == 1 else 'true'}"
    lib = importlib.import_module(library)
    if library != "jax":
        importlib.import_module(library + ".nn.functional")
    if library == "torch":
        lib.set_num_threads(threads)
    clock = time.process_time if cpu else time.perf_counter
    made: dict[str, dict[str, Callable[[], object]]] = {}
    pipe.send(f"{library} {lib.__version__}")
    while ask := pipe.recv():
        name, what, seconds = ask
        if name not in made:
            made = {name: of_jax(name) if library == "jax" else of_torch(lib, name)}
        run, least, end = made[name][what], math.inf, time.perf_counter() + seconds
        run()
        while time.perf_counter() < end or least == math.inf:
            start = clock()
            run()
            least = min(least, clock() - start)
        pipe.send(1e3 * least)


def multiplications(name: str) -> int:
    xs, ws, stride, pad, _ = CASES[name]
    out = math.prod((n + 2 * pad - k) // stride + 1 for n, k in zip(xs[2:], ws[2:], strict=True))
    return xs[0] * out * math.prod(ws)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default="", help="cases with this in their names")
    o = parser.parse_args()
    libraries = [lib for lib in LIBRARIES if importlib.util.find_spec(lib)]
    context, pipes = multiprocessing.get_context("spawn"), []
    for library in libraries:
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(library, o.threads, o.cpu, theirs), daemon=True).start()
        pipes.append(ours)
    versions = [pipe.recv() for pipe in pipes]
    rows = []
    for name in (c for c in CASES if o.only in c):
        for what, passes in (("forward", 1), ("both", 3)):
            least = dict.fromkeys(libraries, math.inf)
            for _ in range(2 if o.quick else 7):
                for library, pipe in zip(libraries, pipes, strict=True):
                    pipe.send((name, what, 0.05 if o.quick else 0.4))
                    least[library] = min(least[library], pipe.recv())
            rows.append({"name": name, "what": what, "flops": 2 * passes * multiplications(name), "ms": least})
    for pipe in pipes:
        pipe.send(None)
    json.dump({"versions": versions, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
