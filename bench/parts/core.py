"""The core of the library: one small op from C, values, a long chain, files, and the size of the library."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from .base import BUILD, ROOT, Bench, has, least, python, run_json, stripped_copy
from .lines import at_most, table, within


def dispatch(bench: Bench) -> None:
    bench.section("One small op from C")
    results = [bench.program("dispatch", "--json", threads=1) for _ in range(bench.rounds)]
    if not all(results):
        return
    found = bench.data["dispatch"] = least(results, "ns")
    bench.say(table(["least of all rounds", "ns a call"], [[name, f"{ns:.0f}"] for name, ns in found.items()]), "")
    ns = found["add, 1 element"]
    bench.say(f"One element added to one: {ns:.0f} ns {at_most(ns, 60, '60 ns')}.", "")


# ---- values


def value(bench: Bench) -> None:
    bench.section("Values")
    counts = (10_000, 1_000_000 if bench.quick else 10_000_000)
    graphs = [bench.program("value", nodes, "--json", threads=1) for nodes in counts]
    if not all(graphs):
        return
    rows = [
        [f"{r['nodes']:,} nodes", *(f"{r[k]:.1f}" for k in ("record_ns", "backward_ns", "free_ns", "bytes"))]
        for r in graphs
    ]
    rows[0][-1] = ""  # a small graph does not fill the first slab
    bench.say(table(["C, ns a node", "multiply and record", "backward", "free", "bytes a node"], rows), "")
    bench.data["value"] = {"c": graphs, "python": value_in_python(bench), "curve": value_curve(bench)}


def value_in_python(bench: Bench) -> dict[str, dict[str, float]]:
    """What is timed -> engine -> the least seconds: chainrule, and micrograd where it is installed."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(bench.rounds):
        for engine in ("chainrule", *(["micrograd"] if has("micrograd") else [])):
            for name, seconds in (run_json(python("value.py", engine), 1) or {}).items():
                row = found.setdefault(name, {})
                row[engine] = min(row.get(engine, seconds), seconds)
    engines = list(next(iter(found.values()), {}))
    rows = [
        [
            name,
            *(f"{row[e] * 1e6:,.3f}" for e in engines),
            *([f"{row['micrograd'] / row['chainrule']:.0f}x"] if "micrograd" in row else []),
        ]
        for name, row in found.items()
    ]
    bench.say(table(["Python, microseconds", *engines, *(["times"] if len(engines) > 1 else [])], rows), "")
    for what, bar in (("a * b", 0.06e-6), ("moons step", 3e-3)):
        if what in found:
            bench.compare(what, found[what]["chainrule"], {f"{bar * 1e6:g} microseconds": bar}, 1)
    return found


def value_curve(bench: Bench) -> Any:
    """Times by the number of elements, with the picture of docs/."""
    picture = ROOT / "docs" / "value-curve.svg"
    curve = run_json(python("value.py", "curve", "--draw", picture), bench.threads)
    if not curve:
        return curve
    counts = sorted({int(n) for line in curve.values() for n in line})
    cell = lambda line, n: f"{line[str(n)] * 1e6:,.1f}" if str(n) in line else ""
    rows = [[f"{n:,}", *(cell(line, n) for line in curve.values())] for n in counts]
    bench.say(
        "",
        "tanh(x * x + x) (summed for a tensor) and its gradient: microseconds by the number of elements.",
        "",
        table(["elements", *curve], rows),
        "",
        f"![Time by number of elements]({picture.name})",
        "",
    )
    return curve


# ---- a chain, files, size


def chain(bench: Bench) -> None:
    n = 1_000_000 if bench.quick else 10_000_000
    bench.section("A chain of operations")
    got = bench.program("chain", n, "--json")
    if not got:
        return
    bench.data["chain"] = got
    gradient = "right" if got["right"] else "WRONG"
    bench.say(
        f"{n:,} additions in one chain: built in {got['build_s']:.2f} s, differentiated in {got['backward_s']:.2f} s,",
        f"freed in {got['free_s']:.2f} s; peak memory {got['peak_rss'] / 2**30:.2f} GiB; the gradient is {gradient}.",
        "",
    )


def files(bench: Bench) -> None:
    bench.section(
        "Files",
        "Written as always (fsync, then renamed) and read back from the system's cache; the least of several runs.",
    )
    with tempfile.TemporaryDirectory() as folder:
        got = bench.program("files", "--json", *bench.quick_option, folder)
    if not got:
        return
    bench.data["files"] = got
    rows = [[row["name"], f"{row['ms']:.3g}", f"{row['rate']:.3g}" if row["rate"] else ""] for row in got["rows"]]
    what = f"{got['megabytes']:,.0f} MB of weights, {got['tokens'] / 1e6:,.0f} million tokens"
    bench.say(table([what, "ms", "GB/s"], rows), "")


def size(bench: Bench) -> None:
    bench.section("Size")
    library = next(iter(sorted(BUILD.glob("libchainrule.so*"))), None)
    if not library:
        bench.say("No shared library in this build.", "")
        return
    with tempfile.TemporaryDirectory() as folder:
        count = stripped_copy(library, Path(folder)).stat().st_size
    bench.data["size"] = count
    bench.say(f"libchainrule.so, stripped: {within(count / 1e6, 6, 'MB')}.", "")
