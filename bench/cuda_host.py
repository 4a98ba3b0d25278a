#!/usr/bin/env python3
"""What a training step of GPT-2 124M on CUDA costs the host, without a GPU: the driver of tests/cudasim/null.c takes
every launch and runs none, and the true NVRTC has compiled the kernels.

use: python bench/cuda_host.py [--quick] [--steps 50]        CHAINRULE_BUILD: the build (build/release); prints JSON

The time is the library's own, with Python's calls: a real driver adds its cost of a launch, or of a graph."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))


def environment() -> str:
    """Switches to the driver that launches nothing; its path."""
    found = sorted((ROOT / "build/nvrtc/nvidia/cu13/lib").glob("libnvrtc.so.*"))
    driver = BUILD / "cudasim/null/libcuda.so.1"
    if not found or not driver.exists():
        sys.exit("needs make build/.for-nvrtc, and a build with the simulated GPU (tests/cudasim)")
    os.environ |= {
        "CHAINRULE_CUDA": str(driver),
        "CHAINRULE_NVRTC": str(found[0]),
        "CHAINRULE_CUBLASLT": str(BUILD / "cudasim/libcublasLt.so.13"),
        "CHAINRULE_CACHE": str(BUILD / "cudasim/cache-nvrtc"),
        "CHAINRULE_WGPU": "off",
        "CUDASIM_CC": "90",
    }
    return str(driver)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int, default=50)
    o = parser.parse_args()
    driver = ctypes.CDLL(environment())
    driver.cudasim_count.restype = ctypes.POINTER(ctypes.c_longlong)  # control.h: member 0 launches, 8 graphs
    cr = importlib.import_module("chainrule")
    shape, rows = ((65, 16, 2, 2, 16), 2) if o.quick else ((50257, 1024, 12, 12, 768), 16)
    found = {}
    for name, dtype, recorded in (
        ("bf16", cr.bfloat16, False),
        ("f32", None, False),
        ("bf16, recorded", cr.bfloat16, True),
        ("f32, recorded", None, True),
    ):
        model = cr.models.GPT(*shape, device="cuda", dtype=dtype)
        optimizer = cr.optim.AdamW(model.parameters(), lr=1e-4)
        x, y = (cr.randint(0, shape[0], (rows, shape[1]), device="cuda") for _ in range(2))

        def step(model=model, optimizer=optimizer, x=x, y=y) -> None:
            model.loss(x, y).backward()
            optimizer.step()
            optimizer.zero_grad()

        if recorded:
            step = cr.compile(step)
        for _ in range(5):  # kernels are compiled, memory is taken; recorded, run once one by one, made a graph
            step()
        times, before, graphs = [], driver.cudasim_count()[0], driver.cudasim_count()[8]
        for _ in range(o.steps):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        launches = (driver.cudasim_count()[0] - before) / o.steps  # with those noted anew in a graph
        found[name] = {
            "launches": launches,
            "graphs": (driver.cudasim_count()[8] - graphs) / o.steps,
            "median_us": statistics.median(times) * 1e6,
            "min_us": min(times) * 1e6,
        }
    print(json.dumps({"shape": shape, "rows": rows, "device": str(cr.Device("cuda")), "steps": found}))


if __name__ == "__main__":
    main()
