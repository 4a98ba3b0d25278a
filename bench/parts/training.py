"""Training steps of GPTs beside PyTorch and JAX, and a whole training on tiny-Shakespeare."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cases import CASES, Case

from .base import PROGRAM, Bench, Missing, Row, Times, beside, has, merge, python, run_json, shakespeare

VARIANTS = {  # kind of step -> ours, and the peers
    "f32": ("chainrule", ("PyTorch", "PyTorch compiled", "JAX")),
    "f32, fused step": ("chainrule fused step", ("PyTorch", "PyTorch compiled", "JAX")),
    "bf16": ("chainrule bf16", ("PyTorch bf16", "PyTorch compiled bf16")),
}


def command_of(case: str, variant: str) -> list[object]:
    """The command that measures the step of one variant."""
    ours: list[object] = [PROGRAM, "bench", "--json", "--only", case]
    commands = {
        "chainrule": ours,
        "chainrule fused step": [*ours, "--fuse-step"],
        "chainrule from Python": python("step_python.py", case),
        "chainrule from Python, clip_grad_norm_": python("step_python.py", case, "--plain"),
        "chainrule bf16": [*ours, "--dtype", "bf16"],
        "PyTorch": python("step_torch.py", case),
        "PyTorch compiled": python("step_torch.py", case, "--compile"),
        "PyTorch bf16": python("step_torch.py", case, "--bf16"),
        "PyTorch compiled bf16": python("step_torch.py", case, "--bf16", "--compile"),
        "JAX": python("step_jax.py", case),
    }
    return commands[variant]


def installed(variant: str) -> bool:
    library = variant.split()[0]
    return library == "chainrule" or has({"PyTorch": "torch", "JAX": "jax"}[library])


def steps(
    bench: Bench, case: str, variants: list[str], threads: int, env: dict[str, str] | None = None
) -> dict[str, Times]:
    """Variant -> least and median milliseconds of a step, peak memory beyond 16 bytes a parameter;
    the variants take turns over several rounds. A variant that fails is absent."""
    found: dict[str, list[Any]] = {variant: [] for variant in variants if installed(variant)}
    for _ in range(bench.rounds):
        for variant in list(found):
            words = [*command_of(case, variant), *bench.quick_option, "--threads", threads]
            try:
                found[variant].append(run_json(words, threads, env))
            except Missing as why:
                print(why, file=sys.stderr)
                del found[variant]
    name, times = CASES[case].name, {}
    for variant, results in found.items():
        extra = min(r["peak_rss"] for r in results) - 16 * CASES[case].parameters
        times[variant] = {**merge(results)[f"{name} step"], "extra_mb": extra / 1e6}
    return times


def titled(case: Case) -> str:
    return f"{case.name}, {case.batch} x {case.time}"


def step_rows(
    title: str, got: dict[str, Times], ours: str, theirs: tuple[str, ...], memory: str | None = None, **more: Any
) -> list[Row]:
    """The median time of a step, its least time, and its memory. memory: the group of that; None: none."""
    if ours not in got:
        return []
    column = lambda key: {v.removesuffix(" bf16"): t[key] for v, t in got.items() if v == ours or v in theirs}
    row = lambda what, unit, key, **also: beside(what, unit, column(key), ours.removesuffix(" bf16"), **more | also)
    found = [row(title, "ms", "median_ms"), row(title, "ms", "min_ms", group="steps of GPTs, least times")]
    return found + ([row(f"{title}, memory", "MB", "extra_mb", group=memory)] if memory is not None else [])


def step(bench: Bench) -> list[Row]:
    """GPT-2 124M and two character GPTs: a training step, the median

    Forward, backward, gradients clipped at 1 (fused step: not clipped), AdamW with weight decay on matrices. Memory:
    the largest resident size, less 16 bytes a parameter (weight, gradient and two moments in f32)."""
    rows = []
    every = list(dict.fromkeys(v for ours, theirs in VARIANTS.values() for v in (ours, *theirs)))
    for name in ("gpt2", "char6", "char"):
        got = steps(bench, name, every, bench.threads)
        for kind, (ours, theirs) in VARIANTS.items():
            first = name == "gpt2" and kind == "f32"
            group = "steps of GPTs, fused step" if "fused" in kind else ""
            memory = "" if first else "steps of GPTs, memory"
            rows += step_rows(f"{titled(CASES[name])}, {kind}", got, ours, theirs, memory, group=group)
    return rows + one_thread_and_busy(bench)


def one_thread_and_busy(bench: Bench) -> list[Row]:
    """GPT-2 124M on one thread, and on all beside a process that keeps one core busy."""
    title = titled(CASES["gpt2"])
    one = steps(bench, "gpt2", ["chainrule", "PyTorch", "PyTorch compiled"], 1)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        by_it = steps(bench, "gpt2", ["chainrule"], bench.threads)
    finally:
        busy.kill()
        busy.wait()
    rows = step_rows(f"{title}, one thread", one, "chainrule", ("PyTorch", "PyTorch compiled"))
    what = f"{title}, {bench.threads} threads by a busy process"
    quiet = {"one quiet thread": one["chainrule"]["median_ms"]}
    return [*rows, Row(what, "ms", by_it["chainrule"]["median_ms"], quiet)]


# ---- tiny-Shakespeare


def train(bench: Bench, file: Path, seed: int, count: int) -> dict[str, float]:
    """`chainrule train` with a seed for `count` steps: its last validation loss, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", file, "--steps", count, "--seed", seed, "--eval-every", 0, "--sample", 0, "--out", folder]
        words = [PROGRAM, "train", *options, "--threads", bench.threads]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if done.returncode:
            raise Missing(done.stderr)
        log = [json.loads(line) for line in (Path(folder) / "run.jsonl").read_text().splitlines()]
    return {
        "val_loss": [r["val_loss"] for r in log if "val_loss" in r][-1],
        "seconds": [r["seconds"] for r in log if r.get("event") == "finish"][-1],
    }


def text(bench: Bench) -> list[Row]:
    """tiny-Shakespeare, three seeds

    4 layers, 4 heads, width 128, context 64, batch 12, AdamW(0.9, 0.99), lr 1e-3 to 1e-4, warm-up 100, weight decay 0.1
    on matrices, clip 1.0, 90/10 split; the loss is over the whole validation split, every character predicted once."""
    file = shakespeare()
    if not file.is_file():
        raise Missing("the text is not here (CHAINRULE_DATA names it)")
    seeds, count = ((1337,), 200) if bench.quick else ((1337, 1338, 1339), 2000)
    found: dict[str, list[dict[str, float]]] = {"chainrule": [], **({"PyTorch": []} if has("torch") else {})}
    for seed in seeds:
        found["chainrule"].append(train(bench, file, seed, count))
        if "PyTorch" in found:
            found["PyTorch"].append(bench.script("char_gpt_torch.py", file, "--steps", count, "--seed", seed))
    mean = lambda key, times: {name: times * statistics.mean(r[key] for r in runs) for name, runs in found.items()}
    title = f"tiny-Shakespeare, {count:,} steps"
    return [
        beside(f"{title}, validation loss", "nats", mean("val_loss", 1)),
        beside(f"{title}, each", "ms", mean("seconds", 1e3 / count)),
    ]
