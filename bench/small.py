"""Small tensors from Python, the same lines in each library; nanoseconds, least of several loops.
use: small.py chainrule|torch|numpy [--quick]

What is measured is mostly what a call costs.  NumPy has no gradients: it takes part where there are none.
"""

import argparse
import importlib
import json
import timeit
from collections.abc import Callable
from typing import Any

CHAIN = 200  # ops, each on one element
POINTS, WIDTH = 100, 16


def chain(lib: Any) -> Callable[[], None]:
    """x * a + b, again and again, forward and backward."""
    x, a, b = lib.ones(1, requires_grad=True), lib.ones(1), lib.ones(1)

    def run() -> None:
        y = x
        for _ in range(CHAIN // 2):
            y = y * a + b
        y.backward()

    return run


def two_moons(lib: Any) -> Callable[[], None]:
    """One step of an MLP 2-16-16-1 written with tensors: hinge loss, gradients, SGD by hand."""
    sizes = [2, WIDTH, WIDTH, 1]
    x, y = lib.randn(POINTS, 2), lib.ones(POINTS, 1)
    w = [lib.randn(m, n).requires_grad_() for m, n in zip(sizes, sizes[1:], strict=False)]
    b = [lib.zeros(n).requires_grad_() for n in sizes[1:]]

    def run() -> None:
        h = (x @ w[0] + b[0]).relu()
        h = (h @ w[1] + b[1]).relu()
        loss = (1 - y * (h @ w[2] + b[2])).relu().mean()
        loss.backward()
        with lib.no_grad():
            for p in w + b:
                p.sub_(p.grad, alpha=0.01)
                p.grad = None

    return run


def two_moons_layers(lib: Any) -> Callable[[], None]:
    """The same step with nn and optim."""
    x, y = lib.randn(POINTS, 2), lib.ones(POINTS, 1)
    layer, relu = lib.nn.Linear, lib.nn.ReLU
    model = lib.nn.Sequential(layer(2, WIDTH), relu(), layer(WIDTH, WIDTH), relu(), layer(WIDTH, 1))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        (1 - y * model(x)).relu().mean().backward()
        optimizer.step()

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["chainrule", "torch", "numpy"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    lib = importlib.import_module(o.library)
    if o.library == "torch":
        lib.set_num_threads(o.threads)
    f32 = {"dtype": lib.float32}
    names: dict[str, Any] = {
        "x": lib.ones(1, **f32),
        "y": lib.ones(1, **f32),
        "m": lib.ones((3, 4), **f32),
        "v": lib.ones(100, **f32),
    }
    lines: dict[str, tuple[Any, int]] = {
        "x * y": ("x * y", 1),
        "x[1:, 2]": ("m[1:, 2]", 1),
        "(100,) + (100,)": ("v + v", 1),
    }  # what runs, ops in it
    if o.library != "numpy":
        names["r"] = lib.ones(1, requires_grad=True)
        lines |= {
            "x * y, recorded": ("r * y", 1),
            "chain, an op": (chain(lib), CHAIN),
            "two-moons step": (two_moons(lib), 1),
        }
        lines |= {"two-moons step, nn and optim": (two_moons_layers(lib), 1)}
    rows = []
    for name, (line, ops) in lines.items():
        timer = timeit.Timer(line, globals=names)
        number = timer.autorange()[0] // (20 if o.quick else 4) + 1  # autorange: at least 0.2 s
        rows.append({"name": name, "ns": min(timer.repeat(5 if o.quick else 20, number)) / number / ops * 1e9})
    print(json.dumps({"version": f"{o.library} {lib.__version__}", "rows": rows}))


if __name__ == "__main__":
    main()
