#!/usr/bin/env python3
"""Every number of docs/benchmarks.md, next to the peers that are installed, interleaved in one run.

use: python bench/run.py [--quick] [--json FILE] [--write docs/benchmarks.md] [--only PART ...] [--sizes N ...]

Parts: step (GPT-2 124M and two character GPTs), text (tiny-Shakespeare, three seeds), operations,
attention, products (shares of the peak), dispatch, value, chain, python (small tensors, import, the
C benches called from Python), nn (steps and an epoch with nn, optim, data and models), everyday
(every op, from Python), conv (convolutions), pool (pooling, resampling, normalization), scripts
(training steps of whole networks), sizes (products of 128 to 4096 by plain loops, cpu and GPU;
--sizes chooses), fused (attention, and without it, on the cpu), generation (with and without a
cache), llm (language models: tokens a second, steps, encoding, perplexity, loading; --llm chooses),
files (safetensors and token files), gpu (when one pays), webgpu (the first GPU), cuda (an NVIDIA GPU
beside PyTorch on it),
cuda_host (what a step on one costs the host, without a GPU), size.
tiny-Shakespeare is read from $CHAINRULE_DATA, or
../shared/data/shakespeare.txt; without it the part says so. CHAINRULE_BUILD names the build
(build/release).  Peers run in this Python: make oracle, make peers."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cases import CASES
from peers import ELEMENTWISE

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
PROGRAM = BUILD / "chainrule"
PARTS = (
    "step",
    "text",
    "operations",
    "attention",
    "products",
    "dispatch",
    "value",
    "chain",
    "python",
    "nn",
    "rnn",
    "everyday",
    "conv",
    "pool",
    "scripts",
    "compile",
    "sizes",
    "fused",
    "generation",
    "llm",
    "files",
    "gpu",
    "webgpu",
    "cuda",
    "cuda_host",
    "size",
)
LLM_PARTS = ("124M", "135M", "steps", "lora", "bpe", "perplexity", "load")
PYTHON_BARS = {
    "x * y": 120,
    "x * y, recorded": 220,
    "x[1:, 2]": 200,
    "(100,) + (100,)": 150,
    "chain, an op": 450,
    "two-moons step": 60_000,
}  # ns
LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch", "jax": "JAX"}


def run_json(command: Iterable[object], threads: int, env: dict[str, str] | None = None) -> Any:
    """The JSON that a command prints; None (and a line) when it fails."""
    words = [str(w) for w in command]
    path = os.pathsep.join(filter(None, (str(BUILD / "python"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**os.environ, "CHAINRULE_NUM_THREADS": str(threads), "PYTHONPATH": path} | (env or {}),
    )
    if done.returncode:
        print(f"`{' '.join(words)}` failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def has(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; numbers to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def merge(results: list[Any]) -> dict[str, dict[str, float]]:
    """Rows by name over rounds: the least of the minima, the median of the medians, the rate at the least time."""
    rows: dict[str, dict[str, float]] = {}
    for name in [row["name"] for row in results[0]["rows"]]:
        found = [row for r in results for row in r["rows"] if row["name"] == name]
        rows[name] = {
            "min_ms": min(row["min_ms"] for row in found),
            "median_ms": statistics.median(row["median_ms"] for row in found),
        }
        if "rate" in found[0]:
            rows[name]["rate"] = max(row["rate"] * row["median_ms"] / row["min_ms"] for row in found)
    return rows


def merge_parts(results: list[Any]) -> dict[str, dict[str, float]]:
    """The same over results of several parts in turn, whose rows differ."""
    names = dict.fromkeys(row["name"] for r in results for row in r["rows"])
    return {name: merge([r for r in results if any(row["name"] == name for row in r["rows"])])[name] for name in names}


def some(values: dict[str, float], *names: str) -> dict[str, float]:
    return {v: values[v] for v in names if v in values}


def within(value: float, bar: float, unit: str) -> str:
    return (
        f"{f'{value:,.0f}' if value >= 100 else f'{value:.3g}'} {unit} ({'within' if value <= bar else 'above'} the bar"
        f" of {bar:,g} {unit})"
    )


def stripped_copy(file: Path, folder: Path) -> Path:
    """With its symbols where there is no `strip`."""
    copy = folder / file.name
    shutil.copyfile(file.resolve(), copy)
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", str(copy)], check=False)
    return copy


def reached(what: str, value: float, bar: float, unit: str = "x") -> str:
    """A line on a bar that is to be exceeded."""
    shown = lambda v: f"{100 * v:.0f} %" if unit == "%" else f"{v:.2f}x"
    return f"* {what}: {shown(value)} ({'within' if value >= bar else 'below'} the bar of {shown(bar)})."


def verdict(ratio: float, bar: float) -> str:
    return f"{ratio:.2f}x ({'within' if ratio <= bar else 'above'} the bar of {bar:.2f}x)"


# ---- rows of bench/cuda.py: work, and by column milliseconds, or in words why not


def speed(row: Any, name: str, which: str = "median_ms") -> float:
    """Work a second; 0: not measured."""
    column = row["columns"].get(name)
    return row["work"] / column[which] * 1e3 if isinstance(column, dict) else 0.0


def times_the_best(row: Any) -> float:
    """How many times as fast as the best of PyTorch; not a number where either is missing."""
    best = max((speed(row, name) for name in row["columns"] if name.startswith("PyTorch")), default=0.0)
    return speed(row, "chainrule") / best if best and speed(row, "chainrule") else float("nan")


def cuda_bars(part: str, rows: dict[str, Any], copy: float) -> list[str]:
    """What rows by name say of the bars; nothing of one whose rows or peers are missing.  copy: the
    best speed of one."""
    reached = lambda value, bar: f"{value:.2f}x ({'within' if value >= bar else 'below'} the bar of {bar:g}x)"
    ours = {name: rate for name, row in rows.items() if (rate := speed(row, "chainrule"))}

    def against_peer(what: str, names: Iterable[str], bar: float) -> list[str]:
        found = min(((times, name) for name in names if (times := times_the_best(rows[name])) > 0), default=None)
        return (
            [f"* {what}, the least ({found[1]}), against the best of PyTorch: {reached(found[0], bar)}."]
            if found
            else []
        )

    def against(what: str, one: str, other: str, column: str, bar: float) -> list[str]:
        a, b = (next((name for name in rows if text in name), "") for text in (one, other))
        rate = speed(rows[b], column) if b else 0.0
        return [f"* {what}: {reached(ours[a] / rate, bar)}."] if a in ours and rate else []

    if part == "host" and ours:
        slowest = min(ours, key=lambda name: ours[name])
        return [f"* The slowest ({slowest}), called from Python: {within(1e6 / ours[slowest], 3, 'us')}."]
    if part == "matmul":
        return against_peer("bf16 and TF32", [name for name in rows if not name.endswith(" f32")], 0.97)
    if part == "attention":
        rate = ours.get("D=128 T=8192 forward bf16")
        forward = (
            [f"* D=128, T=8192, forward: {rate:.0f} TFLOP/s ({'within' if rate >= 300 else 'below'} the bar of 300)."]
            if rate
            else []
        )
        return forward + against_peer("Forward and backward", [name for name in rows if "backward" in name], 0.8)
    if part in ("bandwidth", "kernels") and ours and copy:
        least = min(ours, key=lambda name: ours[name])
        return [
            f"* The least share of a copy ({least}): {reached(ours[least] / copy, 0.85)}.",
            *against_peer("All", rows, 1),
        ]
    if part == "train":
        peaks = {
            name: {column: times["peak_bytes"] for column, times in row["columns"].items() if isinstance(times, dict)}
            for name, row in rows.items()
        }
        over = {
            name: peak.pop("chainrule") / min(peak.values())
            for name, peak in peaks.items()
            if len(peak) > 1 and all(peak.values()) and name in ours
        }
        memory = [f"* Peak memory, {name}, against PyTorch: {verdict(ratio, 1)}." for name, ratio in over.items()]
        return against_peer("Tokens a second", rows, 0.9) + memory
    if part == "cpu":
        return [
            *against("A product, against the cpu", " x ", " x ", "cpu", 10),
            *against("A product, against a plain loop", " x ", "plain loop", "ref", 100),
            *against("gelu, against the cpu", "gelu", "gelu", "cpu", 20),
            *against("Attention, against one composed of products and softmax", "fused", "composed", "chainrule", 5),
        ]
    return []


class Bench:
    def __init__(
        self,
        quick: bool,
        threads: int,
        sizes: list[int] | None = None,
        folder: Path | None = None,
        cpu: bool = False,
        llm_parts: list[str] | None = None,
    ) -> None:
        self.quick, self.threads, self.sizes, self.cpu, self.llm_parts = quick, threads, sizes, cpu, llm_parts
        self.folder = folder  # of the page, for its pictures
        self.rounds = 1 if quick else 3
        self.measured = ""  # a line behind each section that is measured by itself
        self.data: dict[str, Any] = {}
        self.text: list[str] = []

    def say(self, *lines: str) -> None:
        self.text += lines
        print("\n".join(lines), flush=True)

    def ours(self, part: str, quick: bool = False) -> Any:
        return run_json(
            [
                PROGRAM,
                "bench",
                "--json",
                "--only",
                part,
                "--threads",
                self.threads,
                *(["--quick"] if quick or self.quick else []),
            ],
            self.threads,
        )

    def peer(self, script: str, *words: object, env: dict[str, str] | None = None) -> Any:
        return run_json([sys.executable, HERE / script, *words, "--threads", self.threads], self.threads, env)

    # ---- training steps

    def step_of(self, case: str, variant: str, threads: int, env: dict[str, str] | None = None) -> Any:
        """One run of one variant: its row and peak memory; None where it failed."""
        quick = ["--quick"] if self.quick else []
        words: list[object] = {
            "chainrule": [PROGRAM, "bench", "--json", "--only", case],
            "chainrule fused step": [PROGRAM, "bench", "--json", "--only", case, "--fuse-step"],
            "chainrule from Python": [sys.executable, HERE / "step_python.py", case],
            "chainrule from Python, clip_grad_norm_": [sys.executable, HERE / "step_python.py", case, "--plain"],
            "chainrule bf16": [PROGRAM, "bench", "--json", "--only", case, "--dtype", "bf16"],
            "PyTorch": [sys.executable, HERE / "step_torch.py", case],
            "PyTorch compiled": [sys.executable, HERE / "step_torch.py", case, "--compile"],
            "PyTorch bf16": [sys.executable, HERE / "step_torch.py", case, "--bf16"],
            "PyTorch compiled bf16": [sys.executable, HERE / "step_torch.py", case, "--bf16", "--compile"],
            "JAX": [sys.executable, HERE / "step_jax.py", case],
        }[variant]
        return run_json([*words, *quick, "--threads", threads], threads, env)

    def steps(
        self, case: str, variants: list[str], threads: int, env: dict[str, str] | None = None
    ) -> dict[str, dict[str, float]]:
        """Variant -> least and median milliseconds of a step, peak memory beyond 16 bytes a
        parameter; in turn, several rounds."""
        found: dict[str, list[Any]] = {
            v: [] for v in variants if (v[0] == "c" or has(v.split()[0].lower().replace("pytorch", "torch")))
        }
        for _ in range(self.rounds):
            for variant, results in found.items():
                results.append(self.step_of(case, variant, threads, env))
        name, table_of = CASES[case].name, {}
        for variant, results in found.items():
            if all(results):
                extra = min(r["peak_rss"] for r in results) - 16 * CASES[case].parameters
                table_of[variant] = {**merge(results)[f"{name} step"], "extra_mb": extra / 1e6}
        return table_of

    def compare(self, what: str, ours: float, theirs: dict[str, float], bar: float) -> None:
        """ours against the best of theirs, where there is one."""
        if theirs:
            best = min(theirs, key=lambda v: theirs[v])
            self.say(f"* {what}, against {best}: {verdict(ours / theirs[best], bar)}.")

    def compare_steps(
        self, what: str, got: dict[str, dict[str, float]], ours: str, theirs: tuple[str, ...], bar: float
    ) -> None:
        """Medians, by which the bar is judged, and the least times: on a busy machine the two tell
        different stories."""
        peers = [v for v in theirs if v in got]
        if peers and ours in got:
            best = min(peers, key=lambda v: got[v]["median_ms"])
            least = got[ours]["min_ms"] / min(got[v]["min_ms"] for v in peers)
            self.say(
                f"* {what}, against {best}: {verdict(got[ours]['median_ms'] / got[best]['median_ms'], bar)}; least"
                f" times {least:.2f}x."
            )

    def step(self) -> None:
        self.say(
            "## One training step",
            "",
            "Forward, backward, gradients clipped at 1 (fused step: not clipped), AdamW with weight decay on matrices;",
            "milliseconds, median (least).  Memory: the largest resident size, less 16 bytes a parameter (weight,"
            " gradient and two moments in f32).",
            "",
        )
        everyone = [
            "chainrule",
            "PyTorch",
            "PyTorch compiled",
            "JAX",
            "chainrule fused step",
            "chainrule bf16",
            "PyTorch bf16",
            "PyTorch compiled bf16",
        ]
        for case in ("gpt2", "char6", "char"):
            name, got = CASES[case].name, self.steps(case, everyone, self.threads)
            self.data[name] = got
            rows = [[v, f"{t['median_ms']:.1f} ({t['min_ms']:.1f})", f"{t['extra_mb']:.0f}"] for v, t in got.items()]
            self.say(table([f"{name}, {CASES[case].batch} x {CASES[case].time}", "ms a step", "MB"], rows), "")
            if case == "gpt2":
                for what, ours, bars in (
                    ("f32", "chainrule", (0.42, 0.55)),
                    ("f32, fused step", "chainrule fused step", (0.38, 0.50)),
                ):
                    self.compare_steps(what, got, ours, ("PyTorch compiled",), bars[0])
                    self.compare_steps(what, got, ours, ("JAX",), bars[1])
                memory = {v: t["extra_mb"] for v, t in got.items()}
                if "chainrule" in memory:
                    self.compare(
                        "memory beyond 16 bytes a parameter", memory["chainrule"], some(memory, "PyTorch"), 0.6
                    )
            else:
                self.compare_steps(
                    "f32", got, "chainrule", ("PyTorch", "PyTorch compiled"), 0.45 if case == "char" else 0.5
                )
            if case != "char":
                self.compare_steps(
                    "bf16",
                    got,
                    "chainrule bf16",
                    ("PyTorch bf16", "PyTorch compiled bf16"),
                    0.62 if case == "gpt2" else 1 / 1.5,
                )
            self.say("")
        self.alone_and_beside()

    def alone_and_beside(self) -> None:
        """GPT-2 124M on one thread, and on two beside a process that keeps one core busy."""
        one = self.steps("gpt2", ["chainrule", "PyTorch", "PyTorch compiled"], 1)
        self.data["GPT-2 124M, one thread"] = one
        self.say(
            table(
                ["GPT-2 124M, one thread", "ms a step"],
                [[v, f"{t['median_ms']:.1f} ({t['min_ms']:.1f})"] for v, t in one.items()],
            ),
            "",
        )
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            beside = self.steps("gpt2", ["chainrule"], self.threads)
        finally:
            busy.kill()
            busy.wait()
        if "chainrule" not in one or not beside:
            return
        ours = one["chainrule"]["median_ms"]
        self.compare_steps("one thread", one, "chainrule", ("PyTorch",), 0.40)
        self.data["GPT-2 124M, beside a busy process"] = beside
        self.compare(
            f"{self.threads} threads with a process that keeps one core busy",
            beside["chainrule"]["median_ms"],
            {"one thread of the quiet machine": ours},
            1.3,
        )
        self.say("")

    # ---- tiny-Shakespeare

    def train(self, file: Path, seed: int, steps: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                PROGRAM,
                "train",
                "--data",
                file,
                "--steps",
                steps,
                "--seed",
                seed,
                "--eval-every",
                0,
                "--sample",
                0,
                "--out",
                folder,
            ]
            done = subprocess.run(
                [str(w) for w in [*command, "--threads", self.threads]], capture_output=True, text=True
            )
            if done.returncode:
                sys.exit(done.stderr)
            log = [json.loads(line) for line in (Path(folder) / "run.jsonl").read_text().splitlines()]
        return {
            "val_loss": [r["val_loss"] for r in log if "val_loss" in r][-1],
            "seconds": [r["seconds"] for r in log if r.get("event") == "finish"][-1],
        }

    def shakespeare(self) -> None:
        self.say("## tiny-Shakespeare, characters", "")
        file = Path(os.environ.get("CHAINRULE_DATA", ROOT.parent / "shared" / "data" / "shakespeare.txt"))
        if not file.is_file():
            self.say("Went without: the text is not here (CHAINRULE_DATA names it).", "")
            return
        seeds, steps = ((1337,), 200) if self.quick else ((1337, 1338, 1339), 2000)
        mine, theirs = [], []
        for seed in seeds:
            mine.append(self.train(file, seed, steps))
            if has("torch"):
                theirs.append(self.peer("char_gpt_torch.py", file, "--steps", steps, "--seed", seed))
        theirs = theirs if all(theirs) else []
        self.data["text"] = {"steps": steps, "seeds": seeds, "chainrule": mine, "torch": theirs}
        self.say(
            f"4 layers, 4 heads, width 128, context 64, batch 12, {steps} steps, AdamW(0.9, 0.99), lr 1e-3 to 1e-4,"
            " warm-up 100, weight decay 0.1 on",
            "matrices, clip 1.0, 90/10 split; the loss is over the whole validation split, every character predicted"
            " once.",
            "",
        )
        rows = []
        for i, seed in enumerate(seeds):
            row = [f"seed {seed}", f"{mine[i]['val_loss']:.4f}", f"{mine[i]['seconds'] / steps * 1e3:.2f}"]
            rows.append(
                row + ([f"{theirs[i]['val_loss']:.4f}", f"{theirs[i]['seconds'] / steps * 1e3:.2f}"] if theirs else [])
            )
        mean = lambda runs, key: statistics.mean(r[key] for r in runs)
        total = ["mean", f"{mean(mine, 'val_loss'):.4f}", f"{mean(mine, 'seconds') / steps * 1e3:.2f}"]
        rows.append(
            total
            + ([f"{mean(theirs, 'val_loss'):.4f}", f"{mean(theirs, 'seconds') / steps * 1e3:.2f}"] if theirs else [])
        )
        version = theirs[0]["version"] if theirs else ""
        self.say(
            table(
                ["", "chainrule val loss", "ms a step", *([f"{version} val loss", "ms a step"] if theirs else [])], rows
            ),
            "",
        )
        if theirs:
            difference, ratio = (
                mean(mine, "val_loss") - mean(theirs, "val_loss"),
                mean(mine, "seconds") / mean(theirs, "seconds"),
            )
            within = "within" if difference <= 0.02 else "above"
            self.say(
                f"Loss {difference:+.4f} against PyTorch ({within} the bar of +0.02); time {verdict(ratio, 0.7)}.", ""
            )

    # ---- products and elementwise operations

    def operations(self) -> None:
        self.say(
            "## Products and elementwise operations",
            "",
            "f32; GFLOP/s or GB/s: the median over rounds of each round's least time; and how many",
            "times faster than the best peer, the median of the rounds' ratios (others share the machine's caches:"
            " rounds differ more than runs).",
            "Bytes count each operand and result once; each run allocates and frees its results.  Share: of the speed"
            " of a plain loop that reads,",
            "copies or adds two arrays of that length in the same run (one, two, more passes).",
            "",
        )
        mine: list[Any] = []
        memory: list[Any] = []
        peers: dict[str, list[Any]] = {name: [] for name in LIBRARIES if has(name)}
        for _ in range(3 if self.quick else 7):
            parts = [self.ours(part, quick=True) for part in ("products", "elementwise")]
            memory.append(run_json([BUILD / "bench" / "memory", self.threads], self.threads))
            if not all(parts) or not memory[-1]:
                return
            mine.append({"rows": parts[0]["rows"] + parts[1]["rows"]})
            for name, results in peers.items():
                results.append(self.peer("peers.py", name, "--quick"))
        unit = {row["name"]: row["unit"] for row in mine[0]["rows"]}
        rates = lambda results: [
            {row["name"]: row["rate"] * row["median_ms"] / row["min_ms"] for row in r["rows"]} for r in results
        ]
        a, others = (
            rates(mine),
            {results[0]["version"]: rates(results) for results in peers.values() if results and all(results)},
        )
        self.data["operations"] = {"chainrule": a, **others, "memory": memory}
        middle = lambda o, name: statistics.median(r[name] for r in o)
        cell = lambda o, name: f"{middle(o, name):.1f}" if name in o[0] else "-"
        ratio_in = lambda i, name: a[i][name] / max(o[i][name] for o in others.values() if name in o[i])
        times = {name: statistics.median(ratio_in(i, name) for i in range(len(a))) for name in a[0]} if others else {}

        def share(name: str) -> str:
            if name not in ELEMENTWISE:
                return ""
            m, k, passes = ELEMENTWISE[name]
            loop = {1: "read", 2: "copy"}.get(passes, "triad")
            roof = statistics.median(
                min(run["rows"], key=lambda row: abs(row["elements"] - m * k))[loop] for run in memory
            )
            return f"{100 * middle(a, name) / roof:.0f} %"

        ratio = lambda name: [f"{times[name]:.2f}x"] if others else []
        rows = [
            [name, unit[name], cell(a, name), share(name), *(cell(o, name) for o in others.values()), *ratio(name)]
            for name in a[0]
        ]
        self.say(
            table(["operation", "unit", "chainrule", "share", *others, *(["to the best"] if others else [])], rows), ""
        )
        for kind, what in (("GFLOP/s", "products"), ("GB/s", "elementwise operations and rows")) if others else ():
            of_kind = {name: t for name, t in times.items() if unit[name] == kind}
            slowest = min(of_kind, key=lambda name: of_kind[name])
            self.say(
                f"{what.capitalize()}: geometric mean {statistics.geometric_mean(of_kind.values()):.2f}x, least"
                f" {of_kind[slowest]:.2f}x ({slowest}).",
                "",
            )

    # ---- attention

    def attention(self) -> None:
        self.say(
            "## Attention",
            "",
            "Causal, f32, 2 x 12 heads of 64; milliseconds, least of all rounds; GFLOP/s count visible pairs once,",
            "4 D forward and 10 D backward.  Share: of the speed of a loop of multiply-adds in the same run.",
            "",
        )
        mine, theirs, peak = [], [], 0.0
        for _ in range(self.rounds):
            mine.append(self.ours("attention"))
            products = run_json(
                [BUILD / "bench" / "products", "--json", "--quick", "--only", "square", self.threads], self.threads
            )
            peak = max([peak, *(row["peak"] for row in products["rows"] if "peak" in row)]) if products else peak
            if has("torch"):
                theirs.append(
                    self.peer("peers.py", "torch", "--only", "attention", *(["--quick"] if self.quick else []))
                )
        if not all(mine):
            return
        a, b = merge(mine), merge(theirs) if theirs and all(theirs) else {}
        self.data["attention"] = {"chainrule": a, "torch": b}
        rows = [
            [
                name,
                f"{a[name]['min_ms']:.3f}",
                f"{a[name]['rate']:.0f}",
                f"{100 * a[name]['rate'] / peak:.0f} %" if peak else "",
                *([f"{b[name]['min_ms']:.3f}", f"{a[name]['min_ms'] / b[name]['min_ms']:.2f}x"] if b else []),
            ]
            for name in a
        ]
        self.say(
            table(["ms", "chainrule", "GFLOP/s", "share", *([theirs[0]["version"], "ratio"] if b else [])], rows), ""
        )
        if b:
            worst = max(a[name]["min_ms"] / b[name]["min_ms"] for name in a if name.endswith("backward"))
            self.say(f"Forward and backward, the worst length: {verdict(worst, 0.6)}.", "")

    # ---- products beside the peak of the machine

    def products(self) -> None:
        self.say(
            "## Products and the peak",
            "",
            "GFLOP/s, the best of interleaved runs, and the share of the speed of a loop of multiply-adds in the"
            " same run",
        )
        self.say("(bf16: of twice that). N: row-major, T: transposed in memory.", "")
        got = run_json(
            [BUILD / "bench" / "products", "--json", *(["--quick"] if self.quick else []), self.threads], self.threads
        )
        if not got:
            return
        self.data["products"] = got
        share = lambda rate, peak: f"{rate:.0f} ({100 * rate / peak:.0f} %)" if rate else ""
        rows = []
        for r in (r for r in got["rows"] if "size" in r):
            rows.append(
                [
                    r["name"],
                    r["size"],
                    f"{r['peak']:.0f}",
                    share(r["ours"], r["peak"]),
                    share(r["sgemm"], r["peak"]),
                    share(r["bf16"], 2 * r["peak"]),
                ]
            )
        self.say(table(["product", "m x n x k", "peak", "f32", "dnnl_sgemm", "bf16"], rows), "")
        mean = got["rows"][-1]
        for kind in ("f32", "bf16"):
            self.say(
                f"Squares and GPT-2, {kind}: geometric mean {100 * mean[kind]:.1f} %, least"
                f" {100 * mean[f'least_{kind}']:.1f} %.",
                "",
            )
        small = [r for r in got["rows"] if r["name"] == "cube" and r["sgemm_ns"]]
        cubes = [
            [str(r["n"]), f"{r['ours_ns']:.0f}", f"{r['sgemm_ns']:.0f}", f"{r['ours_ns'] / r['sgemm_ns']:.2f}x"]
            for r in small
        ]
        if cubes:
            self.say(table(["cube, one thread", "ns", "dnnl_sgemm ns", "ratio"], cubes), "")
        batches = [
            [f"{r['count']} x {r['n']}^3 {r['layout']}", f"{r['peak']:.0f}", share(r["ours"], r["peak"])]
            for r in got["rows"]
            if r["name"] == "batch"
        ]
        if batches:
            self.say(table(["batched products", "peak", "f32"], batches), "")

    # ---- small ops, a deep graph, size

    def dispatch(self) -> None:
        self.say("## One small op from C", "")
        results = [run_json([BUILD / "bench" / "dispatch", "--json"], 1) for _ in range(self.rounds)]
        if not all(results):
            return
        least = {
            row["name"]: min(r["ns"] for result in results for r in result["rows"] if r["name"] == row["name"])
            for row in results[0]["rows"]
        }
        self.data["dispatch"] = least
        self.say(table(["least of all rounds", "ns a call"], [[name, f"{ns:.0f}"] for name, ns in least.items()]), "")
        ns = least["add, 1 element"]
        self.say(f"One element added to one: {ns:.0f} ns ({'within' if ns <= 60 else 'above'} the bar of 60 ns).", "")

    def value(self) -> None:
        self.say("## Values", "")
        cached, large = (
            run_json([BUILD / "bench" / "value", nodes, "--json"], 1)
            for nodes in (10000, 1_000_000 if self.quick else 10_000_000)
        )
        if not cached or not large:
            return
        rows = [
            [f"{r['nodes']:,} nodes", *(f"{r[k]:.1f}" for k in ("record_ns", "backward_ns", "free_ns", "bytes"))]
            for r in (cached, large)
        ]
        rows[0][-1] = ""  # a small graph does not fill the first slab
        self.say(table(["C, ns a node", "multiply and record", "backward", "free", "bytes a node"], rows), "")
        least: dict[str, dict[str, float]] = {}
        for _ in range(self.rounds):
            for engine in ("chainrule", *(["micrograd"] if has("micrograd") else [])):
                for name, seconds in (run_json([sys.executable, HERE / "value.py", engine], 1) or {}).items():
                    row = least.setdefault(name, {})
                    row[engine] = min(row.get(engine, seconds), seconds)
        engines = list(next(iter(least.values()), {}))
        shown = [
            [
                name,
                *(f"{row[e] * 1e6:,.3f}" for e in engines),
                *([f"{row['micrograd'] / row['chainrule']:.0f}x"] if "micrograd" in row else []),
            ]
            for name, row in least.items()
        ]
        self.say(table(["Python, microseconds", *engines, *(["times"] if len(engines) > 1 else [])], shown), "")
        for what, ours, bar in (("a * b", "a * b", 0.06e-6), ("moons step", "moons step", 3e-3)):
            if ours in least:
                self.compare(what, least[ours]["chainrule"], {f"{bar * 1e6:g} microseconds": bar}, 1)
        curve = run_json(
            [sys.executable, HERE / "value.py", "curve", "--draw", ROOT / "docs" / "value-curve.svg"], self.threads
        )
        self.data["value"] = {"c": [cached, large], "python": least, "curve": curve}
        if curve:
            counts = sorted({int(n) for line in curve.values() for n in line})
            self.say(
                "",
                "tanh(x * x + x) (summed for a tensor) and its gradient: microseconds by the number of elements.",
                "",
            )
            cell = lambda line, n: f"{line[str(n)] * 1e6:,.1f}" if str(n) in line else ""
            self.say(
                table(["elements", *curve], [[f"{n:,}", *(cell(line, n) for line in curve.values())] for n in counts]),
                "",
                "![Time by number of elements](value-curve.svg)",
                "",
            )

    def chain(self) -> None:
        n = 1_000_000 if self.quick else 10_000_000
        self.say("## A chain of operations", "")
        got = run_json([BUILD / "bench" / "chain", n, "--json"], self.threads)
        if got:
            self.data["chain"] = got
            gradient = "right" if got["right"] else "WRONG"
            self.say(
                f"{n:,} additions in one chain: built in {got['build_s']:.2f} s, differentiated in"
                f" {got['backward_s']:.2f} s,",
                f"freed in {got['free_s']:.2f} s; peak memory {got['peak_rss'] / 2**30:.2f} GiB; the gradient is"
                f" {gradient}.",
                "",
            )

    # ---- products by size, what two ideas save, files

    def product_sizes(self) -> None:
        self.say(
            "## Products by size",
            "",
            "(N, N) by (N, N) in f32, GFLOP/s: three plain loops on one thread, our cpu kernels, and a GPU of hardware"
            " where there is one.",
            "The plain loops compute only as many rows of a large product as fit into their time.",
            "",
        )
        picture = self.folder / "product-sizes.svg" if self.folder else None
        options = [*(["--quick"] if self.quick else []), *(["--draw", picture] if picture else [])]
        options += ["--sizes", *self.sizes] if self.sizes else []
        got = self.peer("product_sizes.py", *options)
        if not got:
            return
        self.data["sizes"] = got
        cell = lambda row, name: f"{row[name]:.3g}" if name in row else "-"
        rows = [
            [
                f"{r['size']:,}",
                cell(r, "naive"),
                cell(r, "cpu"),
                cell(r, "GPU"),
                f"{max(r['cpu'], r.get('GPU', 0)) / r['naive']:,.0f}x",
            ]
            for r in got["rows"]
        ]
        gpu = got["device"] if any("GPU" in r for r in got["rows"]) else "GPU: none here"
        self.say(
            table(["N", "plain loops", f"cpu, {self.threads} threads", gpu, "the best against plain loops"], rows), ""
        )
        if picture and picture.exists():
            self.say(f"![Products by size]({picture.name})", "")

    def fused(self) -> None:
        self.with_without(
            "attention",
            "Attention without a T x T matrix",
            "On the cpu, causal, f32, 2 x 12 heads of 64: fused, and composed of products, mask and softmax.",
            ("fused", "composed"),
        )

    def generation(self) -> None:
        self.with_without(
            "generation",
            "Generation with a cache",
            "On the cpu, a GPT of 4 layers 128 wide, greedy, after a prompt of 8; both ways write the same tokens.",
            ("keys and values kept", "computed anew"),
        )

    # ---- language models

    def llm(self) -> None:
        parts = {
            "124M": self.llm_124m,
            "135M": self.llm_135m,
            "steps": self.llm_steps,
            "lora": self.llm_lora,
            "bpe": self.llm_bpe,
            "perplexity": self.llm_perplexity,
            "load": self.llm_load,
        }
        for name in self.llm_parts or LLM_PARTS:
            self.data.setdefault("llm", {})[name] = parts[name]()
            self.say(*([self.measured, ""] if self.measured else []))

    def isas(self) -> dict[str, dict[str, str]]:
        """Instruction set -> the environment that chooses it, for the peers too; the widest here, and AVX2."""
        info = subprocess.run([str(PROGRAM), "info"], capture_output=True, text=True).stdout
        widest = "AVX-512" if "x86-64-v4" in info else "AVX2" if "x86-64-v3" in info else "this processor"
        avx2 = {
            "CHAINRULE_ISA": "v3",
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        }
        return {widest: {}} | ({"AVX2": avx2} if widest == "AVX-512" else {})

    def by_isa(self, script: str, *words: object) -> dict[str, Any]:
        """The JSON of a script under each instruction set."""
        quick = ["--quick"] if self.quick else []
        return {isa: self.peer(script, *words, *quick, env=env) for isa, env in self.isas().items()}

    def llm_124m(self) -> Any:
        self.say(
            "## Language models: GPT-2 124M",
            "",
            "Random weights, batch 1, with a cache; 8 and 4 bits in groups of 64, the head 8 bits. Share: the weights'",
            "bytes a second, of what a plain loop reads from as many in the same run. transformers has no weights",
            "of 8 or 4 bits: those lines compare with its f32.",
            "",
        )
        found, rows, bars = self.by_isa("llm.py", "124M"), [], []
        for isa, got in found.items():
            plain = {r["kind"]: r for r in got["rows"]} if got else {}
            for kind, r in plain.items():
                rate, peer, prompt = r["bytes"] / r["ms"] / 1e6, r["peer_ms"], r["peer_prompt_ms"]
                against = peer or plain.get("f32", {}).get("peer_ms")
                rows.append(
                    [
                        f"{isa}, {kind}",
                        f"{1e3 / r['ms']:.1f}",
                        f"{rate:.1f}",
                        f"{r['read']:.1f}" if r["read"] else "-",
                        f"{rate / r['read']:.0%}" if r["read"] else "-",
                        f"{1e3 / peer:.1f}" if peer else "-",
                        f"{against / r['ms']:.2f}x" if against else "-",
                        f"{r['prompt_ms']:.0f}",
                        f"{prompt:.0f}" if prompt else "-",
                        f"{r['prompt_ms'] / prompt:.2f}" if prompt else "-",
                    ]
                )
            shares = [r["bytes"] / r["ms"] / 1e6 / r["read"] for r in plain.values() if r["read"]]
            times = [r["peer_ms"] / r["ms"] for r in plain.values() if r["peer_ms"]]
            prompts = [r["prompt_ms"] / r["peer_prompt_ms"] for r in plain.values() if r["peer_prompt_ms"]]
            bars += [reached(f"{isa}, the least share", min(shares), 0.85, "%")] if shares else []
            bars += [reached(f"{isa}, the least against transformers", min(times), 1.5)] if times else []
            bars += [f"* {isa}, 1,000 tokens, the worst: {verdict(max(prompts), 0.5)}."] if prompts else []
        head = ["weights", "tokens/s", "GB/s", "plain loop", "share", "transformers", "times", "1,000 tokens, ms"]
        self.say(table([*head, "transformers, ms", "ratio"], rows), "", *bars, *self.without(found, "transformers"), "")
        return found

    def without(self, found: dict[str, Any], peer: str) -> list[str]:
        return [] if all(got and got["peer"] for got in found.values()) else ["", f"{peer} is not installed here."]

    def llm_135m(self) -> Any:
        self.say(
            "## Language models: a Llama of 135M",
            "",
            "30 layers, 576 wide, 9 heads, 3 of keys; the same numbers in llama.cpp (xllamacpp) as Q8_0 and Q4_0,",
            "which is compiled for AVX2. Tokens a second behind a prompt of 32.",
            "",
        )
        found, rows, bars = self.by_isa("llm.py", "135M"), [], []
        for isa, got in found.items():
            for r in got["rows"] if got else []:
                rate, peer = r["bytes"] / r["ms"] / 1e6, r["peer_ms"]
                against = [f"{1e3 / peer:.1f}", f"{peer / r['ms']:.2f}x"] if peer else ["-", "-"]
                share = f"{rate / r['read']:.0%}" if r["read"] else "-"
                rows.append([f"{isa}, {r['kind']}", f"{1e3 / r['ms']:.1f}", f"{rate:.1f}", share, *against])
                bars += [reached(f"{isa}, {r['kind']}, against llama.cpp", peer / r["ms"], 1)] if peer else []
        head = ["weights", "tokens/s", "GB/s", "share of a plain loop", "llama.cpp, tokens/s", "times"]
        self.say(table(head, rows), "", *bars, *self.without(found, "xllamacpp"), "")
        return found

    def llm_steps(self) -> Any:
        self.say(
            "## Language models: a training step in bf16",
            "",
            'GPT-2 124M, 4 x 64, as in "One training step". Memory: resident, less 16 bytes a parameter.',
            "",
        )
        found: dict[str, Any] = {}
        rows, bars = [], []
        for isa, env in self.isas().items():
            variants = ["chainrule", "chainrule bf16", "PyTorch bf16", "PyTorch compiled bf16"]
            got = found[isa] = self.steps("gpt2", variants[: 4 if not env else 3], self.threads, env)
            for name, t in got.items():
                rows.append([f"{isa}, {name}", f"{t['median_ms']:.1f} ({t['min_ms']:.1f})", f"{t['extra_mb']:.0f}"])
            peers = [got[v]["median_ms"] for v in variants[2:] if v in got]
            if "chainrule bf16" in got and "chainrule" in got:
                ours, plain = got["chainrule bf16"], got["chainrule"]
                bars += (
                    [f"* {isa}, bf16 against PyTorch's best: {verdict(ours['median_ms'] / min(peers), 0.55)}."]
                    if peers
                    else []
                )
                bars.append(f"* {isa}, bf16 against f32: {ours['median_ms'] / plain['median_ms']:.2f}x.")
        self.say(table(["GPT-2 124M, 4 x 64", "ms a step", "MB"], rows), "", *bars, "")
        return found

    def llm_lora(self) -> Any:
        self.say(
            "## Language models: a step of adapters",
            "",
            "GPT-2 124M, 4 x 64, f32, AdamW: all weights, and low-rank adapters of rank 8 beside c_attn, over f32,",
            "8 or 4 bits. Memory: the largest resident size beyond that before the model was loaded.",
            "",
        )
        found, rows, bars = self.by_isa("lora.py"), [], []
        for isa, got in found.items():
            by = {r["name"]: r for r in got["rows"]} if got else {}
            for name, r in by.items():
                times, memory = (r[key] / by["full"][key] for key in ("median_ms", "mb"))
                rows.append([f"{isa}, {name}", f"{r['median_ms']:.0f} ({r['min_ms']:.0f})", f"{r['mb']:.0f}"])
                if "int" in name:
                    bars.append(f"* {isa}, {name}: time {verdict(times, 0.7)}, memory {verdict(memory, 0.35)}.")
        self.say(table(["step", "ms, median (least)", "MB"], rows), "", *bars, "")
        return found

    def llm_bpe(self) -> Any:
        self.say("## Language models: encoding of text", "")
        vocabulary = Path(os.environ.get("CHAINRULE_GPT2", ROOT.parent / "shared" / "data" / "gpt2"))
        text = Path(os.environ.get("CHAINRULE_DATA", ROOT.parent / "shared" / "data" / "shakespeare.txt"))
        if not (vocabulary.is_dir() and text.is_file()):
            self.say("Went without: GPT-2's vocabulary or the text is not here (CHAINRULE_GPT2, CHAINRULE_DATA).", "")
            return None
        got = self.peer("bpe.py", vocabulary, text, *(["--quick"] if self.quick else []))
        if not got:
            self.say("Failed.", "")
            return None
        one, all_, size = got["one_thread_s"], got["threads_s"], got["bytes"]
        self.say(
            f"GPT-2's vocabulary; tiny-Shakespeare on one thread (its time), and a file of {size['file'] / 1e6:.0f}"
            f" MB in documents of 20 kB on {got['threads']} threads. MB a second.",
            "",
            table(
                ["", "one thread", f"{got['threads']} threads"],
                [
                    [
                        f"{name} {got['peers'].get(name, '')}".strip(),
                        f"{size['text'] / one[name] / 1e6:.1f}" if name in one else "-",
                        f"{size['file'] / all_[name] / 1e6:.1f}",
                    ]
                    for name in all_
                ],
            ),
            "",
        )
        for name in got["peers"]:
            self.say(
                reached(f"One thread, against {name}", one[name] / one["chainrule"], 2),
                reached(f"Threads, against {name}", all_[name] / all_["chainrule"], 2),
            )
        self.say("")
        return got

    def llm_perplexity(self) -> Any:
        self.say("## Language models: perplexity of quantized weights", "")
        text = Path(os.environ.get("CHAINRULE_DATA", ROOT.parent / "shared" / "data" / "shakespeare.txt"))
        if not text.is_file():
            self.say("Went without: the text is not here (CHAINRULE_DATA names it).", "")
            return None
        got = self.peer("llm.py", "perplexity", text, *(["--quick"] if self.quick else []))
        if not got:
            self.say("Failed.", "")
            return None
        self.say(
            "A GPT of 4 layers 256 wide over bytes, trained here for 1,500 steps of 12 x 128; the last tenth of",
            "tiny-Shakespeare; groups of 32.",
            "",
            table(
                ["weights", "perplexity", "worse by"],
                [[name, f"{p:.4f}", f"{100 * (p / got['f32'] - 1):+.3f} %"] for name, p in got.items()],
            ),
            "",
        )
        for name, bar in (("bf16", 0.1), ("int8", 0.5), ("int4, balanced", 3)):
            worse = 100 * (got[name] / got["f32"] - 1)
            self.say(f"* {name}: {worse:+.3f} % ({'within' if worse <= bar else 'above'} the bar of {bar:g} %).")
        self.say("")
        return got

    def llm_load(self) -> Any:
        self.say("## Language models: loading", "")
        got = self.peer("llm.py", "load")
        if not got:
            self.say("Needs /proc.", "")
            return None
        file, ms, memory = got["file"], got["ms"], got["resident"] / got["file"]
        self.say(
            f"124M in f32 from a folder of {file / 1e6:.0f} MB, files in the page cache, to the first token's start:"
            f" {within(ms, 100, 'ms')}.",
            f"After a few tokens, in memory, of the file: {verdict(memory, 1.05)}.",
            "",
        )
        return got

    def with_without(self, kind: str, title: str, words: str, names: tuple[str, str]) -> None:
        self.say(f"## {title}", "", words, "")
        results = [self.peer("with_without.py", kind, *(["--quick"] if self.quick else [])) for _ in range(self.rounds)]
        if not all(results):
            return
        self.data["fused" if kind == "attention" else kind] = results
        least = {
            row["name"]: [
                min(r[way] for got in results for r in got["rows"] if r["name"] == row["name"])
                for way in ("with_ms", "without_ms")
            ]
            for row in results[0]["rows"]
        }
        self.say(
            table(
                ["milliseconds, least of all rounds", *names, "times as long"],
                [[name, f"{a:.3g}", f"{b:.3g}", f"{b / a:.2f}x"] for name, (a, b) in least.items()],
            ),
            "",
        )

    def files(self) -> None:
        self.say(
            "## Files",
            "",
            "Written as always (fsync, then renamed) and read back from the system's cache; the least of several runs.",
            "",
        )
        with tempfile.TemporaryDirectory() as folder:
            got = run_json(
                [BUILD / "bench" / "files", "--json", *(["--quick"] if self.quick else []), folder], self.threads
            )
        if got:
            self.data["files"] = got
            rows = [
                [row["name"], f"{row['ms']:.3g}", f"{row['rate']:.3g}" if row["rate"] else ""] for row in got["rows"]
            ]
            self.say(
                table(
                    [f"{got['megabytes']:,.0f} MB of weights, {got['tokens'] / 1e6:,.0f} million tokens", "ms", "GB/s"],
                    rows,
                ),
                "",
            )

    # ---- GPUs

    def gpu_curve(self) -> None:
        """For each kind of work its time over its size, beside the cpu's."""
        self.say("## When a GPU pays", "")
        kinds = {
            "matmul": "(N, N) by (N, N)",
            "elementwise": "gelu of N numbers",
            "gpt": "a training step of a GPT of 2 layers N wide, 8 x 64 tokens",
        }
        listed = subprocess.run([str(PROGRAM), "info"], capture_output=True, text=True).stdout
        gpus = [line.strip() for line in listed.splitlines() if line.startswith(("  cuda:", "  webgpu:"))]
        if not gpus or not list(BUILD.glob("python/chainrule/_core*.so")):
            self.say("Went without: no GPU, or no Python extension in this build (make deps).", "")
            return
        self.say(
            f"cpu: {self.threads} threads; GPU: {gpus[0]}. Milliseconds, one wait for the device per many calls.", ""
        )
        for kind, what in kinds.items():
            got = run_json(
                [
                    sys.executable,
                    HERE / "gpu_curve.py",
                    kind,
                    "--threads",
                    self.threads,
                    *(["--quick"] if self.quick else []),
                ],
                self.threads,
            )
            if not got:
                continue
            self.data.setdefault("gpu", {})[kind] = got
            rows = [
                [f"{r['size']:,}", f"{r['cpu_ms']:.3g}", f"{r['gpu_ms']:.3g}", f"{r['cpu_ms'] / r['gpu_ms']:.2g}x"]
                for r in got["rows"]
            ]
            self.say(table([f"{what}: N", "cpu", "GPU", "cpu / GPU"], rows), "")

    # ---- Python

    def python(self) -> None:
        self.say("## Python", "")
        if not list(BUILD.glob("python/chainrule/_core*.so")):
            self.say("Went without: no Python extension in this build (make deps).", "")
            return
        libraries = ["chainrule", *(name for name in ("torch", "numpy") if has(name))]
        quick = ["--quick"] if self.quick else []
        small: dict[str, list[Any]] = {name: [] for name in libraries}
        cost: dict[str, list[Any]] = {name: [] for name in libraries}
        inside: list[Any] = []
        outside: list[Any] = []
        for _ in range(self.rounds):
            for name in libraries:
                small[name].append(self.peer("small.py", name, *quick))
                cost[name].append(run_json([sys.executable, HERE / "import_cost.py", name, 3], self.threads))
        for _ in range(
            3 * self.rounds if has("numpy") else 0
        ):  # its operands; where results lie in the cache differs from process to process
            for part in ("products", "elementwise"):
                inside.append(self.ours(part, quick=True))
                outside.append(self.peer("peers.py", "chainrule", "--quick", "--only", part))
        if not all(map(all, [*small.values(), *cost.values(), inside, outside])):
            return
        ns = {
            name: {
                row["name"]: min(r["ns"] for g in got for r in g["rows"] if r["name"] == row["name"])
                for row in got[0]["rows"]
            }
            for name, got in small.items()
        }
        load = {name: {unit: min(c[unit] for c in got) for unit in ("ms", "mb")} for name, got in cost.items()}
        self.data["python"] = {"ns": ns, "import": load}
        rows = [
            [what, *(f"{ns[name][what]:,.0f}" if what in ns[name] else "-" for name in libraries)]
            for what in PYTHON_BARS
        ]
        rows += [[f"import, {unit}", *(f"{load[name][unit]:.1f}" for name in libraries)] for unit in ("ms", "mb")]
        self.say(table(["ns, least of all rounds", *(small[name][0]["version"] for name in libraries)], rows), "")
        for what, bar in PYTHON_BARS.items():
            self.say(f"* {what}: {within(ns['chainrule'][what], bar, 'ns')}.")
        self.say(f"* import: {within(load['chainrule']['ms'], 30, 'ms')}, {within(load['chainrule']['mb'], 20, 'MB')}.")
        self.say(f"* wheel: {within(self.wheel() / 1e6, 4, 'MB')}.", "")
        if inside:
            self.called_from_python(merge_parts(inside), merge_parts(outside))

    def called_from_python(self, c: dict[str, dict[str, float]], python: dict[str, dict[str, float]]) -> None:
        """The same cases beside each other: the least times, of calls above 100 us."""
        ratios = {
            name: python[name]["min_ms"] / c[name]["min_ms"] for name in c if name in python and c[name]["min_ms"] > 0.1
        }
        self.data["python"]["against C"] = ratios
        rows = [
            [name, f"{c[name]['min_ms']:.3f}", f"{python[name]['min_ms']:.3f}", f"{ratio:.2f}x"]
            for name, ratio in ratios.items()
        ]
        self.say(table(["least ms", "C", "from Python", "ratio"], rows), "")
        worst = max(ratios, key=lambda name: ratios[name])
        self.say(
            f"Called from Python: geometric mean {verdict(statistics.geometric_mean(ratios.values()), 1.03)}, worst"
            f" {ratios[worst]:.2f}x ({worst}).",
            "",
        )

    def wheel(self) -> int:
        """Bytes of what a wheel holds, stripped and zipped; make test-all builds the true one."""
        package = BUILD / "python" / "chainrule"
        with (
            tempfile.TemporaryDirectory() as folder,
            zipfile.ZipFile(Path(folder) / "wheel", "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for file in [PROGRAM, *(f for f in package.rglob("*") if f.is_file() and f.suffix != ".pyc")]:
                archive.write(
                    stripped_copy(file, Path(folder)) if file == PROGRAM or file.suffix == ".so" else file,
                    str(file.relative_to(BUILD)),
                )
            archive.close()
            return (Path(folder) / "wheel").stat().st_size

    # ---- nn, optim, data, models

    def nn(self) -> None:
        self.say(
            "## nn, optim, data and models",
            "",
            "Training steps with models.GPT and optim.AdamW, clipped by step_clipped or by nn.utils.clip_grad_norm_,",
            "next to the C trainer; milliseconds, median (least).",
            "",
        )
        mine = ["chainrule", "chainrule from Python", "chainrule from Python, clip_grad_norm_"]
        for case in ("gpt2", "char"):
            name, got = CASES[case].name, self.steps(case, [*mine, "PyTorch"], self.threads)
            self.data[f"{name} from Python"] = got
            times = [[v, f"{t['median_ms']:.1f} ({t['min_ms']:.1f})"] for v, t in got.items()]
            self.say(table([f"{name}, {CASES[case].batch} x {CASES[case].time}", "ms a step"], times), "")
            for ours in mine[1:]:
                self.compare_steps(ours, got, ours, ("chainrule",), 1.05)
            self.say("")
        libraries, quick = ["chainrule", *(["torch"] if has("torch") else [])], ["--quick"] if self.quick else []
        small: dict[str, list[Any]] = {name: [] for name in libraries}
        epoch: dict[str, list[Any]] = {name: [] for name in libraries}
        for _ in range(self.rounds):
            for name in libraries:
                small[name].append(self.peer("small.py", name, *quick))
                epoch[name].append(self.peer("loader.py", name, *quick))
        if not all(map(all, [*small.values(), *epoch.values()])):
            return
        step, samples = "two-moons step, nn and optim", epoch["chainrule"][0]["samples"]
        least = lambda got, unit: {
            row["name"]: min(r[unit] for g in got for r in g["rows"] if r["name"] == row["name"])
            for row in got[0]["rows"]
        }
        us = {name: least(got, "ns")[step] / 1e3 for name, got in small.items()}
        seconds = {name: least(got, "seconds") for name, got in epoch.items()}
        self.data["nn"] = {"us": us, "epoch": seconds}
        rows = [[f"{step}, us", *(f"{us[name]:.1f}" for name in libraries)]]
        rows += [
            [f"DataLoader, {samples:,} samples of a {what}, s", *(f"{seconds[name][what]:.3f}" for name in libraries)]
            for what in seconds["chainrule"]
        ]
        self.say(
            table(["least of all rounds", *(small[name][0]["version"] for name in libraries)], rows),
            "",
            f"* {step}: {within(us['chainrule'], 90, 'us')}.",
        )
        table_of = {
            name: row["TensorDataset"] for name, row in seconds.items()
        }  # the others spend their time in __getitem__
        self.compare("an epoch of a TensorDataset", table_of.pop("chainrule"), table_of, 0.2)
        self.say("")

    def rnn(self) -> None:
        self.say(
            "## Recurrent networks",
            "",
            "2 layers of 256, 64 time steps, batch 32: milliseconds, least of all rounds; the libraries alternate.",
            "Share of the peak: of the rate of a product 1024 x 1024 x 1024 in the same rounds.",
            "",
        )
        words = [HERE / "rnn.py", *(["--quick"] if self.quick else []), "--threads", self.threads]
        got = [run_json([sys.executable, *words], self.threads) for _ in range(self.rounds)]
        if not all(got):
            self.say("Failed.", "")
            return
        names, lines = list(got[0]["versions"]), []
        for rows in zip(*(g["rows"] for g in got), strict=True):
            ms = {name: min(row["ms"][name] for row in rows) for name in names}
            share = statistics.median(row["peak"] for row in rows)
            lines.append([rows[0]["name"], *(f"{ms[name]:.1f}" for name in names), f"{100 * share:.0f} %"])
            self.data[rows[0]["name"]] = ms
        head = [f"{LIBRARIES.get(name, name)} {got[0]['versions'][name]}" for name in names]
        self.say(table(["ms", *head, "of the peak"], lines), "")
        for kind in ("LSTM", "GRU") if "torch" in names else ():
            ms = dict(self.data[f"{kind}, step"])
            self.compare(f"{kind}, a training step", ms.pop("chainrule"), {"torch": ms["torch"]}, 0.6)
        self.say("")

    # ---- convolutions

    def conv(self) -> None:
        self.say(
            "## Convolutions",
            "",
            "Forward, and forward with both gradients, from Python: the least of rounds in turn; GFLOP/s and the share",
            "of a loop of multiply-adds (the peak of the part products). `bench/conv.py` has the shapes.",
            "",
        )
        got = self.turns("conv.py")
        speeds = run_json([BUILD / "bench" / "products", "--json", "--quick", self.threads], self.threads)
        if not got or not speeds:
            return
        self.data["conv"] = got
        peak = max(r["peak"] for r in speeds["rows"] if "peak" in r)
        peers = [library for library in got["rows"][0]["ms"] if library != "chainrule"]
        rows, ratios = [], []
        for r in got["rows"]:
            rate = r["flops"] / r["ms"]["chainrule"] / 1e6
            ratios.append(r["ms"].get("torch", math.nan) / r["ms"]["chainrule"])
            rows.append(
                [
                    f"{r['name']}, {'forward' if r['what'] == 'forward' else 'with gradients'}",
                    f"{r['ms']['chainrule']:.2f} ms",
                    f"{rate:.0f} ({100 * rate / peak:.0f} %)",
                    *(f"{r['ms'][p]:.2f} ms ({r['ms'][p] / r['ms']['chainrule']:.2f}x)" for p in peers),
                ]
            )
        self.say(table(["convolution", "chainrule", "GFLOP/s", *(LIBRARIES[p] for p in peers)], rows), "")
        if "torch" in peers:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            self.say(f"PyTorch over chainrule: geometric mean {mean:.2f}x, least {min(ratios):.2f}x.", "")

    # ---- pooling and whole networks

    def turns(self, script: str) -> Any:
        """What a script of libraries that take turns prints."""
        words = ["--quick"] * self.quick + ["--cpu"] * self.cpu
        return run_json([sys.executable, HERE / script, *words, "--threads", self.threads], self.threads)

    def clock(self) -> str:
        return "processor time" if self.cpu else "elapsed time"

    def pool(self) -> None:
        self.say(
            "## Pooling, resampling and normalization",
            "",
            f"Milliseconds of {self.clock()} on {self.threads} thread{'s' * (self.threads > 1)}, the least of rounds in"
            " turn: forward, and forward with all gradients. x (16, 64, 56, 56),",
            "s (32, 512, 4, 4), t (32, 256, 512); w and b of their channels.",
            "",
        )
        got = self.turns("pool.py")
        if not got:
            self.say("Failed.", "")
            return
        self.data["pool"] = got
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
        self.say(table(["call", "chainrule", *names, "with gradients", *names], rows), "")
        self.say("In brackets: ours over theirs. -: no plain equivalent.", "")
        for library in peers:
            mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios[library]))
            worst, name = max(ratios[library])
            self.say(f"Against {LIBRARIES[library]}: geometric mean {mean:.2f}x, the most {worst:.2f}x (`{name}`).", "")

    def scripts(self) -> None:
        self.say(
            "## Training steps of whole networks",
            "",
            f"Milliseconds of {self.clock()} on {self.threads} thread{'s' * (self.threads > 1)}, the least of rounds in"
            " turn; `bench/nets.py`, which is written for PyTorch, runs with PyTorch's",
            "`torch` and with `chainrule.torch`. Losses of the first step agree.",
            "",
        )
        got = self.turns("scripts.py")
        if not got:
            self.say("Failed.", "")
            return
        self.data["scripts"] = got
        libraries = list(got["rows"][0]["ms"])
        rows = [[r["name"], *(f"{r['ms'][library]:.1f}" for library in libraries)] for r in got["rows"]]
        self.say(table(["ms a step", *got["versions"]], rows), "")
        for r in got["rows"]:
            ours = min(ms for library, ms in r["ms"].items() if library.startswith("chainrule"))
            peers = {library: ms for library, ms in r["ms"].items() if not library.startswith("chainrule")}
            self.compare(r["name"].split(",")[0], ours, some(peers, "PyTorch compiled"), 0.8)
        for name, peaks in got["memory_mb"].items():
            each = ", ".join(f"{library} {peak:.0f}" for library, peak in peaks.items())
            self.say(f"* Peak memory of the step of {name.split(',')[0]}, MB beyond the process before: {each}.")
            self.compare("its memory", peaks["chainrule"], some(peaks, "PyTorch"), 1)
        self.say("")

    def compile(self) -> None:
        self.say(
            "## Recorded steps",
            "",
            f"Milliseconds of {self.clock()} on {self.threads} thread{'s' * (self.threads > 1)}, the least of rounds in"
            " turn, from Python: the same lines op by op and compiled (`cr.compile`,",
            "`torch.compile`, `jax.jit`). Elementwise steps are of 4 M elements; `bench/compile.py` has the lines.",
            "",
        )
        got = self.turns("compile.py")
        if not got:
            self.say("Failed.", "")
            return
        self.data["compile"] = got
        libraries = list(got["rows"][0]["ms"])
        number = lambda ms: "" if ms is None else f"{ms:.1f}" if ms > 100 else f"{ms:.3f}"
        rows = [[r["name"], *(number(r["ms"].get(library)) for library in libraries)] for r in got["rows"]]
        self.say(table(["ms", *got["versions"]], rows), "")
        ours = "chainrule compiled"
        speeds = []
        for r in got["rows"]:
            ms, name = r["ms"], r["name"]
            peers = {library: t for library, t in ms.items() if not library.startswith("chainrule")}
            if name.startswith(("two moons", "GPT-2")):
                bar = 0.5 if name.startswith("two moons") else 1
                self.say(f"* {name}, against the step op by op: {verdict(ms[ours] / ms['chainrule'], bar)}.")
            self.compare(name, ms[ours], peers, 0.2 if name.startswith("two moons") else 1)
            if peers and not name.startswith(("two moons", "GPT-2")):
                speeds.append(min(peers.values()) / ms[ours])
        if speeds:
            mean = statistics.geometric_mean(speeds)
            self.say(f"* Elementwise steps, geometric mean against the best peer of each: {1 / mean:.2f}x the time.")
        for k, when in enumerate(("from the start", "of the steps that follow the first five")):
            peaks = {library: both[k] for library, both in got["memory"].items()}
            if peaks:
                each = ", ".join(f"{library} {peak / 1e6:.0f}" for library, peak in peaks.items())
                self.say(f"* Peak memory of GPT-2, {when}, MB beyond the process before: {each}.")
                self.compare("its memory", peaks[ours], some(peaks, "torch", "torch compiled"), 0.8)
        self.say("")

    # ---- every op

    def everyday(self) -> None:
        self.say(
            "## Every op, from Python",
            "",
            "The same line in both libraries: time over PyTorch's, the median of rounds, on about 100, 64 thousand",
            "and 4 million elements (`bench/everyday.py` defines the letters).",
            "",
        )
        quick = ["--quick"] if self.quick else []
        got = (
            run_json([sys.executable, HERE / "everyday.py", *quick, "--threads", self.threads], self.threads)
            if has("torch")
            else None
        )
        if not got:
            self.say("Went without: PyTorch is not installed (make oracle)." if not has("torch") else "Failed.", "")
            return
        self.data["everyday"] = got
        sizes = ("small", "medium", "large")
        ratio = {
            row["call"]: [row[size][2] for size in sizes]
            for row in got["rows"]
            if not any(isinstance(row[size], str) for size in sizes)
        }
        self.say(
            table(
                [f"ours / {got['versions'][1]}", *sizes],
                [[f"`{call}`", *(f"{x:.2f}" for x in r)] for call, r in ratio.items()],
            ),
            "",
        )
        for row in got["rows"]:
            if row["call"] not in ratio:
                self.say(
                    f"* Went without `{row['call']}`: {next(row[size] for size in sizes if isinstance(row[size], str))}"
                )
        mean = lambda rows: statistics.geometric_mean(x for r in rows for x in r)
        means = ", ".join(
            f"{size} {statistics.geometric_mean(r[k] for r in ratio.values()):.2f}x" for k, size in enumerate(sizes)
        )
        self.say(f"* All {len(ratio)}: geometric mean {verdict(mean(ratio.values()), 0.8)}; {means}.")
        above = sorted(
            ((x, call, size) for call, r in ratio.items() for size, x in zip(sizes, r, strict=True) if x > 1.5),
            reverse=True,
        )
        self.say(f"* Above 1.5x: {len(above) or 'none'}.")
        for x, call, size in above:
            self.say(f"  * `{call}` {size} {x:.2f}x: {got['reasons'].get(call, '**no reason is known**')}")
        if not isinstance(got["sort"], str):
            self.say(f"* A million f32 sorted in {got['sort'][0] / 1e6:.1f} ms: {verdict(got['sort'][2], 0.3)}.")
        self.say(f"* A sum of 10^8 f32 is wrong by {within(got['sum_error'], 1e-6, 'of the sum of magnitudes')}.", "")

    # ---- the first GPU behind WebGPU

    def webgpu(self) -> None:
        self.say("## The first GPU behind WebGPU", "")
        program = BUILD / "bench" / "webgpu"
        results = [
            run_json([program, "--json", *(["--quick"] if self.quick else [])], self.threads)
            for _ in range(1 if self.quick else 2)
        ]
        if not all(results):
            self.say("Went without: no GPU here.", "")
            return
        rows = [row for row in results[0]["rows"] if row]
        pick = {"GFLOP/s": max, "GB/s": max}
        best = {
            row["name"]: pick.get(row["unit"], min)(
                r["value"] for got in results for r in got["rows"] if r.get("name") == row["name"]
            )
            for row in rows
        }
        ready = {
            how: statistics.median(run_json([program, "--open", how], self.threads) or 0.0 for _ in range(5))
            for how in ("driver", "ours")
        }
        self.data["webgpu"] = {"info": results[0]["info"], **best, **{f"ready, {how}": ms for how, ms in ready.items()}}
        self.say(f"{results[0]['info']}; the best of {len(results)} runs.", "")
        self.say(table(["", "", ""], [[row["name"], f"{best[row['name']]:,.4g}", row["unit"]] for row in rows]), "")
        n = 512 if self.quick else 1024
        ratio = (
            max(best[f"matmul {n}, ours, {how}"] for how in ("workgroup memory", "no workgroup memory"))
            / best[f"matmul {n}, textbook, 16 x 16 tiles"]
        )
        self.say(
            f"* matmul {n}: {ratio:.1f} times as fast as the textbook kernel ({'within' if ratio >= 2 else 'below'} the"
            " bar of 2)."
        )
        for what in ("add", "matmul"):
            self.say(f"* {what}, recorded and submitted: {within(best[f'{what}, recorded and submitted'], 3, 'us')}.")
        late = best["GPT, kernels compiled in the steps after these"]
        self.say(
            f"* A GPT step: {within(best['GPT step, submits'], 4, 'submits')}; kernels compiled after two steps:"
            f" {late:.0f}."
        )
        half = max(best["GPT step, bfloat16"], best["GPT step, float16"]) / best["GPT step"]
        self.say(f"* A GPT step in half precision, against float32: {within(half, 1.1, 'times as long')}.")
        beyond = within(max(0.0, ready["ours"] - ready["driver"]), 150, "ms")
        self.say(
            f"* Ready after {ready['ours']:.0f} ms, the driver by itself after {ready['driver']:.0f}: {beyond}"
            " beyond it.",
            "",
        )

    # ---- CUDA

    def cuda(self, options: list[str]) -> None:
        self.say("## CUDA", "")
        got = run_json([sys.executable, HERE / "cuda.py", *(["--quick"] if self.quick else []), *options], self.threads)
        if not got:
            self.say("Went without: no NVIDIA GPU, or no Python extension in this build (make deps).", "")
            return
        self.data["cuda"] = got
        listed = subprocess.run([str(PROGRAM), "info"], capture_output=True, text=True).stdout
        card = next(
            (line.strip() for line in listed.splitlines() if line.startswith(f"  {got['device']} ")), got["device"]
        )
        self.say(
            f"{card}; {', '.join(got['versions'])}{'; without PyTorch: ' + got['missing'] if got['missing'] else ''}.",
            "Random numbers; rates at the median of interleaved rounds (at the least time).",
            "",
        )
        for part in dict.fromkeys(row["part"] for row in got["rows"]):
            self.cuda_part(part, [row for row in got["rows"] if row["part"] == part])
        if got["error"] is not None:
            self.say(f"* A product in f32 is wrong by {within(got['error'], 1e-4, 'of its largest element')}.", "")
        if got["left_out"]:
            self.say(f"Left out, for the time was up: {'; '.join(got['left_out'])}.", "")

    def cuda_host(self) -> None:
        self.say("## CUDA, the host's part", "")
        got = run_json([sys.executable, HERE / "cuda_host.py", *(["--quick"] if self.quick else [])], self.threads)
        if not got:
            self.say("Went without: no NVRTC here, or a build without the simulated GPU (make build/.for-nvrtc).", "")
            return
        self.data["cuda_host"] = got
        self.say(
            f"No GPU ran this. A training step of a GPT ({' x '.join(map(str, got['shape']))}: vocabulary, context,"
            f" layers, heads, width; {got['rows']} rows), called from Python, on a driver that takes each",
            "launch and runs none (`tests/cudasim/null.c`): the library's own cost of asking for the work. A real",
            "driver adds its cost of a launch.",
            "",
            "| step | launches | median us | least us | us a launch (least) |",
            "|---|--:|--:|--:|--:|",
            *(
                f"| {name} | {row['launches']:.0f} | {row['median_us']:.0f} | {row['min_us']:.0f} |"
                f" {row['min_us'] / row['launches']:.2f} |"
                for name, row in got["steps"].items()
            ),
            "",
        )

    def cuda_part(self, part: str, rows: list[Any]) -> None:
        """A table with a line for each case, then what it says of the bars."""
        titles = {
            "host": "Microseconds of the host for one small operation, without waiting",
            "matmul": "Products",
            "cpu": "Beside the cpu",
            "attention": "Attention, causal, 16 heads, 16k tokens",
            "bandwidth": "Bandwidth, 64M elements; share: of the quickest copy",
            "train": "GPT-2 124M, a training step",
            "kernels": "Every elementwise function, 64M elements; share: of a copy",
        }
        shown = lambda rate: (
            f"{1e6 / rate:.2f}" if part == "host" else f"{rate:,.0f}" if rate >= 1e4 else f"{rate:,.4g}"
        )
        names = list(dict.fromkeys(name for row in rows for name in row["columns"]))
        peers = any(name.startswith("PyTorch") for name in names)
        copy = max((speed(row, name) for row in rows if row["name"] == "copy" for name in names), default=0.0)
        lines = []
        for row in rows:
            rates = {
                name: f"{shown(speed(row, name))} ({shown(speed(row, name, 'min_ms'))})"
                for name in names
                if speed(row, name)
            }
            line = [
                f"{row['name']}, {row['dtype']}",
                "us" if part == "host" else row["unit"],
                *(rates.get(name, "") for name in names),
            ]
            line += [f"{100 * speed(row, 'chainrule') / copy:.0f} %"] if copy else []
            if part == "train":
                line.append(
                    " / ".join(
                        f"{column['peak_bytes'] / 1e9:.2f}"
                        for column in row["columns"].values()
                        if isinstance(column, dict)
                    )
                )
            lines.append(line + ([f"{times_the_best(row):.2f}x"] if peers else []))
        more = [
            *(["share"] if copy else []),
            *(["peak GB, each"] if part == "train" else []),
            *(["to the best"] if peers else []),
        ]
        failures = [
            f"* {row['name']}, {row['dtype']}, {name}: {why}"
            for row in rows
            for name, why in row["columns"].items()
            if isinstance(why, str)
        ]
        self.say(table([titles[part], "unit", *names, *more], lines), "")
        if said := [*failures, *cuda_bars(part, {f"{row['name']} {row['dtype']}": row for row in rows}, copy)]:
            self.say(*said, "")

    def size(self) -> None:
        self.say("## Size", "")
        library = next(iter(sorted(BUILD.glob("libchainrule.so*"))), None)
        if not library:
            self.say("No shared library in this build.", "")
            return
        with tempfile.TemporaryDirectory() as folder:
            size = stripped_copy(library, Path(folder)).stat().st_size
        self.data["size"] = size
        self.say(f"libchainrule.so, stripped: {within(size / 1e6, 6, 'MB')}.", "")


