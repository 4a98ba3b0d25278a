#!/usr/bin/env python3
"""One training step of GPT-2 124M and of the character GPT in PyTorch (eager, fused AdamW): the peer of `chainrule bench`.

use: python bench/gpt2_torch.py [--quick] [--threads 2]        prints JSON with the same row names
"""

import argparse
import json
import statistics
import time

import torch
from torch_gpt import GPT, adamw

CASES = {"char GPT": ((65, 64, 4, 4, 128), 12, 64, 100, 20), "GPT-2 124M": ((50257, 1024, 12, 12, 768), 4, 64, 9, 3)}


def measure(shape: tuple[int, ...], batch: int, length: int, runs: int) -> dict[str, list[float]]:
    torch.manual_seed(1)
    model = GPT(*shape)
    optimizer = adamw(model, 1e-4)
    x, y = torch.randint(shape[0], (2, batch, length))
    times: dict[str, list[float]] = {"forward": [], "backward": [], "adamw": [], "step": []}
    for run in range(-2, runs):  # two to warm up
        t = [time.perf_counter()]
        loss = model(x, y)
        t.append(time.perf_counter())
        loss.backward()
        t.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        t.append(time.perf_counter())
        if run >= 0:
            for k, name in enumerate(("forward", "backward", "adamw")):
                times[name].append(t[k + 1] - t[k])
            times["step"].append(t[3] - t[0])
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=list(CASES))
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    rows = []
    for name, (shape, batch, length, runs, quick_runs) in CASES.items():
        if o.only in (None, name):
            for part, t in measure(shape, batch, length, quick_runs if o.quick else runs).items():
                rows.append({"name": f"{name} {part}", "min_ms": min(t) * 1e3, "median_ms": statistics.median(t) * 1e3})
    print(json.dumps({"version": f"PyTorch {torch.__version__}", "threads": o.threads, "rows": rows}))


if __name__ == "__main__":
    main()
