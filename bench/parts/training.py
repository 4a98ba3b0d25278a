"""Training steps of GPTs beside PyTorch and JAX, and a whole training on tiny-Shakespeare."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cases import CASES

from .base import PROGRAM, Bench, Times, has, merge, python, run_json, shakespeare, some
from .lines import at_most, median_and_least, table, verdict

VARIANTS = (
    "chainrule",
    "PyTorch",
    "PyTorch compiled",
    "JAX",
    "chainrule fused step",
    "chainrule bf16",
    "PyTorch bf16",
    "PyTorch compiled bf16",
)
F32_BARS: dict[str, list[tuple[str, str, tuple[str, ...], float]]] = {  # case -> what, ours, theirs, the bar
    "gpt2": [
        ("f32", "chainrule", ("PyTorch compiled",), 0.42),
        ("f32", "chainrule", ("JAX",), 0.55),
        ("f32, fused step", "chainrule fused step", ("PyTorch compiled",), 0.38),
        ("f32, fused step", "chainrule fused step", ("JAX",), 0.50),
    ],
    "char6": [("f32", "chainrule", ("PyTorch", "PyTorch compiled"), 0.5)],
    "char": [("f32", "chainrule", ("PyTorch", "PyTorch compiled"), 0.45)],
}
BF16_BARS = {"gpt2": 0.62, "char6": 1 / 1.5}


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
    bench: Bench, case: str, variants: tuple[str, ...], threads: int, env: dict[str, str] | None = None
) -> dict[str, Times]:
    """Variant -> least and median milliseconds of a step, peak memory beyond 16 bytes a parameter;
    the variants take turns over several rounds. A variant that fails is absent."""
    found: dict[str, list[Any]] = {variant: [] for variant in variants if installed(variant)}
    for _ in range(bench.rounds):
        for variant, results in found.items():
            words = [*command_of(case, variant), *bench.quick_option, "--threads", threads]
            results.append(run_json(words, threads, env))
    name, times = CASES[case].name, {}
    for variant, results in found.items():
        if all(results):
            extra = min(r["peak_rss"] for r in results) - 16 * CASES[case].parameters
            times[variant] = {**merge(results)[f"{name} step"], "extra_mb": extra / 1e6}
    return times


def compare_steps(
    bench: Bench, what: str, got: dict[str, Times], ours: str, theirs: tuple[str, ...], bar: float
) -> None:
    """Medians, by which the bar is judged, and the least times: on a busy machine the two tell
    different stories."""
    peers = [v for v in theirs if v in got]
    if peers and ours in got:
        best = min(peers, key=lambda v: got[v]["median_ms"])
        ratio = got[ours]["median_ms"] / got[best]["median_ms"]
        ratio_of_least = got[ours]["min_ms"] / min(got[v]["min_ms"] for v in peers)
        bench.say(f"* {what}, against {best}: {verdict(ratio, bar)}; least times {ratio_of_least:.2f}x.")


def step(bench: Bench) -> None:
    bench.section(
        "One training step",
        "Forward, backward, gradients clipped at 1 (fused step: not clipped), AdamW with weight decay on matrices;",
        "milliseconds, median (least).  Memory: the largest resident size, less 16 bytes a parameter (weight,"
        " gradient and two moments in f32).",
    )
    for name in ("gpt2", "char6", "char"):
        case, got = CASES[name], steps(bench, name, VARIANTS, bench.threads)
        bench.data[case.name] = got
        rows = [[v, median_and_least(t), f"{t['extra_mb']:.0f}"] for v, t in got.items()]
        bench.say(table([f"{case.name}, {case.batch} x {case.time}", "ms a step", "MB"], rows), "")
        for what, ours, theirs, bar in F32_BARS[name]:
            compare_steps(bench, what, got, ours, theirs, bar)
        memory = {v: t["extra_mb"] for v, t in got.items()}
        if name == "gpt2" and "chainrule" in memory:
            bench.compare("memory beyond 16 bytes a parameter", memory["chainrule"], some(memory, "PyTorch"), 0.6)
        if name in BF16_BARS:
            theirs = ("PyTorch bf16", "PyTorch compiled bf16")
            compare_steps(bench, "bf16", got, "chainrule bf16", theirs, BF16_BARS[name])
        bench.say("")
    one_thread_and_busy(bench)


def one_thread_and_busy(bench: Bench) -> None:
    """GPT-2 124M on one thread, and on two beside a process that keeps one core busy."""
    one = steps(bench, "gpt2", ("chainrule", "PyTorch", "PyTorch compiled"), 1)
    bench.data["GPT-2 124M, one thread"] = one
    rows = [[v, median_and_least(t)] for v, t in one.items()]
    bench.say(table(["GPT-2 124M, one thread", "ms a step"], rows), "")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        beside = steps(bench, "gpt2", ("chainrule",), bench.threads)
    finally:
        busy.kill()
        busy.wait()
    if "chainrule" not in one or not beside:
        return
    compare_steps(bench, "one thread", one, "chainrule", ("PyTorch",), 0.40)
    bench.data["GPT-2 124M, beside a busy process"] = beside
    bench.compare(
        f"{bench.threads} threads with a process that keeps one core busy",
        beside["chainrule"]["median_ms"],
        {"one thread of the quiet machine": one["chainrule"]["median_ms"]},
        1.3,
    )
    bench.say("")


# ---- tiny-Shakespeare


def train(bench: Bench, file: Path, seed: int, count: int) -> dict[str, float]:
    """`chainrule train` with a seed for `count` steps: its last validation loss, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", file, "--steps", count, "--seed", seed, "--eval-every", 0, "--sample", 0, "--out", folder]
        words = [PROGRAM, "train", *options, "--threads", bench.threads]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        log = [json.loads(line) for line in (Path(folder) / "run.jsonl").read_text().splitlines()]
    return {
        "val_loss": [r["val_loss"] for r in log if "val_loss" in r][-1],
        "seconds": [r["seconds"] for r in log if r.get("event") == "finish"][-1],
    }


