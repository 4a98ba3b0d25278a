#!/usr/bin/env python3
"""Values from Python: micrograd's names in two engines, and when vectors start to pay.  Prints seconds as JSON.

use: python bench/value.py chainrule|micrograd        one multiplication, one neuron, one step on two moons
     python bench/value.py curve [--draw FILE.svg]    tanh(x * x + x) and its gradient, 1 to 10^7
     elements: a loop of Values, a ValueBatch and a
                                                      Tensor on every device there is; drawn with
                                                      matplotlib where that is installed
CHAINRULE_BUILD names the build (build/release).
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")) / "python"))
LONG = 0.5  # seconds: a point that takes longer is measured once, after one run that brings the memory


def least(run: Callable[[], Any], rounds: int = 20) -> float:
    """The least time of one call, of several rounds that take a few milliseconds each at least."""
    timer = timeit.Timer(run)
    number = max(1, int(0.005 / max(timer.timeit(1), 1e-7)))
    return min(timer.repeat(rounds, number)) / number


def engine(name: str) -> dict[str, float]:
    if name == "micrograd":
        from micrograd.engine import Value
        from micrograd.nn import MLP, Neuron
    else:
        from chainrule import MLP, Neuron, Value
    random.seed(1337)
    a, b, n = Value(2.0), Value(-3.0), Neuron(16)
    x = [Value(random.gauss(0, 1)) for _ in range(16)]
    times = {
        "a * b": min(timeit.repeat("a * b", globals={"a": a, "b": b}, number=100000, repeat=10)) / 100000,
        "neuron of 16 inputs": least(lambda: n(x)),
    }
    points = [[random.gauss(0, 1), random.gauss(0, 1)] for _ in range(100)]
    labels = [1 if p * q > 0 else -1 for p, q in points]
    model = MLP(2, [16, 16, 1])

    def step() -> None:
        scores = [model(list(map(Value, p))) for p in points]
        losses = [(1 + -label * score).relu() for label, score in zip(labels, scores, strict=True)]
        loss = sum(losses) * (1.0 / len(losses)) + 1e-4 * sum(p * p for p in model.parameters())
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad

    times["moons step"] = min(timeit.repeat(step, number=1, repeat=3 if name == "micrograd" else 100))
    return times


def curve() -> dict[str, dict[int, float]]:
    """Line -> elements -> seconds."""
    import chainrule as cr

    devices = ["cpu"] + [d for d in ("cuda",) if cr.Device.is_cuda_available()]  # ref is for checking, not for speed

    def values(n: int) -> Callable[[], None]:
        leaves = [cr.Value(0.5) for _ in range(n)]

        def run() -> None:
            for x in leaves:
                (x * x + x).tanh().backward()

        return run

    def batch(n: int, device: str) -> Callable[[], None]:
        x = cr.ValueBatch([0.5] * n, device)
        return lambda: (x * x + x).tanh().backward()

    def tensor(n: int, device: str) -> Callable[[], None]:
        x = cr.full((n,), 0.5, device=device, requires_grad=True)
        return lambda: (x * x + x).tanh().sum().backward()

    lines: dict[str, Callable[[int], Callable[[], None]]] = {"Value": values}
    for d in devices:
        lines[f"ValueBatch (float64), {d}"] = lambda n, d=d: batch(n, d)  # type: ignore[misc]
        lines[f"Tensor (float32), {d}"] = lambda n, d=d: tensor(n, d)  # type: ignore[misc]
    found: dict[str, dict[int, float]] = {}
    for name, make in lines.items():
        for n in (10**k for k in range(8)):
            run = make(n)
            start = time.perf_counter()
            run()
            once = time.perf_counter() - start
            found.setdefault(name, {})[n] = timeit.timeit(run, number=1) if once > LONG else least(run, 5)
    return found


def draw(lines: dict[str, dict[int, float]], path: str) -> None:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        print(f"{path}: not drawn, matplotlib is not installed", file=sys.stderr)
        return
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    plot = figure.add_subplot()
    for name, line in lines.items():
        plot.loglog(list(line), [s * 1e6 for s in line.values()], marker="o", markersize=3, label=name)
    plot.set(xlabel="elements", ylabel="microseconds", title="tanh(x * x + x) and its gradient")
    plot.grid(alpha=0.3)
    plot.legend()
    with rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "chainrule"}
    ):  # text as text; the same numbers give the same file
        figure.savefig(path, metadata={"Date": None})


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what in ("chainrule", "micrograd"):
        print(json.dumps(engine(what)))
    elif what == "curve":
        lines = curve()
        if "--draw" in sys.argv:
            draw(lines, sys.argv[sys.argv.index("--draw") + 1])
        print(json.dumps(lines))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
