"""When a GPU pays, and the first GPU behind WebGPU."""

from __future__ import annotations

import statistics
from typing import Any

from .base import Bench, has_extension, info
from .lines import at_least, table, within


def curve(bench: Bench) -> None:
    """For each kind of work its time over its size, beside the cpu's."""
    bench.section("When a GPU pays")
    kinds = {
        "matmul": "(N, N) by (N, N)",
        "elementwise": "gelu of N numbers",
        "gpt": "a training step of a GPT of 2 layers N wide, 8 x 64 tokens",
    }
    gpus = [line.strip() for line in info().splitlines() if line.startswith(("  cuda:", "  webgpu:"))]
    if not gpus or not has_extension():
        bench.say("Went without: no GPU, or no Python extension in this build (make deps).", "")
        return
    bench.say(
        f"cpu: {bench.threads} threads; GPU: {gpus[0]}. Milliseconds, one wait for the device per many calls.", ""
    )
    for kind, what in kinds.items():
        got = bench.script("gpu_curve.py", kind, *bench.quick_option)
        if not got:
            continue
        bench.data.setdefault("gpu", {})[kind] = got
        rows = [
            [f"{r['size']:,}", f"{r['cpu_ms']:.3g}", f"{r['gpu_ms']:.3g}", f"{r['cpu_ms'] / r['gpu_ms']:.2g}x"]
            for r in got["rows"]
        ]
        bench.say(table([f"{what}: N", "cpu", "GPU", "cpu / GPU"], rows), "")


def webgpu(bench: Bench) -> None:
    bench.section("The first GPU behind WebGPU")
    results = [bench.program("webgpu", "--json", *bench.quick_option) for _ in range(1 if bench.quick else 2)]
    if not all(results):
        bench.say("Went without: no GPU here.", "")
        return
    unit = {row["name"]: row["unit"] for row in results[0]["rows"] if row}
    best = best_values(results, unit)
    ready = {
        how: statistics.median(bench.program("webgpu", "--open", how) or 0.0 for _ in range(5))
        for how in ("driver", "ours")
    }
    info_line = results[0]["info"]
    bench.data["webgpu"] = {"info": info_line, **best, **{f"ready, {how}": ms for how, ms in ready.items()}}
    bench.say(f"{info_line}; the best of {len(results)} runs.", "")
    bench.say(table(["", "", ""], [[name, f"{value:,.4g}", unit[name]] for name, value in best.items()]), "")
    webgpu_bars(bench, best, ready)


def best_values(results: list[Any], unit: dict[str, str]) -> dict[str, float]:
    """The largest of rates, the least of all else, over runs."""
    rows = [row for got in results for row in got["rows"] if row]
    pick = lambda name: max if unit[name] in ("GFLOP/s", "GB/s") else min
    return {name: pick(name)(row["value"] for row in rows if row["name"] == name) for name in unit}


def webgpu_bars(bench: Bench, best: dict[str, float], ready: dict[str, float]) -> None:
    n = 512 if bench.quick else 1024
    ours = max(best[f"matmul {n}, ours, {how}"] for how in ("workgroup memory", "no workgroup memory"))
    ratio = ours / best[f"matmul {n}, textbook, 16 x 16 tiles"]
    bench.say(f"* matmul {n}: {ratio:.1f} times as fast as the textbook kernel {at_least(ratio, 2, '2')}.")
    for what in ("add", "matmul"):
        bench.say(f"* {what}, recorded and submitted: {within(best[f'{what}, recorded and submitted'], 3, 'us')}.")
    submits, late = (
        within(best["GPT step, submits"], 4, "submits"),
        best["GPT, kernels compiled in the steps after these"],
    )
    bench.say(f"* A GPT step: {submits}; kernels compiled after two steps: {late:.0f}.")
    half = max(best["GPT step, bfloat16"], best["GPT step, float16"]) / best["GPT step"]
    bench.say(f"* A GPT step in half precision, against float32: {within(half, 1.1, 'times as long')}.")
    beyond = within(max(0.0, ready["ours"] - ready["driver"]), 150, "ms")
    bench.say(
        f"* Ready after {ready['ours']:.0f} ms, the driver by itself after {ready['driver']:.0f}: {beyond} beyond it.",
        "",
    )
