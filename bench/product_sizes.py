"""Products (N, N) by (N, N) in f32 by their size: three plain loops, our cpu, a GPU; GFLOP/s.

use: product_sizes.py [--sizes 128 256 ...] [--device auto] [--threads N] [--quick] [--draw FILE.svg]        prints JSON

The plain loops are bench/naive in the build; of a large product they compute as many rows as there
is time for.  --device: the GPU; where it is the cpu ("auto" without a GPU of hardware) there is no
such column.  --draw needs matplotlib."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import chainrule as cr
from gpu_curve import matmul, milliseconds

BUILD = Path(os.environ.get("CHAINRULE_BUILD", Path(__file__).resolve().parent.parent / "build" / "release"))
SIZES, QUICK = (128, 256, 512, 1024, 2048, 4096), (128, 256, 512)


def naive(n: int, seconds: float) -> float:
    """GFLOP/s."""
    done = subprocess.run(
        [str(BUILD / "bench" / "naive"), str(n), str(seconds)], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout)["rate"])


def rates(n: int, gpu: cr.Device | None, room: float) -> dict[str, float]:
    work = 2e-6 * n**3  # GFLOP in a millisecond
    found = {
        "naive": naive(n, 5 * room),
        "cpu": work / milliseconds(matmul(n, cr.Device("cpu")), cr.Device("cpu"), room),
    }
    return found | ({"GPU": work / milliseconds(matmul(n, gpu), gpu, room)} if gpu else {})


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """Rates over sizes, both logarithmic; the same numbers give the same file."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        print(f"{path}: not drawn, matplotlib is not installed", file=sys.stderr)
        return
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    plot = figure.add_subplot()
    names = {"naive": "three plain loops, one thread", "cpu": "chainrule, cpu", "GPU": "chainrule, GPU"}
    for name, colour in zip(names, ("#d55e00", "#0072b2", "#009e73"), strict=True):  # as chainrule.viz
        points = [(row["size"], row[name]) for row in rows if name in row]
        if points:
            plot.loglog(*zip(*points, strict=True), marker="o", markersize=3, color=colour, label=names[name])
    sizes = [row["size"] for row in rows]
    plot.set_xticks(sizes, [f"{n:,}" for n in sizes], minor=False)
    plot.minorticks_off()
    plot.set(xlabel="N", ylabel="GFLOP/s", title="(N, N) by (N, N), f32")
    plot.grid(alpha=0.3)
    plot.legend()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "chainrule"}):  # text as text
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", metavar="FILE")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    device = cr.Device(o.device)
    gpu = None if device.is_cpu() else device
    sizes = o.sizes or (QUICK if o.quick else SIZES)
    rows = [{"size": n, **rates(n, gpu, 0.05 if o.quick else 0.4)} for n in sizes]
    if o.draw:
        draw(rows, o.draw)
    print(json.dumps({"device": str(device), "rows": rows}))


if __name__ == "__main__":
    main()
