"""The figures of all parts (bench/results.json), and the page that shows them (docs/benchmarks.md).

use: python bench/results.py [--check]      writes the page; --check: only says whether it is current

A part of results.json has the day, the machine, the load before, the command, the versions of the peers, and its
rows (Row of parts/base.py, without empty fields). A part that is measured again replaces its own."""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from parts.base import ROOT, Row

FILE = ROOT / "bench" / "results.json"
PAGE = ROOT / "docs" / "benchmarks.md"

Record = dict[str, Any]

# ---- the file


def as_json(row: Row) -> str:
    filled = {key: value for key, value in dataclasses.asdict(row).items() if value not in ("", None, {})}
    rounded = lambda v: float(f"{v:.6g}") if isinstance(v, float) else v
    for key, value in filled.items():
        filled[key] = {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else rounded(value)
    return json.dumps(filled, ensure_ascii=False)


def save(records: dict[str, Record], path: Path) -> None:
    """One line for each row, so that a change shows which figures changed."""
    parts = []
    for name, record in records.items():
        head = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in record.items() if key != "rows"]
        rows = ",\n   ".join(as_json(row) for row in record["rows"])
        parts.append("\n ".join([f" {json.dumps(name)}: {{", *head, f'  "rows": [\n   {rows}\n  ]}}']))
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def load(path: Path = FILE) -> dict[str, Record]:
    if not path.is_file():
        return {}
    found = json.loads(path.read_text())
    return {
        name: record | {"rows": [Row(**{"ours": None} | row) for row in record["rows"]]}
        for name, record in found.items()
    }


# ---- tables


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def cells(row: Row | None) -> list[str]:
    """Ours with its share, the peers from the best on, the ratio."""
    if row is None:
        return ["", "", ""]
    ours = "-" if row.ours is None else number(row.ours)
    if row.share is not None:
        ours += f" ({row.share:.0%})"
    peers = sorted(row.peers.items(), key=lambda peer: -peer[1] if row.unit.endswith("/s") else peer[1])
    others = [f"{name} {number(value)}" for name, value in peers]
    others += [f"{name}: {why}" for name, why in row.missing.items()]
    ratio = row.ratio
    return [ours, ", ".join(others).replace("|", "/"), "" if ratio is None else f"{ratio:.2f}x"]


def summary(rows: list[Row]) -> list[str]:
    """The cells of a group: geometric means of the shares and of the ratios, and the worst row."""
    ratios = [(ratio, row.what) for row in rows if (ratio := row.ratio)]
    shares = [row.share for row in rows if row.share]
    mean = statistics.geometric_mean
    share = f"{mean(shares):.0%}, least {min(shares):.0%}" if shares else ""
    if not ratios:
        return [share, "", ""]
    least, worst = min(ratios)
    return [share, f"least {least:.2f}x ({worst})", f"{mean(ratio for ratio, _ in ratios):.2f}x"]


def table(head: list[str], lines: list[list[str]]) -> list[str]:
    """A Markdown table; words to the left."""
    rule = "".join("|---" if name in ("peers", "unit") or k == 0 else "|--:" for k, name in enumerate(head))
    return ["| " + " | ".join(head) + " |", rule + "|", *("| " + " | ".join(line) + " |" for line in lines)]


def compared(rows: list[Row], whole: bool, what: str = "") -> list[str]:
    """The table of some rows; columns for AVX2 where it was measured beside the widest instruction set. A group is one
    line, or (whole) a table of its own."""
    narrow = "AVX2" if {"AVX2"} < {row.isa for row in rows} else ""
    head = [what, "unit", "chainrule", "peers", "ratio"] + (["AVX2", "peers", "ratio"] if narrow else [])
    grouped: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: bool(row.group) and not whole):
        key = (row.what, row.unit) if whole or not row.group else (row.group,)
        grouped.setdefault(key, []).append(row)
    lines = []
    for key, some in grouped.items():
        wide, low = ([row for row in some if (row.isa == "AVX2") == bool(k and narrow)] for k in range(2))
        wide, low = (wide, low) if narrow else (some, [])
        if len(key) == 2:
            both = [cells(next(iter(side), None)) for side in (wide, low)]
            name, unit = key
        else:
            both, unit = [summary(side) if side else ["", "", ""] for side in (wide, low)], some[0].unit
            name = f"{key[0]} ({len(wide)})"
            if len(wide) < 2 or not any(map(any, both)):
                continue
        lines.append([name.replace("|", "/"), unit, *both[0], *(both[1] if narrow else [])])
    return table(head, lines)


def tables(rows: list[Row]) -> list[str]:
    """All rows: a table of those by themselves, and one for each group."""
    lines = []
    groups = dict.fromkeys(row.group for row in rows)
    for group in sorted(groups, key=bool):
        lines += [*compared([row for row in rows if row.group == group], True, group), ""]
    return lines


# ---- the page

