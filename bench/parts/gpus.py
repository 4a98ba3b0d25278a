"""When a GPU pays, and the first GPU behind WebGPU."""

from __future__ import annotations

import statistics

from .base import Bench, Missing, Row, has_extension, info


def curve(bench: Bench) -> list[Row]:
    """when a GPU pays: its time over the size of the work, beside the cpu's; one wait for the device per many calls"""
    kinds = {
        "matmul": "(N, N) by (N, N)",
        "elementwise": "gelu of N numbers",
        "gpt": "a step of a GPT of 2 layers N wide",
    }
    gpus = [line.strip() for line in info().splitlines() if line.startswith(("  cuda:", "  webgpu:"))]
    if not gpus or not has_extension():
        raise Missing("no GPU, or no Python extension in this build (make deps)")
    device, rows = gpus[0].split()[0], []
    for kind, what in kinds.items():
        for r in bench.script("gpu_curve.py", kind, "--device", device, *bench.quick_option)["rows"]:
            group = f"{what}, on {device}"
            rows.append(Row(f"N = {r['size']:,}", "ms", r["gpu_ms"], {"cpu": r["cpu_ms"]}, group=group))
    return rows


def webgpu(bench: Bench) -> list[Row]:
    """the first GPU behind WebGPU"""
    results = [bench.program("webgpu", "--json", *bench.quick_option) for _ in range(1 if bench.quick else 2)]
    found = [row for got in results for row in got["rows"] if row]
    rows, book = [], "textbook, 16 x 16 tiles"
    best: dict[str, float] = {}
    for row in found:
        better = max if row["unit"].endswith("/s") else min
        best[row["name"]] = better(row["value"], best.get(row["name"], row["value"]))
    for name, unit in {row["name"]: row["unit"] for row in found if book not in row["name"]}.items():
        other = best.get(f"{name.split(', ours')[0]}, {book}")
        group = "products on webgpu" if other else "" if unit == "ms" else "counts and costs"
        rows.append(Row(name, unit or "number", best[name], {"textbook": other} if other else {}, group=group))
    opened = {how: [bench.program("webgpu", "--open", how) for _ in range(5)] for how in ("driver", "ours")}
    ready = {how: statistics.median(times) for how, times in opened.items()}
    return [*rows, Row("until it is ready", "ms", ready["ours"], {"driver": ready["driver"]})]
