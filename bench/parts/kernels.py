"""Products, elementwise operations and attention on the cpu, beside peers and the peak of the machine."""

from __future__ import annotations

import statistics
from typing import Any

from peers import ELEMENTWISE

from .base import LIBRARIES, Bench, Row, beside, has, least, merge

SQUARES = "products: squares and GPT-2's shapes"


def peak_of(products: Any) -> float:
    """The speed of a loop of multiply-adds, from the rows of bench/products."""
    return max(row["peak"] for row in products["rows"] if "peak" in row)


# ---- products and elementwise operations


def operations(bench: Bench) -> list[Row]:
    """products, elementwise operations and rows

    Rates: the median over rounds of each round's least time. Bytes count each operand and result once; each run
    allocates and frees its results. The share is that of a plain loop that reads, copies or adds two arrays of
    that length."""
    mine: list[Any] = []
    memory: list[Any] = []
    peers: dict[str, list[Any]] = {name: [] for name in LIBRARIES if has(name)}
    for _ in range(3 if bench.quick else 7):
        parts = [bench.ours(part, quick=True) for part in ("products", "elementwise")]
        memory.append(bench.program("memory", bench.threads))
        mine.append({"rows": parts[0]["rows"] + parts[1]["rows"]})
        for name, results in peers.items():
            results.append(bench.script("peers.py", name, "--quick"))
    ours, others = middle(mine), {name: middle(results) for name, results in peers.items()}
    unit = {row["name"]: row["unit"] for row in mine[0]["rows"]}
    rows = []
    for name, rate in ours.items():
        values = {"chainrule": rate} | {peer: rates[name] for peer, rates in others.items() if name in rates}
        share = share_of_memory(name, rate, memory)
        rows.append(beside(name, unit[name], values, share=share, group=group_of(name)))
    return rows


def group_of(name: str) -> str:
    if name not in ELEMENTWISE:
        return "products and linear layers"
    return "elementwise operations" if name.split()[0] in ("add", "exp", "tanh", "gelu", "relu") else "sums and rows"


def middle(results: list[Any]) -> dict[str, float]:
    """Name of a row -> the median over rounds of its rate at the least time."""
    rates = [{row["name"]: row["rate"] * row["median_ms"] / row["min_ms"] for row in r["rows"]} for r in results]
    return {name: statistics.median(r[name] for r in rates) for name in rates[0]}


def share_of_memory(name: str, rate: float, memory: list[Any]) -> float | None:
    """The share of a plain loop over as many elements; None for a product."""
    if name not in ELEMENTWISE:
        return None
    m, k, passes = ELEMENTWISE[name]
    loop = {1: "read", 2: "copy"}.get(passes, "triad")
    closest = [min(run["rows"], key=lambda row: abs(row["elements"] - m * k)) for run in memory]
    return rate / statistics.median(row[loop] for row in closest)


# ---- attention


def attention(bench: Bench) -> list[Row]:
    """attention, forward and backward

    Causal, f32, 2 x 12 heads of 64. Visible pairs count once, 4 D forward and 10 D backward; the share is that of a
    loop of multiply-adds."""
    mine, theirs, peak = [], [], 0.0
    for _ in range(bench.rounds):
        mine.append(bench.ours("attention"))
        peak = max(peak, peak_of(bench.program("products", "--json", "--quick", "--only", "square", bench.threads)))
        if has("torch"):
            theirs.append(bench.script("peers.py", "torch", "--only", "attention", *bench.quick_option))
    ours, torch = merge(mine), merge(theirs) if theirs else {}
    rows = []
    for name, row in ours.items():
        values = {"chainrule": row["min_ms"]} | ({"torch": torch[name]["min_ms"]} if torch else {})
        group = f"attention, {name.split()[-1]}"
        rows.append(beside(name, "ms", values, share=row["rate"] / peak, group=group))
    return rows


def with_without(bench: Bench, kind: str, what: str, other: str) -> list[Row]:
    """A kind of bench/with_without.py: each row beside the other way."""
    results = [bench.script("with_without.py", kind, *bench.quick_option) for _ in range(bench.rounds)]
    with_ms, without_ms = least(results, "with_ms"), least(results, "without_ms")
    return [Row(name, "ms", ms, {other: without_ms[name]}, group=what) for name, ms in with_ms.items()]


def fused(bench: Bench) -> list[Row]:
    """attention, and composed of products, mask and softmax, on the cpu"""
    return with_without(bench, "attention", "attention, fused", "composed")


# ---- products beside the peak of the machine, and by size


def products(bench: Bench) -> list[Row]:
    """shares of the peak, which is a loop of multiply-adds in the same run; bf16: of twice that

    N: row-major, T: transposed in memory."""
    got = bench.program("products", "--json", *bench.quick_option, bench.threads)["rows"]
    rows = []
    for r in (r for r in got if "size" in r):
        name = f"{r['name']} {r['size']}"
        large = r["name"] == "square" or r["name"].startswith("GPT-2")
        group = f"{SQUARES}, {{}}" if large else "products: other shapes"
        peers = {"dnnl_sgemm": r["sgemm"]} if r["sgemm"] else {}
        rows.append(Row(name, "GFLOP/s", r["ours"], peers, share=r["ours"] / r["peak"], group=group.format("f32")))
        if r["bf16"]:
            half = r["bf16"] / r["peak"] / 2
            rows.append(Row(f"{name}, bf16", "GFLOP/s", r["bf16"], share=half, group=group.format("bf16")))
    for r in got:
        if r["name"] == "cube" and r["sgemm_ns"]:
            peers = {"dnnl_sgemm": r["sgemm_ns"]}
            rows.append(Row(f"cube of {r['n']}", "ns", r["ours_ns"], peers, group="products: cubes, one thread"))
        elif r["name"] == "batch":
            what, share = f"{r['count']} x {r['n']}^3 {r['layout']}", r["ours"] / r["peak"]
            rows.append(Row(what, "GFLOP/s", r["ours"], share=share, group="products: batches"))
    return rows


def sizes(bench: Bench) -> list[Row]:
    """products of 128 to 4096 by plain loops, cpu and GPU; --sizes chooses

    The plain loops run on one thread and compute only as many rows of a large product as fit into their time."""
    draw = ["--draw", bench.pictures / "product-sizes.svg"] if bench.pictures else []
    options = ["--sizes", *bench.sizes] if bench.sizes else []
    got = bench.script("product_sizes.py", *bench.quick_option, *draw, *options)
    rows = []
    for r in got["rows"]:
        for name, device in (("cpu", "cpu"), ("GPU", got["device"])):
            if name in r:
                what, group = f"{r['size']:,} on {device}", f"products by size, {device}"
                rows.append(Row(what, "GFLOP/s", r[name], {"plain loops": r["naive"]}, group=group))
    return rows