def machine() -> str:
    name = platform.machine()
    try:
        name = next(
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        )
    except (OSError, StopIteration):
        pass
    return f"{name}, {len(os.sched_getaffinity(0))} processors, {platform.system()} {platform.release().split('-')[0]}"


def spliced(old: str, new: str) -> str:
    """The old page with the sections of the new one in place of its own of the same name; what it
    has not comes last."""
    head, *sections = old.split("\n## ")
    fresh = {section.splitlines()[0]: section for section in new.split("\n## ")[1:]}
    kept = [fresh.pop(section.splitlines()[0], section) for section in sections]
    return "\n## ".join([head, *kept, *fresh.values()])


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures, next to the peers that are installed.")
    parser.add_argument("--quick", action="store_true", help="one round, fewer runs")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--json", metavar="FILE", help="the numbers as JSON too")
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="the tables as Markdown too; with --only these sections of the page that is there",
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cpu", action="store_true", help="conv, pool, scripts: processor time, for a busy machine")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="of the products of part sizes")
    parser.add_argument(
        "--llm", nargs="+", choices=LLM_PARTS, metavar="NAME", help=f"of part llm: {', '.join(LLM_PARTS)}"
    )
    parser.add_argument(
        "--cuda", nargs=argparse.REMAINDER, default=[], help="all that follows: options of bench/cuda.py"
    )
    o = parser.parse_args()
    if not PROGRAM.is_file():
        sys.exit(f"{PROGRAM} is not there: make build")
    b = Bench(o.quick, o.threads, o.sizes, Path(o.write).parent if o.write else None, o.cpu, o.llm)
    command = (
        "make bench"
        if sys.argv[1:] in ([], ["--write", "docs/benchmarks.md"])
        else f"python bench/run.py {' '.join(sys.argv[1:])}"
    )
    b.say(
        "# Benchmarks",
        "",
        f"{datetime.date.today()}, {machine()}; {o.threads} threads each, f32; chainrule and the peers alternate in one"
        " run.",
    )
    load = os.getloadavg()[0]
    how = f"`{command}`; load average before: {load:.1f}{' - NOT A QUIET MACHINE' if load > 0.7 else ''}."
    b.say(f"Made by {how}", "")
    page = Path(o.write) if o.write else None
    again = page is not None and len(o.only) < len(PARTS) and page.is_file()
    info = subprocess.run([str(PROGRAM), "info"], capture_output=True, text=True).stdout
    b.say("```text", *(line for line in info.splitlines() if line.startswith(("chainrule", "  cpu"))), "```", "")
    measures = {
        "step": b.step,
        "text": b.shakespeare,
        "operations": b.operations,
        "attention": b.attention,
        "products": b.products,
        "dispatch": b.dispatch,
        "value": b.value,
        "chain": b.chain,
        "python": b.python,
        "nn": b.nn,
        "rnn": b.rnn,
        "everyday": b.everyday,
        "conv": b.conv,
        "pool": b.pool,
        "scripts": b.scripts,
        "compile": b.compile,
        "sizes": b.product_sizes,
        "fused": b.fused,
        "generation": b.generation,
        "llm": b.llm,
        "files": b.files,
        "gpu": b.gpu_curve,
        "webgpu": b.webgpu,
        "cuda": lambda: b.cuda(o.cuda),
        "cuda_host": b.cuda_host,
        "size": b.size,
    }
    for part in PARTS:
        if part in o.only:
            b.measured = f"Measured by itself on {datetime.date.today()}: {how}" if again else ""
            measures[part]()
            if again and part != "llm":
                b.say(b.measured, "")
    if o.json:
        Path(o.json).write_text(json.dumps(b.data, indent=1) + "\n")
    if page:
        text = "\n".join(b.text)
        page.write_text(spliced(page.read_text(), text) if again else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
