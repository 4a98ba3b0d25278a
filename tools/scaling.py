#!/usr/bin/env python3
"""Reckons a data-parallel training step on many GPUs: its time, the part of the exchange that nothing hides, bytes and
memory.  docs/scaling.md has the table.

    scaling.py                     the table, for the models and numbers of GPUs below
    scaling.py --weights bf16      the same for bf16 weights and gradients with f32 masters
    scaling.py --check FILE        compares the reckoning with what bench/ranks.py measured here: lines of JSON

The exchange is that of src/dist: every shard's partial sums to the shard's owner, then all shards to all, in the dtype
of the weights.  The first half can hide behind the backward pass (two thirds of the computing).  The table is for the
sharded optimizer, whose second half moves weights: it can hide behind the next forward pass (the other third), but for
the bucket that this pass reads first.  "by node" is a plan: sums inside a node first, so that a GPU's network card
moves an eighth."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

# NVIDIA H200, from its data sheet: dense bf16 FLOP/s, bytes of memory.
PEAK, MEMORY = 989e12, 141e9
# Bytes a second of one GPU, published figures that were not measured here.  Inside a node: NCCL over NVLink 4; between
# nodes: one 400 Gb/s card for each GPU, less its protocol.
NODE, CARD = 370e9, 47e9
GPUS_OF_NODE = 8
LATENCY = 20e-6  # of one collective between nodes, times log2 of their number
BUCKET = 25 * (1 << 20)


@dataclass(frozen=True)
class Model:
    name: str
    parameters: float
    tokens: float  # of a step
    mfu: float  # share of the peak that the computing alone reaches


MODELS = (
    Model("124M", 124e6, 0.5 * 2**20, 0.41),
    Model("1.5B", 1.56e9, 2**20, 0.45),
    Model("7B", 6.7e9, 4 * 2**20, 0.50),
)
COUNTS = (8, 64, 256, 1024, 16384)


def half(bytes_: float, gpus: int, by_node: bool) -> float:
    """Seconds of an all-to-all or an all-gather of so many bytes on each GPU."""
    nodes = max(gpus // GPUS_OF_NODE, 1)
    steps = max(nodes - 1, 0).bit_length()
    inside = bytes_ * (min(gpus, GPUS_OF_NODE) - 1) / min(gpus, GPUS_OF_NODE) / NODE
    if nodes == 1:
        return inside
    outside = bytes_ * (gpus - GPUS_OF_NODE) / gpus / CARD
    return inside + outside / GPUS_OF_NODE + steps * LATENCY if by_node else max(inside, outside) + steps * LATENCY


WIDTHS = {"f32": 4, "bf16": 2}  # bytes of a weight, and of a gradient


def step(model: Model, gpus: int, by_node: bool, width: int) -> tuple[float, float]:
    """Seconds of the computing, and of the exchange that it does not hide."""
    computing = 6 * model.parameters * model.tokens / (gpus * PEAK * model.mfu)
    bytes_ = width * model.parameters
    last = half(min(BUCKET, bytes_), gpus, by_node)  # the last bucket is complete when the pass is over
    gradients = max(half(bytes_, gpus, by_node) - computing * 2 / 3, last)
    weights = max(half(bytes_, gpus, by_node) - computing / 3, last)
    return computing, gradients + weights


def memory(model: Model, gpus: int, width: int) -> float:
    """Bytes of weights and gradients on one GPU, and of its part of what is sharded: Adam's two moments, and the f32
    masters of bf16 weights."""
    return model.parameters * (2 * width + (8 if width == WIDTHS["f32"] else 12) / gpus)


def table(width: int) -> list[str]:
    lines = [
        "| model | GPUs | computing | exposed | by node | efficiency | by node | sent by a GPU | memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for model in MODELS:
        for gpus in COUNTS:
            if gpus > model.tokens / 256:
                continue
            computing, exposed = step(model, gpus, False, width)
            _, planned = step(model, gpus, True, width)
            sent = 2 * (gpus - 1) / gpus * width * model.parameters
            cells = [
                model.name,
                f"{gpus:,}",
                *(f"{1e3 * seconds:.2f} ms" for seconds in (computing, exposed, planned)),
                *(f"{computing / (computing + more):.0%}" for more in (exposed, planned)),
                f"{sent / 1e9:.2f} GB",
                f"{memory(model, gpus, width) / 1e9:.1f} GB",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def check(path: Path) -> list[str]:
    """Bandwidth from the first all-reduce; the others must follow from it: a ring's bytes over it.  So does what
    a training step waits for, the exchange of the parameter whose gradient comes last."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    sums = [row for row in rows if row["part"].startswith("all-reduce")]
    if not sums:
        raise SystemExit(f"scaling.py: {path} has no line of an all-reduce: bench/ranks.py --only all-reduce")

    def bytes_of(row: dict[str, float]) -> float:
        return 2 * (row["ranks"] - 1) * float(str(row["part"]).split()[1]) * 1e6  # of all ranks: they share the memory

    bandwidth = bytes_of(sums[0]) / sums[0]["fixed order"]
    lines = [
        f"{row['part']}, {row['ranks']} ranks: {row['fixed order']:.3f} s, reckoned {bytes_of(row) / bandwidth:.3f} s"
        f" ({bytes_of(row) / bandwidth / row['fixed order']:.2f} of it)"
        for row in sums
    ]
    for row in rows:
        if "exposed" not in row:
            continue
        found, reckoned = row["exposed"]["2 x 1 threads"], 2 * (row["ranks"] - 1) * 4 * row["last"] / bandwidth
        lines.append(
            f"{row['part']}, {row['ranks']} ranks: exposed {1e3 * found:.1f} ms, reckoned {1e3 * reckoned:.1f} ms"
            f" ({reckoned / found:.2f} of it)"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--weights", choices=WIDTHS, default="f32")
    o = parser.parse_args()
    print("\n".join(check(o.check) if o.check else table(WIDTHS[o.weights])))


if __name__ == "__main__":
    main()
