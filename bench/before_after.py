#!/usr/bin/env python3
"""Two builds of chainrule in turn: every line of our own benches, before a change and after it.

use: before_after.py BEFORE AFTER [--rounds 5] [--threads 2] [--only PART ...]

BEFORE and AFTER are source folders, each with its build in build/release.  A line's time is the
least of all rounds.  What is slower than --bar is measured again, with twice the rounds, before it
is listed: the least of few runs differs by more than that from process to process."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import everyday

PROGRAM = {
    part: ["build/release/chainrule", "bench", "--json", "--only", part]
    for part in ("char", "char6", "gpt2", "products", "attention", "elementwise")
}
COMMANDS: dict[str, list[str]] = {
    **PROGRAM,
    "char, fused step": [*PROGRAM["char"], "--fuse-step"],
    "char6, bf16": [*PROGRAM["char6"], "--dtype", "bf16"],
    "gpt2, bf16": [*PROGRAM["gpt2"], "--dtype", "bf16"],
    "dispatch": ["build/release/bench/dispatch", "--json"],
    "value": ["build/release/bench/value", "10000", "--json"],
    "chain": ["build/release/bench/chain", "1000000", "--json"],
    "product shapes": ["build/release/bench/products", "--json", "2"],
    "files": ["build/release/bench/files", "--json", tempfile.gettempdir()],
    "small": [sys.executable, "bench/small.py", "chainrule"],
    "import": [sys.executable, "bench/import_cost.py", "chainrule", "5"],
    "loader": [sys.executable, "bench/loader.py", "chainrule"],
    "step from Python": [sys.executable, "bench/step_python.py", "char"],
    "fused": [sys.executable, "bench/with_without.py", "attention"],
    "generation": [sys.executable, "bench/with_without.py", "generation"],
}
PARTS = [*COMMANDS, "everyday"]
RATES = ("ours", "bf16")  # GFLOP/s of bench/products; all else that is read is a time
Times = dict[str, float]


def run(tree: Path, command: list[str], threads: int) -> Any:
    """The JSON that the command prints, in its tree."""
    env = {**os.environ, "CHAINRULE_NUM_THREADS": str(threads), "PYTHONPATH": str(tree / "build/release/python")}
    words = [str(tree / command[0]), *command[1:]] if command[0] != sys.executable else command
    return json.loads(subprocess.run(words, cwd=tree, env=env, check=True, capture_output=True, text=True).stdout)


def times_of(result: Any) -> Times:
    """Every time in it by its line's name; a rate counts as the time of one unit of work."""
    found: Times = {}
    for row in result.get("rows", [result]):
        name = " ".join(str(row[key]) for key in ("name", "n", "count", "size", "layout") if key in row)
        for key, value in row.items():
            if key in RATES and row["name"] != "mean" and value:
                found[f"{name}, {key}".strip()] = 1 / value
            elif key.endswith(("ns", "ms", "_s", "seconds")) and not key.startswith(("median", "sgemm")) and value:
                found[f"{name}, {key}"] = value
    return found


def compared(trees: list[Path], part: str, rounds: int, threads: int) -> list[Times]:
    """For each tree the least times of a part; the trees in turn."""
    least: list[Times] = [{}, {}]
    for k in range(rounds):
        for which in (0, 1) if k % 2 == 0 else (1, 0):
            for name, t in times_of(run(trees[which], COMMANDS[part], threads)).items():
                least[which][name] = min(t, least[which].get(name, t))
    return least


def compared_calls(trees: list[Path], calls: list[str], rounds: int, threads: int) -> list[Times]:
    """The same for the calls of bench/everyday.py, in new processes each round."""
    least: list[Times] = [{}, {}]
    for _ in range(rounds):
        before, after = (str(tree / "build/release/python") for tree in trees)
        pair = everyday.Pair(threads, (("chainrule", before), ("chainrule", after)))
        for row in everyday.rows(pair, calls, 3, 0.02):
            for size in everyday.SIZES:
                if not isinstance(row[size], str):
                    for which in (0, 1):
                        name, t = f"{row['call']}, {size}", row[size][which]
                        least[which][name] = min(t, least[which].get(name, t))
        pair.close()
    return least


def ratios(least: list[Times]) -> Times:
    """After over before, of the lines that both have."""
    before, after = least
    return {name: after[name] / before[name] for name in before if name in after}


def measured(trees: list[Path], part: str, rounds: int, threads: int, bar: float) -> list[Times]:
    """The least times of a part; what is slower than the bar has three times the rounds."""
    calls = everyday.CALLS
    least = (
        compared_calls(trees, calls, rounds, threads) if part == "everyday" else compared(trees, part, rounds, threads)
    )
    slower = {name for name, ratio in ratios(least).items() if ratio > bar}
    if not slower:
        return least
    if part == "everyday":
        again = [call for call in calls if any(f"{call}, {size}" in slower for size in everyday.SIZES)]
        more = compared_calls(trees, again, 2 * rounds, threads)
    else:
        more = compared(trees, part, 2 * rounds, threads)
    return [{name: min(t, new.get(name, t)) for name, t in old.items()} for old, new in zip(least, more, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Two builds of chainrule in turn.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bar", type=float, default=1.03, help="lines slower than this are measured again and listed")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    o = parser.parse_args()
    everything: list[float] = []
    for part in o.only:
        least = measured([o.before.resolve(), o.after.resolve()], part, o.rounds, o.threads, o.bar)
        got = ratios(least)
        everything += got.values()
        print(f"{part}: {len(got)} lines, geometric mean {statistics.geometric_mean(got.values()):.3f}", flush=True)
        for name, ratio in sorted(got.items(), key=lambda pair: -pair[1]):
            if ratio > o.bar:
                print(f"  {ratio:.3f}  {name}: {least[0][name]:.4g} -> {least[1][name]:.4g}", flush=True)
    mean, above = statistics.geometric_mean(everything), sum(r > o.bar for r in everything)
    print(f"all: {len(everything)} lines, geometric mean {mean:.3f}, {above} above {o.bar}")


if __name__ == "__main__":
    main()
