#!/usr/bin/env python3
"""Training steps of GPT-2 124M's shape: an adapter (nn.lora, rank 8 on c_attn) beside all weights, AdamW, B 4, T 64.

use: python bench/lora.py [--quick] [--threads 2] [--only full|lora]        prints JSON: time, tensors' peak

Bars (with a quantized base): the adapter's step takes <= 0.7 of the full step's time and <= 0.35 of its memory."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import chainrule as cr
from cases import CASES
from chainrule.nn import lora

KINDS = ("full", "lora")


def one(kind: str, runs: int) -> dict[str, float | str]:
    """The least time of a step, and the most bytes that tensors held: weights, gradients, moments, activations."""
    case = CASES["gpt2"]
    cr.manual_seed(1)
    model = cr.models.GPT(case.vocabulary, case.context, case.layers, case.heads, case.width)
    if kind == "lora":
        lora.apply(model, r=8)
    optimizer = cr.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    x, y = cr.randint(case.vocabulary, (2, case.batch, case.time))
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
        times.append(time.perf_counter() - start)
    return {"name": kind, "ms": 1e3 * min(times[1:]), "peak_mb": cr.memory_stats()[1] / 1e6}


def rows(quick: bool, threads: int) -> list[dict[str, float | str]]:
    """Each kind in a process of its own, for its own peak."""
    words = [sys.executable, __file__, "--threads", str(threads), *["--quick"] * quick, "--only"]
    found = [subprocess.run([*words, kind], check=True, capture_output=True, text=True).stdout for kind in KINDS]
    return [json.loads(text) for text in found]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=KINDS)
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    if o.only:
        print(json.dumps(one(o.only, 2 if o.quick else 6)))
        return
    full, adapter = rows(o.quick, o.threads)
    ratios = {"time": adapter["ms"] / full["ms"], "memory": adapter["peak_mb"] / full["peak_mb"]}  # type: ignore[operator]
    print(json.dumps({"version": f"chainrule {cr.__version__}", "rows": [full, adapter], "lora / full": ratios}))


if __name__ == "__main__":
    main()
