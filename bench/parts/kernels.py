"""Products, elementwise operations and attention on the cpu, beside peers and the peak of the machine."""

from __future__ import annotations

import statistics
from typing import Any

from peers import ELEMENTWISE

from .base import LIBRARIES, Bench, has, least, merge
from .lines import percent, table, verdict

Rates = list[dict[str, float]]  # by round: name of a row -> its rate at the least time


def peak_of(products: Any) -> float:
    """The speed of a loop of multiply-adds, from the rows of bench/products; 0: none."""
    return max((row["peak"] for row in products["rows"] if "peak" in row), default=0.0) if products else 0.0


# ---- products and elementwise operations


def operations(bench: Bench) -> None:
    bench.section(
        "Products and elementwise operations",
        "f32; GFLOP/s or GB/s: the median over rounds of each round's least time; and how many",
        "times faster than the best peer, the median of the rounds' ratios (others share the machine's caches:"
        " rounds differ more than runs).",
        "Bytes count each operand and result once; each run allocates and frees its results.  Share: of the speed"
        " of a plain loop that reads,",
        "copies or adds two arrays of that length in the same run (one, two, more passes).",
    )
    measured = operations_by_round(bench)
    if not measured:
        return
    mine, memory, peers = measured
    ours, unit = rates_of(mine), {row["name"]: row["unit"] for row in mine[0]["rows"]}
    others = {results[0]["version"]: rates_of(results) for results in peers.values() if results and all(results)}
    bench.data["operations"] = {"chainrule": ours, **others, "memory": memory}
    times = times_the_best(ours, others) if others else {}
    cell = lambda rates, name: f"{middle(rates, name):.1f}" if name in rates[0] else "-"
    rows = [
        [
            name,
            unit[name],
            cell(ours, name),
            share_of_memory(name, middle(ours, name), memory),
            *(cell(rates, name) for rates in others.values()),
            *([f"{times[name]:.2f}x" if name in times else "-"] if others else []),
        ]
        for name in ours[0]
    ]
    head = ["operation", "unit", "chainrule", "share", *others, *(["to the best"] if others else [])]
    bench.say(table(head, rows), "")
    for kind, what in (("GFLOP/s", "Products"), ("GB/s", "Elementwise operations and rows")) if others else ():
        of_kind = {name: t for name, t in times.items() if unit[name] == kind}
        slowest = min(of_kind, key=lambda name: of_kind[name])
        mean = statistics.geometric_mean(of_kind.values())
        bench.say(f"{what}: geometric mean {mean:.2f}x, least {of_kind[slowest]:.2f}x ({slowest}).", "")


def operations_by_round(bench: Bench) -> tuple[list[Any], list[Any], dict[str, list[Any]]] | None:
    """By round: our rows, the plain loops of bench/memory, and the rows of each peer; None where ours fail."""
    mine: list[Any] = []
    memory: list[Any] = []
    peers: dict[str, list[Any]] = {name: [] for name in LIBRARIES if has(name)}
    for _ in range(3 if bench.quick else 7):
        parts = [bench.ours(part, quick=True) for part in ("products", "elementwise")]
        memory.append(bench.program("memory", bench.threads))
        if not all(parts) or not memory[-1]:
            return None
        mine.append({"rows": parts[0]["rows"] + parts[1]["rows"]})
        for name, results in peers.items():
            results.append(bench.script("peers.py", name, "--quick"))
    return mine, memory, peers


def rates_of(results: list[Any]) -> Rates:
    return [{row["name"]: row["rate"] * row["median_ms"] / row["min_ms"] for row in r["rows"]} for r in results]


def middle(rates: Rates, name: str) -> float:
    return statistics.median(r[name] for r in rates)


def times_the_best(ours: Rates, others: dict[str, Rates]) -> dict[str, float]:
    """How many times as fast as the best peer of each round: the median of the rounds. A row that no peer has is
    absent."""
    shared = [name for name in ours[0] if any(name in rates[0] for rates in others.values())]
    ratio = lambda i, name: ours[i][name] / max(rates[i][name] for rates in others.values() if name in rates[i])
    return {name: statistics.median(ratio(i, name) for i in range(len(ours))) for name in shared}


def share_of_memory(name: str, rate: float, memory: list[Any]) -> str:
    """The share of a plain loop over as many elements; "" for a product."""
    if name not in ELEMENTWISE:
        return ""
    m, k, passes = ELEMENTWISE[name]
    loop = {1: "read", 2: "copy"}.get(passes, "triad")
    closest = [min(run["rows"], key=lambda row: abs(row["elements"] - m * k)) for run in memory]
    return percent(rate / statistics.median(row[loop] for row in closest))


# ---- attention


