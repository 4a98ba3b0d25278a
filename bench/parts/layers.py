"""Convolutions, pooling and recurrent networks from Python, beside PyTorch and JAX."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

from .base import LIBRARIES, Bench, has, isas, some
from .kernels import peak_of
from .lines import percent, reached, table


def rated(bench: Bench, script: str) -> Iterator[tuple[str, Any, float]]:
    """Of each instruction set: its name, the JSON of a script, and GFLOP/s of a loop of multiply-adds."""
    for isa, got in bench.turns_by_isa(script).items():
        yield isa, got, peak_of(bench.program("products", "--json", "--quick", bench.threads, env=isas()[isa]))


def conv(bench: Bench) -> None:
    bench.section(
        "Convolutions",
        f"{bench.turns_words()}: forward, and forward with both gradients, from Python; GFLOP/s and the share",
        "of a loop of multiply-adds (the peak of the part products). `bench/conv.py` has the shapes.",
    )
    for isa, got, peak in rated(bench, "conv.py"):
        bench.data[f"conv, {isa}"] = got
        peers = [library for library in got["rows"][0]["ms"] if library != "chainrule"]
        rows, ratios = [], []
        for r in got["rows"]:
            ours = r["ms"]["chainrule"]
            rate = r["flops"] / ours / 1e6
            ratios.append(r["ms"].get("torch", math.nan) / ours)
            rows.append(
                [
                    f"{r['name']}, {'forward' if r['what'] == 'forward' else 'with gradients'}",
                    f"{ours:.2f}",
                    f"{rate:.0f} ({percent(rate / peak)})",
                    *(f"{r['ms'][p]:.2f} ({r['ms'][p] / ours:.2f}x)" for p in peers),
                ]
            )
        bench.say(table([isa, "chainrule", "GFLOP/s", *(LIBRARIES[p] for p in peers)], rows), "")
        if "torch" in peers:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            bench.say(reached(f"PyTorch over chainrule, {isa}, geometric mean", mean, 1.3))
            bench.say(reached(f"the least, {isa}", min(ratios), 1.0), "")


def pool(bench: Bench) -> None:
    bench.section(
        "Pooling, resampling and normalization",
        f"{bench.turns_words()}: forward, and forward with all gradients. x (16, 64, 56, 56),",
        "s (32, 512, 4, 4), t (32, 256, 512); w and b of their channels.",
    )
    got = bench.turns("pool.py")
    if not got:
        bench.say("Failed.", "")
        return
    bench.data["pool"] = got
    peers = [library for library in ("torch", "jax") if has(library)]
    ratios: dict[str, list[tuple[float, str]]] = {library: [] for library in peers}
    rows = []
    for forward, both in zip(got["rows"][::2], got["rows"][1::2], strict=True):
        row = [f"`{forward['name']}`"]
        for r in (forward, both):
            ours = r["ms"]["chainrule"]
            row.append(f"{ours:.3f}")
            for library in peers:
                theirs = r["ms"].get(library)
                row.append("-" if theirs is None else f"{theirs:.3f} ({ours / theirs:.2f}x)")
                ratios[library] += [] if theirs is None else [(ours / theirs, r["name"])]
        rows.append(row)
    names = [LIBRARIES[library] for library in peers]
    bench.say(table(["call", "chainrule", *names, "with gradients", *names], rows), "")
    bench.say("In brackets: ours over theirs. -: no plain equivalent.", "")
    for library in peers:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios[library]))
        worst, name = max(ratios[library])
        bench.say(f"Against {LIBRARIES[library]}: geometric mean {mean:.2f}x, the most {worst:.2f}x (`{name}`).", "")


def rnn(bench: Bench) -> None:
    bench.section(
        "Recurrent networks",
        f"2 layers of 256, 64 time steps, batch 32. {bench.turns_words()}.",
        "In brackets the share of a loop of multiply-adds (the peak of the part products).",
    )
    for isa, got, peak in rated(bench, "rnn.py"):
        bench.data[f"rnn, {isa}"] = got
        lines = []
        for r in got["rows"]:
            shares = {library: r["flops"] / ms / 1e6 / peak for library, ms in r["ms"].items()}
            each = [f"{ms:.1f} ({percent(shares[library])})" for library, ms in r["ms"].items()]
            lines.append([f"{r['name']}, {r['what']}", *each])
        bench.say(table([f"ms, {isa}", *got["versions"]], lines), "")
        for r in got["rows"]:
            if r["what"] == "step":
                bench.compare(f"{r['name']}, a training step, {isa}", r["ms"]["chainrule"], some(r["ms"], "torch"), 0.6)
        bench.say("")
