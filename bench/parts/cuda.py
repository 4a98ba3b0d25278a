"""An NVIDIA GPU beside PyTorch on it (bench/cuda.py), and the host's part of a step (bench/cuda_host.py).

A row of bench/cuda.py has the work of one call, and by column its milliseconds or, in words, why there are none."""

from __future__ import annotations

from typing import Any

from .base import Bench, Row, beside, python, run_json

TITLES = {
    "host": "The host's time for one small operation, without waiting",
    "matmul": "Products",
    "cpu": "Beside the cpu",
    "attention": "Attention, causal, 16 heads, 16k tokens",
    "bandwidth": "Bandwidth, 64M elements; share: of the quickest copy",
    "train": "GPT-2 124M, a training step",
    "sizes": "GPT-2 124M, a training step of other sizes",
    "kernels": "Every elementwise function, 64M elements; share: of a copy",
}


def cuda(bench: Bench) -> list[Row]:
    """an NVIDIA GPU beside PyTorch on it: random numbers; rates at the median of interleaved rounds"""
    got = run_json(python("cuda.py", *bench.quick_option, *bench.cuda), bench.threads)
    rows = []
    for part in dict.fromkeys(row["part"] for row in got["rows"]):
        mine = [row for row in got["rows"] if row["part"] == part]
        copy = max((rate for row in mine if row["name"] == "copy" for rate in speeds(row).values()), default=0.0)
        for row in mine:
            rows += rows_of(row, part, copy)
    left_out = {"chainrule": "the time was up"}
    rows += [Row(name, "", None, group="Left out", missing=left_out) for name in got["left_out"]]
    if got["error"] is not None:
        rows.append(Row("CUDA, error of a product in f32", "of the largest element", got["error"]))
    return rows


def speeds(row: Any) -> dict[str, float]:
    """Column -> work a second."""
    return {name: row["work"] / c["median_ms"] * 1e3 for name, c in row["columns"].items() if isinstance(c, dict)}


def rows_of(row: Any, part: str, copy: float) -> list[Row]:
    """The speed, or the microseconds of part host; of a training step its peak memory too."""
    columns, group = row["columns"], TITLES[part]
    missing = {name: why for name, why in columns.items() if isinstance(why, str)}
    what, found = f"{row['name']}, {row['dtype']}", speeds(row)
    if "chainrule" not in found:
        return [Row(what, row["unit"], None, found, group=group, missing=missing)]
    share = found["chainrule"] / copy if copy else None
    unit = row["unit"]
    if part == "host":
        unit, found = "us", {name: 1e6 / rate for name, rate in found.items()}
    rows = [beside(what, unit, found, share=share, group=group, missing=missing)]
    if part in ("train", "sizes"):
        peaks = {name: c["peak_bytes"] / 1e9 for name, c in columns.items() if isinstance(c, dict) and c["peak_bytes"]}
        rows += [beside(f"{what}, memory", "GB", peaks, group=f"{group}, memory")] if "chainrule" in peaks else []
    return rows


def cuda_host(bench: Bench) -> list[Row]:
    """the host's cost of a step on such a GPU, measured without one

    On a driver that takes each launch and runs none (tests/cudasim/null.c): the library's own cost of asking for the
    work. A recorded step is one graph; its launches are kernels that are noted anew, the optimizer's."""
    got = run_json(python("cuda_host.py", *bench.quick_option), bench.threads)
    rows = []
    for name, row in got["steps"].items():
        what = f"GPT-2 124M, {got['rows']} rows, {name}, the host's part"
        rows.append(Row(what, "us", row["median_us"], group="" if name == "bf16, recorded" else "the host's part"))
        rows.append(Row(f"{what}, launches", "number", row["launches"], group="launches"))
    return rows