def attention(bench: Bench) -> None:
    bench.section(
        "Attention",
        "Causal, f32, 2 x 12 heads of 64; milliseconds, least of all rounds; GFLOP/s count visible pairs once,",
        "4 D forward and 10 D backward.  Share: of the speed of a loop of multiply-adds in the same run.",
    )
    mine, theirs, peak = [], [], 0.0
    for _ in range(bench.rounds):
        mine.append(bench.ours("attention"))
        peak = max(peak, peak_of(bench.program("products", "--json", "--quick", "--only", "square", bench.threads)))
        if has("torch"):
            theirs.append(bench.script("peers.py", "torch", "--only", "attention", *bench.quick_option))
    if not all(mine):
        return
    ours, torch = merge(mine), merge(theirs) if theirs and all(theirs) else {}
    bench.data["attention"] = {"chainrule": ours, "torch": torch}
    ratio = {name: ours[name]["min_ms"] / torch[name]["min_ms"] for name in ours} if torch else {}
    rows = [
        [
            name,
            f"{row['min_ms']:.3f}",
            f"{row['rate']:.0f}",
            percent(row["rate"] / peak) if peak else "",
            *([f"{torch[name]['min_ms']:.3f}", f"{ratio[name]:.2f}x"] if torch else []),
        ]
        for name, row in ours.items()
    ]
    bench.say(table(["ms", "chainrule", "GFLOP/s", "share", *([theirs[0]["version"], "ratio"] if torch else [])], rows))
    bench.say("")
    if torch:
        worst = max(ratio[name] for name in ours if name.endswith("backward"))
        bench.say(f"Forward and backward, the worst length: {verdict(worst, 0.6)}.", "")


def with_without(bench: Bench, kind: str, names: tuple[str, str]) -> list[Any] | None:
    """A kind of bench/with_without.py: its table, and its results."""
    results = [bench.script("with_without.py", kind, *bench.quick_option) for _ in range(bench.rounds)]
    if not all(results):
        return None
    with_ms, without_ms = least(results, "with_ms"), least(results, "without_ms")
    rows = [[name, f"{a:.3g}", f"{(b := without_ms[name]):.3g}", f"{b / a:.2f}x"] for name, a in with_ms.items()]
    bench.say(table(["milliseconds, least of all rounds", *names, "times as long"], rows), "")
    return results


def fused(bench: Bench) -> None:
    bench.section(
        "Attention without a T x T matrix",
        "On the cpu, causal, f32, 2 x 12 heads of 64: fused, and composed of products, mask and softmax.",
    )
    if results := with_without(bench, "attention", ("fused", "composed")):
        bench.data["fused"] = results


# ---- products beside the peak of the machine, and by size


def products(bench: Bench) -> None:
    bench.section(
        "Products and the peak",
        "GFLOP/s, the best of interleaved runs, and the share of the speed of a loop of multiply-adds in the same run",
        "(bf16: of twice that). N: row-major, T: transposed in memory.",
    )
    got = bench.program("products", "--json", *bench.quick_option, bench.threads)
    if not got:
        return
    bench.data["products"] = got
    share = lambda rate, peak: f"{rate:.0f} ({percent(rate / peak)})" if rate else ""
    rows = [
        [
            r["name"],
            r["size"],
            f"{r['peak']:.0f}",
            share(r["ours"], r["peak"]),
            share(r["sgemm"], r["peak"]),
            share(r["bf16"], 2 * r["peak"]),
        ]
        for r in got["rows"]
        if "size" in r
    ]
    bench.say(table(["product", "m x n x k", "peak", "f32", "dnnl_sgemm", "bf16"], rows), "")
    last = got["rows"][-1]
    for kind in ("f32", "bf16"):
        mean, low = 100 * last[kind], 100 * last[f"least_{kind}"]
        bench.say(f"Squares and GPT-2, {kind}: geometric mean {mean:.1f} %, least {low:.1f} %.", "")
    cubes = [
        [str(r["n"]), f"{r['ours_ns']:.0f}", f"{r['sgemm_ns']:.0f}", f"{r['ours_ns'] / r['sgemm_ns']:.2f}x"]
        for r in got["rows"]
        if r["name"] == "cube" and r["sgemm_ns"]
    ]
    if cubes:
        bench.say(table(["cube, one thread", "ns", "dnnl_sgemm ns", "ratio"], cubes), "")
    batches = [
        [f"{r['count']} x {r['n']}^3 {r['layout']}", f"{r['peak']:.0f}", share(r["ours"], r["peak"])]
        for r in got["rows"]
        if r["name"] == "batch"
    ]
    if batches:
        bench.say(table(["batched products", "peak", "f32"], batches), "")


def sizes(bench: Bench) -> None:
    bench.section(
        "Products by size",
        "(N, N) by (N, N) in f32, GFLOP/s: three plain loops on one thread, our cpu kernels, and a GPU of hardware"
        " where there is one.",
        "The plain loops compute only as many rows of a large product as fit into their time.",
    )
    picture = bench.folder / "product-sizes.svg" if bench.folder else None
    options = [*bench.quick_option, *(["--draw", picture] if picture else [])]
    options += ["--sizes", *bench.sizes] if bench.sizes else []
    got = bench.script("product_sizes.py", *options)
    if not got:
        return
    bench.data["sizes"] = got
    cell = lambda row, name: f"{row[name]:.3g}" if name in row else "-"
    times = lambda row: f"{max(row['cpu'], row.get('GPU', 0)) / row['naive']:,.0f}x"
    rows = [[f"{r['size']:,}", *(cell(r, name) for name in ("naive", "cpu", "GPU")), times(r)] for r in got["rows"]]
    gpu = got["device"] if any("GPU" in r for r in got["rows"]) else "GPU: none here"
    head = ["N", "plain loops", f"cpu, {bench.threads} threads", gpu, "the best against plain loops"]
    bench.say(table(head, rows), "")
    if picture and picture.exists():
        bench.say(f"![Products by size]({picture.name})", "")
