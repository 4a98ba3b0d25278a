#!/usr/bin/env python3
"""Training steps of GPT-2 124M's shape: adapters (nn.lora, rank 8 on c_attn) beside all weights, AdamW, B 4, T 64.

use: python bench/lora.py [--quick] [--threads 2] [--kinds KIND ...]        prints JSON: time, memory
KIND: full, lora, or lora over a base in Q8_0 or Q4_0: lora-int8, lora-int4

Memory: the largest resident size beyond that before the model was loaded from its folder.
Bars (with a quantized base): the adapter's step takes <= 0.7 of the full step's time and <= 0.35 of its memory."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import chainrule as cr
from cases import CASES
from chainrule.nn import lora

KINDS = ("full", "lora", "lora-int8", "lora-int4")


def resident() -> float:
    """Megabytes, the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def save(kind: str, folder: Path) -> None:
    case = CASES["gpt2"]
    cr.manual_seed(1)
    model = cr.models.GPT(case.vocabulary, case.context, case.layers, case.heads, case.width)
    if bits := kind.removeprefix("full").removeprefix("lora").removeprefix("-int"):
        model.quantize(int(bits))
    model.save_pretrained(folder)


def one(kind: str, folder: Path, runs: int) -> dict[str, float | str]:
    """Times of a step, and its memory: weights, gradients, moments, activations."""
    case, before = CASES["gpt2"], resident()
    model = cr.models.from_pretrained(folder).train()
    if kind != "full":
        lora.apply(model, r=8)
    optimizer = cr.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    x, y = cr.randint(case.vocabulary, (2, case.batch, case.time))
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
        times.append(1e3 * (time.perf_counter() - start))
    least, median = min(times[2:]), statistics.median(times[2:])
    return {"name": kind, "min_ms": least, "median_ms": median, "mb": resident() - before}


def rows(kinds: list[str], quick: bool, threads: int) -> list[dict[str, float | str]]:
    """Each kind in a process of its own, for its own memory."""
    found = []
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, __file__, "--threads", str(threads), *["--quick"] * quick, "--kinds", kind]
            for part in "--save", "--folder":
                done = subprocess.run([*words, part, folder], check=True, stdout=subprocess.PIPE, text=True)
            found.append(json.loads(done.stdout))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--save", type=Path, help="only write the model of the first kind into this folder")
    parser.add_argument("--folder", type=Path, help="only measure the first kind, from this folder")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    if o.save:
        save(o.kinds[0], o.save)
    elif o.folder:
        print(json.dumps(one(o.kinds[0], o.folder, 2 if o.quick else 6)))
    else:
        print(json.dumps({"version": f"chainrule {cr.__version__}", "rows": rows(o.kinds, o.quick, o.threads)}))


if __name__ == "__main__":
    main()
