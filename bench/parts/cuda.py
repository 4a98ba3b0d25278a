"""An NVIDIA GPU beside PyTorch on it (bench/cuda.py), and the host's part of a step (bench/cuda_host.py).

A row of bench/cuda.py has the work of one call, and by column its milliseconds or, in words, why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .base import Bench, info, python, run_json
from .lines import at_least, percent, table, verdict, within

TITLES = {
    "host": "Microseconds of the host for one small operation, without waiting",
    "matmul": "Products",
    "cpu": "Beside the cpu",
    "attention": "Attention, causal, 16 heads, 16k tokens",
    "bandwidth": "Bandwidth, 64M elements; share: of the quickest copy",
    "train": "GPT-2 124M, a training step",
    "sizes": "GPT-2 124M, a training step of other sizes",
    "kernels": "Every elementwise function, 64M elements; share: of a copy",
}

Rows = dict[str, Any]  # "name dtype" -> the row


def cuda(bench: Bench) -> None:
    bench.section("CUDA")
    got = run_json(python("cuda.py", *bench.quick_option, *bench.cuda), bench.threads)
    if not got:
        bench.say("Went without: no NVIDIA GPU, or no Python extension in this build (make deps).", "")
        return
    bench.data["cuda"] = got
    own = (line.strip() for line in info().splitlines() if line.startswith(f"  {got['device']} "))
    missing = f"; without PyTorch: {got['missing']}" if got["missing"] else ""
    bench.say(
        f"{next(own, got['device'])}; {', '.join(got['versions'])}{missing}.",
        "Random numbers; rates at the median of interleaved rounds (at the least time).",
        "",
    )
    for part in dict.fromkeys(row["part"] for row in got["rows"]):
        cuda_part(bench, part, [row for row in got["rows"] if row["part"] == part])
    if got["error"] is not None:
        bench.say(f"* A product in f32 is wrong by {within(got['error'], 1e-4, 'of its largest element')}.", "")
    if got["left_out"]:
        bench.say(f"Left out, for the time was up: {'; '.join(got['left_out'])}.", "")


# ---- the table of one part


def speed(row: Any, name: str, which: str = "median_ms") -> float:
    """Work a second; 0: not measured."""
    column = row["columns"].get(name)
    return row["work"] / column[which] * 1e3 if isinstance(column, dict) else 0.0


def times_the_best(row: Any) -> float:
    """How many times as fast as the best of PyTorch; not a number where either is missing."""
    best = max((speed(row, name) for name in row["columns"] if name.startswith("PyTorch")), default=0.0)
    return speed(row, "chainrule") / best if best and speed(row, "chainrule") else math.nan


def measured_columns(row: Any) -> dict[str, Any]:
    return {name: column for name, column in row["columns"].items() if isinstance(column, dict)}


def cuda_part(bench: Bench, part: str, rows: list[Any]) -> None:
    """A table with a line for each case, then the failures and the bars."""
    names = list(dict.fromkeys(name for row in rows for name in row["columns"]))
    peers = any(name.startswith("PyTorch") for name in names)
    copy = max((speed(row, name) for row in rows if row["name"] == "copy" for name in names), default=0.0)
    lines = []
    for row in rows:
        line = [f"{row['name']}, {row['dtype']}", "us" if part == "host" else row["unit"]]
        line += [rates(part, row, name) for name in names]
        line += [percent(speed(row, "chainrule") / copy)] if copy else []
        if part in ("train", "sizes"):
            line.append(" / ".join(f"{c['peak_bytes'] / 1e9:.2f}" for c in measured_columns(row).values()))
        lines.append(line + ([f"{times_the_best(row):.2f}x"] if peers else []))
    more = ["share"] if copy else []
    more += ["peak GB, each"] if part in ("train", "sizes") else []
    more += ["to the best"] if peers else []
    bench.say(table([TITLES[part], "unit", *names, *more], lines), "")
    said = [
        f"* {row['name']}, {row['dtype']}, {name}: {why}"
        for row in rows
        for name, why in row["columns"].items()
        if isinstance(why, str)
    ]
    said += bars_of(part, {f"{row['name']} {row['dtype']}": row for row in rows}, copy)
    if said:
        bench.say(*said, "")


def rates(part: str, row: Any, name: str) -> str:
    """A cell: the rate at the median, and at the least time; of part host the microseconds."""
    if not speed(row, name):
        return ""
    shown = lambda rate: f"{1e6 / rate:.2f}" if part == "host" else f"{rate:,.0f}" if rate >= 1e4 else f"{rate:,.4g}"
    return f"{shown(speed(row, name))} ({shown(speed(row, name, 'min_ms'))})"


# ---- bars: each gives no line where its rows or peers are missing


def bars_of(part: str, rows: Rows, copy: float) -> list[str]:
    """The lines on the bars of a part.  copy: the best speed of one, 0 where there is none."""
    if part in ("bandwidth", "kernels"):
        return copy_bars(rows, copy)
    bars: dict[str, Callable[[Rows], list[str]]] = {
        "host": host_bars,
        "matmul": matmul_bars,
        "attention": attention_bars,
        "train": train_bars,
        "sizes": train_bars,
        "cpu": cpu_bars,
    }
    return bars[part](rows)


def our_speeds(rows: Rows) -> dict[str, float]:
    return {name: rate for name, row in rows.items() if (rate := speed(row, "chainrule"))}


def times_as_fast(value: float, bar: float) -> str:
    return f"{value:.2f}x {at_least(value, bar, f'{bar:g}x')}"


def against_pytorch(rows: Rows, what: str, names: Iterable[str], bar: float) -> list[str]:
    found = min(((times, name) for name in names if (times := times_the_best(rows[name])) > 0), default=None)
    if not found:
        return []
    return [f"* {what}, the least ({found[1]}), against the best of PyTorch: {times_as_fast(found[0], bar)}."]


def host_bars(rows: Rows) -> list[str]:
    ours = our_speeds(rows)
    if not ours:
        return []
    slowest = min(ours, key=lambda name: ours[name])
    return [f"* The slowest ({slowest}), called from Python: {within(1e6 / ours[slowest], 3, 'us')}."]


def matmul_bars(rows: Rows) -> list[str]:
    return against_pytorch(rows, "bf16 and TF32", [name for name in rows if not name.endswith(" f32")], 0.97)


def attention_bars(rows: Rows) -> list[str]:
    rate = our_speeds(rows).get("D=128 T=8192 forward bf16")
    forward = [f"* D=128, T=8192, forward: {rate:.0f} TFLOP/s {at_least(rate, 300, '300')}."] if rate else []
    backward = [name for name in rows if "backward" in name]
    return forward + against_pytorch(rows, "Forward and backward", backward, 0.8)


def copy_bars(rows: Rows, copy: float) -> list[str]:
    ours = our_speeds(rows)
    if not ours or not copy:
        return []
    slowest = min(ours, key=lambda name: ours[name])
    share = times_as_fast(ours[slowest] / copy, 0.85)
    return [f"* The least share of a copy ({slowest}): {share}.", *against_pytorch(rows, "All", rows, 1)]


def train_bars(rows: Rows) -> list[str]:
    memory = []
    for name in our_speeds(rows):
        peaks = {column: times["peak_bytes"] for column, times in measured_columns(rows[name]).items()}
        if len(peaks) > 1 and all(peaks.values()):
            ratio = peaks.pop("chainrule") / min(peaks.values())
            memory.append(f"* Peak memory, {name}, against PyTorch: {verdict(ratio, 1)}.")
    return against_pytorch(rows, "Tokens a second", rows, 0.9) + memory


def cpu_bars(rows: Rows) -> list[str]:
    ours = our_speeds(rows)
    lines = []
    for what, one, other, column, bar in (
        ("A product, against the cpu", " x ", " x ", "cpu", 10),
        ("A product, against a plain loop", " x ", "plain loop", "ref", 100),
        ("gelu, against the cpu", "gelu", "gelu", "cpu", 20),
        ("Attention, against one composed of products and softmax", "fused", "composed", "chainrule", 5),
    ):
        a, b = (next((name for name in rows if text in name), "") for text in (one, other))
        rate = speed(rows[b], column) if b else 0.0
        lines += [f"* {what}: {times_as_fast(ours[a] / rate, bar)}."] if a in ours and rate else []
    return lines


# ---- the host's part


def cuda_host(bench: Bench) -> None:
    bench.section("CUDA, the host's part")
    got = run_json(python("cuda_host.py", *bench.quick_option), bench.threads)
    if not got:
        bench.say("Went without: no NVRTC here, or a build without the simulated GPU (make build/.for-nvrtc).", "")
        return
    bench.data["cuda_host"] = got
    rows = [
        [
            name,
            f"{row['launches']:.0f}",
            f"{row['graphs']:.0f}",
            f"{row['median_us']:.0f}",
            f"{row['min_us']:.0f}",
        ]
        for name, row in got["steps"].items()
    ]
    bench.say(
        f"No GPU ran this. A training step of a GPT ({' x '.join(map(str, got['shape']))}: vocabulary, context,"
        f" layers, heads, width; {got['rows']} rows), called from Python, on a driver that takes each",
        "launch and runs none (`tests/cudasim/null.c`): the library's own cost of asking for the work. A real",
        "driver adds its cost of a launch. A recorded step is one graph; its launches are kernels that are noted",
        "anew, the optimizer's.",
        "",
        table(["step", "launches", "graphs", "median us", "least us"], rows),
        "",
    )
