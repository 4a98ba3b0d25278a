"""The library from Python: small ops and the import, nn and optim, every op, whole networks, recorded steps."""

from __future__ import annotations

import math
import sys
from typing import Any

from cases import CASES

from .base import (
    Bench,
    Missing,
    Row,
    Times,
    beside,
    has,
    has_extension,
    isas,
    least,
    merge,
    python,
    run_json,
)
from .training import step_rows, steps, titled

# ---- small ops, the import, and the C benches called from Python


def by_name(found: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Library -> name -> value, the other way round."""
    names = dict.fromkeys(name for values in found.values() for name in values)
    return {name: {library: values[name] for library, values in found.items() if name in values} for name in names}


def rounds_of(bench: Bench, script: str, libraries: tuple[str, ...]) -> dict[str, list[Any]]:
    """Library -> the JSON of a script in each round; those that are installed."""
    found: dict[str, list[Any]] = {name: [] for name in libraries if name == "chainrule" or has(name)}
    for _ in range(bench.rounds):
        for name, results in found.items():
            results.append(bench.script(script, name, *bench.quick_option))
    return found


def small(bench: Bench) -> list[Row]:
    """small tensors, import, the C benches called from Python"""
    if not has_extension():
        raise Missing("no Python extension in this build (make deps)")
    calls = rounds_of(bench, "small.py", ("chainrule", "torch", "numpy"))
    layers = "two-moons step, nn and optim"  # of part nn
    ns = by_name({name: least(got, "ns") for name, got in calls.items()})
    rows = [beside(what, "ns", values) for what, values in ns.items() if what != layers]
    cost: dict[str, list[Any]] = {name: [] for name in calls}
    for _ in range(bench.rounds):
        for name, results in cost.items():
            results.append(run_json(python("import_cost.py", name, 3), bench.threads))
    for unit in ("ms", "MB"):
        values = {name: min(c[unit.lower()] for c in got) for name, got in cost.items()}
        rows.append(beside("import", unit, values))
    return [*rows, *called_from_python(bench)]


def called_from_python(bench: Bench) -> list[Row]:
    """Products and elementwise operations called from Python, beside the same from C: the least times of calls above
    100 us. Needs NumPy, which makes the operands. Where results lie in the cache differs from process to process: many
    rounds."""
    inside: list[Any] = []
    outside: list[Any] = []
    for _ in range(3 * bench.rounds if has("numpy") else 0):
        for part in ("products", "elementwise"):
            inside.append(bench.ours(part, quick=True))
            outside.append(bench.script("peers.py", "chainrule", "--quick", "--only", part))
    c, python = merge_parts(inside), merge_parts(outside)
    return [
        Row(name, "ms", python[name]["min_ms"], {"C": times["min_ms"]}, group="the same calls from Python and from C")
        for name, times in c.items()
        if name in python and times["min_ms"] > 0.1
    ]


def merge_parts(results: list[Any]) -> dict[str, Times]:
    """merge() over results of several parts in turn, whose rows differ."""
    names = dict.fromkeys(row["name"] for r in results for row in r["rows"])
    return {name: merge([r for r in results if any(row["name"] == name for row in r["rows"])])[name] for name in names}


# ---- nn, optim, data, models


def nn(bench: Bench) -> list[Row]:
    """steps and an epoch with nn, optim, data and models

    Training steps with models.GPT and optim.AdamW, clipped by step_clipped or by nn.utils.clip_grad_norm_."""
    from_python = ["chainrule from Python", "chainrule from Python, clip_grad_norm_"]
    rows = []
    for name in ("gpt2", "char"):
        got = steps(bench, name, ["chainrule", *from_python, "PyTorch"], bench.threads)
        trainer = {"C trainer": got.pop("chainrule")} | got
        for ours in from_python:
            title = f"{titled(CASES[name])}, {ours.removeprefix('chainrule ')}"
            rows += step_rows(title, trainer, ours, ("C trainer", "PyTorch"), group="steps of GPTs from Python")
    return rows + moons_and_epoch(bench)


def moons_and_epoch(bench: Bench) -> list[Row]:
    """A small training step, and an epoch of a DataLoader."""
    calls, epoch = (rounds_of(bench, script, ("chainrule", "torch")) for script in ("small.py", "loader.py"))
    step, samples = "two-moons step, nn and optim", epoch["chainrule"][0]["samples"]
    us = {name: least(got, "ns")[step] / 1e3 for name, got in calls.items()}
    seconds = by_name({name: least(got, "seconds") for name, got in epoch.items()})
    group = "DataLoader, a million samples"
    loader = [
        beside(f"DataLoader, {samples:,} samples of a {what}", "s", values, group=group)
        for what, values in seconds.items()
    ]
    return [beside(step, "us", us), *loader]


# ---- every op


def maths(bench: Bench) -> list[Row]:
    """transforms of functions: per-sample gradients, a Hessian, Jacobians by forward mode; linear algebra

    bench/maths.py has the shapes. JAX is under jit; "compiled" is `chainrule.compile` of the same call."""
    rows = bench.turns("maths.py")["rows"]
    kinds = (("", "chainrule"), (", compiled", "chainrule compiled"))
    return [
        beside(r["name"] + more, "ms", r["ms"], ours, group=maths_group(r["name"], more))
        for r in rows
        for more, ours in kinds
        if ours in r["ms"]
    ]


def maths_group(name: str, more: str) -> str:
    """On the page one line for each kind of matrices, and one for transforms op by op."""
    size = "a matrix of 512 rows" if " 512, f" in name else "4096 matrices of 8 rows" if " 4096 " in name else ""
    if size:
        return f"{size}, {name.partition(', ')[2]}"
    return "" if more else "the same transforms, op by op"


def everyday(bench: Bench) -> list[Row]:
    """every op, from Python: the same line in both libraries, time over PyTorch's

    The median of rounds, on about 100, 64 thousand and 4 million elements; bench/everyday.py defines the letters."""
    if not has("torch"):
        raise Missing("PyTorch is not installed (make oracle)")
    got = bench.script("everyday.py", *bench.quick_option)
    rows = []
    for size in ("small", "medium", "large"):
        for row in got["rows"]:
            unit, group, found = "of PyTorch's time", f"every op, {size}", row[size]
            if isinstance(found, str):
                rows.append(Row(f"`{row['call']}`", unit, None, group=group, missing={"chainrule": found}))
                continue
            rows.append(Row(f"`{row['call']}`", unit, found[2], {"PyTorch": 1.0}, group=group))
            if found[2] > 1.5:
                reason = got["reasons"].get(row["call"], "no reason is known")
                print(f"{row['call']}, {size}: {found[2]:.2f}x the time: {reason}", file=sys.stderr)
    if not isinstance(got["sort"], str):
        ours, theirs = (ns / 1e6 for ns in got["sort"][:2])
        rows.append(Row("a million f32 sorted", "ms", ours, {"PyTorch": theirs}))
    return [*rows, Row("error of a sum of 10^8 f32", "of the magnitudes", got["sum_error"])]


# ---- whole networks and recorded steps


def scripts(bench: Bench) -> list[Row]:
    """training steps of whole networks

    bench/nets.py, which is written for PyTorch, runs with PyTorch's `torch` and with chainrule.torch;
    bench/nets_jax.py has the same steps in JAX. Losses of the first step agree."""
    rows = []
    for isa, got in bench.turns_by_isa("scripts.py").items():
        for r in got["rows"]:
            rows.append(beside(r["name"], "ms", r["ms"], isa=isa))
            group = "networks, compiled"
            rows.append(beside(r["name"], "ms", r["ms"], "chainrule compiled", isa=isa, group=group))
        for name, peaks in got["memory_mb"].items():
            rows.append(beside(f"{name}, memory", "MB", peaks, isa=isa))
    return rows


# Of a step of GPT-2 124M, 4 x 64: 6 for each weight of a product and each token, and attention.
GPT2_FLOPS = 6 * (12 * 12 * 768**2 + 50257 * 768) * 256 + 3 * 12 * 4 * 256 * 64 * 768


def least_of(got: Any) -> dict[str, float]:
    """The rows of `chainrule bench` by their last word, the least of each in ms."""
    return {r["name"].split()[-1]: r["min_ms"] for r in got["rows"]}


def replays(bench: Bench) -> list[Row]:
    """recorded steps of the program, and the cost of a kernel

    In turns with the same step op by op: f32, gradients clipped at 1, AdamW. Recording: the step while it is recorded,
    and making the plan. The share is that of a loop of multiply-adds."""
    rows = []
    for isa, env in isas().items():
        for case in ("char", "char6", "gpt2"):
            best = dict.fromkeys(("eager", "step", "recording"), math.inf)
            peak = 0.0
            for _ in range(bench.rounds):
                eager, recorded = (least_of(bench.ours(case, *words, env=env)) for words in ((), ("--compile",)))
                loop = bench.program("products", "--json", "--quick", bench.threads, env=env)
                peak = max(peak, *(r["peak"] for r in loop["rows"] if "peak" in r))
                for name, ms in {"eager": eager["step"], **recorded}.items():
                    best[name] = min(best.get(name, ms), ms)
            share = GPT2_FLOPS / (1e6 * best["step"]) / peak if case == "gpt2" else None
            name, by_op = titled(CASES[case]), {"op by op": best["eager"]}
            group = "" if case == "gpt2" else "replays of steps"
            rows.append(Row(f"{name}, replay", "ms", best["step"], by_op, isa, share, group=group))
            rows.append(Row(f"{name}, recording", "ms", best["recording"], by_op, isa, group="recordings of steps"))
    cost = bench.program("plan", "--json")
    for what, ns in cost["plan_ns"].items():
        eager = {"op by op": cost["eager_ns"][what]}
        rows.append(Row(f"{cost['kernels']:,} {what}, each", "ns", ns, eager, group="a kernel in a replay"))
    return rows


def compile(bench: Bench) -> list[Row]:
    """recorded steps: the same lines op by op and compiled (`cr.compile`, `torch.compile`, `jax.jit`)

    Elementwise steps are of 4 M elements; bench/compile.py has the lines. The first two calls of a compiled function
    run op by op, so all gradients exist beside the moments once."""
    rows = []
    for isa, got in bench.turns_by_isa("compile.py").items():
        for r in got["rows"]:
            large = r["name"].startswith(("two moons", "GPT-2"))
            group = "" if large else "elementwise steps, compiled"
            rows.append(beside(f"{r['name']}, compiled", "ms", r["ms"], "chainrule compiled", isa=isa, group=group))
            rows.append(beside(r["name"], "ms", r["ms"], isa=isa, group="the same steps, op by op"))
        for k, when in enumerate(("from the start", "after the first five steps")):
            peaks = {library: both[k] / 1e6 for library, both in got["memory"].items()}
            if peaks:
                name, group = f"GPT-2 124M compiled, memory {when}", "GPT-2 124M compiled, memory"
                rows.append(beside(name, "MB", peaks, "chainrule compiled", isa=isa, group=group))
    return rows
