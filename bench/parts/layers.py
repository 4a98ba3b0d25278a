"""Convolutions, pooling and recurrent networks from Python, beside PyTorch and JAX."""

from __future__ import annotations

import math
import statistics

from .base import LIBRARIES, Bench, has
from .kernels import peak_of
from .lines import percent, table


def conv(bench: Bench) -> None:
    bench.section(
        "Convolutions",
        "Forward, and forward with both gradients, from Python: the least of rounds in turn; GFLOP/s and the share",
        "of a loop of multiply-adds (the peak of the part products). `bench/conv.py` has the shapes.",
    )
    got = bench.turns("conv.py")
    speeds = bench.program("products", "--json", "--quick", bench.threads)
    if not got or not speeds:
        return
    bench.data["conv"] = got
    peak = peak_of(speeds)
    peers = [library for library in got["rows"][0]["ms"] if library != "chainrule"]
    rows, ratios = [], []
    for r in got["rows"]:
        ours = r["ms"]["chainrule"]
        rate = r["flops"] / ours / 1e6
        ratios.append(r["ms"].get("torch", math.nan) / ours)
        rows.append(
            [
                f"{r['name']}, {'forward' if r['what'] == 'forward' else 'with gradients'}",
                f"{ours:.2f} ms",
                f"{rate:.0f} ({percent(rate / peak)})",
                *(f"{r['ms'][p]:.2f} ms ({r['ms'][p] / ours:.2f}x)" for p in peers),
            ]
        )
    bench.say(table(["convolution", "chainrule", "GFLOP/s", *(LIBRARIES[p] for p in peers)], rows), "")
    if "torch" in peers:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        bench.say(f"PyTorch over chainrule: geometric mean {mean:.2f}x, least {min(ratios):.2f}x.", "")


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
        "2 layers of 256, 64 time steps, batch 32: milliseconds, least of all rounds; the libraries alternate.",
        "Share of the peak: of the rate of a product 1024 x 1024 x 1024 in the same rounds.",
    )
    got = [bench.script("rnn.py", *bench.quick_option) for _ in range(bench.rounds)]
    if not all(got):
        bench.say("Failed.", "")
        return
    names, lines = list(got[0]["versions"]), []
    for rows in zip(*(g["rows"] for g in got), strict=True):
        ms = {name: min(row["ms"][name] for row in rows) for name in names}
        share = statistics.median(row["peak"] for row in rows)
        lines.append([rows[0]["name"], *(f"{ms[name]:.1f}" for name in names), percent(share)])
        bench.data[rows[0]["name"]] = ms
    head = [f"{LIBRARIES.get(name, name)} {got[0]['versions'][name]}" for name in names]
    bench.say(table(["ms", *head, "of the peak"], lines), "")
    for kind in ("LSTM", "GRU") if "torch" in names else ():
        ms = bench.data[f"{kind}, step"]
        bench.compare(f"{kind}, a training step", ms["chainrule"], {"torch": ms["torch"]}, 0.6)
    bench.say("")