def text(bench: Bench) -> None:
    bench.section("tiny-Shakespeare, characters")
    file = shakespeare()
    if not file.is_file():
        bench.say("Went without: the text is not here (CHAINRULE_DATA names it).", "")
        return
    seeds, count = ((1337,), 200) if bench.quick else ((1337, 1338, 1339), 2000)
    mine, theirs = [], []
    for seed in seeds:
        mine.append(train(bench, file, seed, count))
        if has("torch"):
            theirs.append(bench.script("char_gpt_torch.py", file, "--steps", count, "--seed", seed))
    theirs = theirs if all(theirs) else []
    bench.data["text"] = {"steps": count, "seeds": seeds, "chainrule": mine, "torch": theirs}
    bench.say(
        f"4 layers, 4 heads, width 128, context 64, batch 12, {count} steps, AdamW(0.9, 0.99), lr 1e-3 to 1e-4,"
        " warm-up 100, weight decay 0.1 on",
        "matrices, clip 1.0, 90/10 split; the loss is over the whole validation split, every character predicted once.",
        "",
    )
    mean = lambda runs, key: statistics.mean(r[key] for r in runs)
    cells = lambda runs: [f"{mean(runs, 'val_loss'):.4f}", f"{mean(runs, 'seconds') / count * 1e3:.2f}"] if runs else []
    rows = [[f"seed {seed}", *cells(mine[i : i + 1]), *cells(theirs[i : i + 1])] for i, seed in enumerate(seeds)]
    rows.append(["mean", *cells(mine), *cells(theirs)])
    peer = [f"{theirs[0]['version']} val loss", "ms a step"] if theirs else []
    bench.say(table(["", "chainrule val loss", "ms a step", *peer], rows), "")
    if theirs:
        worse = mean(mine, "val_loss") - mean(theirs, "val_loss")
        ratio = mean(mine, "seconds") / mean(theirs, "seconds")
        bench.say(f"Loss {worse:+.4f} against PyTorch {at_most(worse, 0.02, '+0.02')}; time {verdict(ratio, 0.7)}.", "")