AREAS: dict[str, tuple[str, tuple[str, ...], str]] = {  # heading -> in words, its parts, its picture
    "Training": (
        "Steps are forward, backward, clipping and AdamW in f32; memory is beyond 16 bytes a parameter, of networks"
        " beyond the process before. In brackets: of a loop of multiply-adds.",
        ("step", "text", "nn", "scripts", "compile", "replays"),
        "",
    ),
    "Language models": (
        "Random weights, batch 1, with a cache; in brackets: of a plain loop over as many bytes as the weights have.",
        ("llm-124m", "llm-135m", "lm", "llm-steps", "lora", "generation", "bpe", "perplexity", "load"),
        "",
    ),
    "Products, elementwise operations and attention": (
        "f32. In brackets: of a loop of multiply-adds (bf16: of twice that), elementwise of a plain loop over memory.",
        ("operations", "attention", "fused", "products", "sizes"),
        "product-sizes.svg",
    ),
    "Layers": (
        "From Python; the least of rounds in turn; with gradients: forward and backward.",
        ("conv", "pool", "rnn"),
        "",
    ),
    "Transforms of functions and linear algebra": (
        "From Python, on one thread; processor time, the least of rounds in turn. JAX is under jit; compiled:"
        " `chainrule.compile` of the same call. Matrices: solve, inv, cholesky and qr; of 8 rows also eigh and svd. The"
        " products of the GPT block in forward mode have 2.08 times the flops of those of the block.",
        ("maths",),
        "",
    ),
    "Small operations, values, files": (
        "One call, the least of all rounds. `bench/everyday.py` defines the letters. Files are in the system's cache.",
        ("dispatch", "python", "value", "chain", "everyday", "files", "size"),
        "value-curve.svg",
    ),
    "GPUs and browsers": (
        "No GPU of hardware has run chainrule yet: `tools/gpu_check.sh OUT` measures where an NVIDIA GPU is."
        " WebGPU ran on a driver made of software; the host's part of CUDA ran on a driver that launches nothing.",
        ("cuda", "cuda_host", "gpu", "webgpu", "web"),
        "",
    ),
}

WIDTH = 120
INTRODUCTION = """\
# Benchmarks

`bench/results.py` writes this page from [bench/results.json](../bench/results.json), which has every figure, also
those without a peer and of groups: "convolutions, forward (5)" is the geometric mean of so many, with the worst.
`python bench/run.py --only PART --write` measures one part again, `make bench` all; `--help` describes them.
chainrule and the peers alternate in one run.

The ratio says how many times better chainrule is than the best peer: in less time, less memory or at a higher rate.
Below 1 the peer is better. The columns AVX2 are from the same machine, limited to that instruction set; the others
use all that it has (AVX-512). A load above 0.7 means that the machine was not quiet.
"""


def page(records: dict[str, Record]) -> str:
    everywhere = common(records)
    lines = [*INTRODUCTION.splitlines(), "", *textwrap.wrap(f"Everywhere: {'; '.join(everywhere)}.", WIDTH)]
    for title, (words, names, picture) in AREAS.items():
        parts = {name: records[name] for name in names if name in records}
        if not parts:
            continue
        lines += ["", f"## {title}", ""]
        lines += [*textwrap.wrap(words, WIDTH), ""] if words else []
        rows = [row for record in parts.values() for row in record["rows"]]
        lines += compared([row for row in rows if row.group or row.peers or row.share], False)
        lines += ["", f"![{title}]({picture})"] if picture else []
        lines += ["", *textwrap.wrap(measured(parts, everywhere), WIDTH)]
    return "\n".join(lines) + "\n"


def circumstances(record: Record) -> list[str]:
    """Where a part was measured, and beside which versions."""
    peers = [f"{name} {version}" for name, version in record["peers"].items()]
    threads = record["threads"]
    return [record["machine"], f"{threads} thread{'s' * (threads > 1)}", *peers]


def common(records: dict[str, Record]) -> list[str]:
    """What all parts share: the machine, the versions of peers of which there is one."""
    every = list(dict.fromkeys(c for record in records.values() for c in circumstances(record)))
    kind = lambda c: next((word for word in ("processors", "thread") if word in c), c.split()[0])
    return [c for c in every if sum(kind(other) == kind(c) for other in every) == 1]


def measured(parts: dict[str, Record], everywhere: list[str]) -> str:
    """When the parts of an area were measured, and where, unless that is the same everywhere."""
    own = lambda record: [c for c in circumstances(record) if c not in everywhere]
    when = lambda item: (item[1]["date"], *own(item[1]))
    found = []
    for where, some in groupby(sorted(parts.items(), key=when), key=when):
        names = ", ".join(f"{name} (load {record['load']:g})" for name, record in some)
        found.append(f"{', '.join(where)}: {names}.")
    return "Measured " + " ".join(found)


def problems(records: dict[str, Record]) -> Iterable[str]:
    known = {name for _, names, _ in AREAS.values() for name in names}
    yield from (f"part {name} is in no area of the page" for name in records if name not in known)
    if PAGE.read_text() != page(records):
        yield f"{PAGE.relative_to(ROOT)} is not what results.json gives: python bench/results.py"


def main() -> int:
    records = load()
    if sys.argv[1:] == ["--check"]:
        wrong = list(problems(records))
        print(*wrong, sep="\n", end="\n" if wrong else "")
        return bool(wrong)
    PAGE.write_text(page(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
