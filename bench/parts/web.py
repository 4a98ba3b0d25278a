"""The browser edition beside the native program."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from .base import HERE, PROGRAM, ROOT, Bench, Missing, Row, run_json

PACKAGE = ROOT / "build" / "web" / "chainrule"
PAGE = ROOT / "build" / "web"
SIZES = {  # title -> options of a run, and its steps
    "0.1M parameters": ({"layers": 2, "width": 64, "heads": 4}, 150),
    "0.8M parameters": ({"layers": 4, "width": 128, "heads": 4}, 40),
    "10M parameters": ({"layers": 6, "width": 384, "heads": 6, "context": 128, "batch": 4}, 6),
}


def native(text: Path, options: dict[str, int], folder: Path) -> tuple[float, float]:
    """Seconds in the steps, and the last loss."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [str(PROGRAM), "train", "--data", str(text), "--out", "run", "--overwrite", "--threads", "1", *words]
    environment = {**os.environ, "CHAINRULE_ISA": "v2", "CHAINRULE_ONEDNN": "off", "CHAINRULE_DEVICE": "cpu"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"the native run failed: {done.stderr.strip()[-200:]}")
    lines = [json.loads(line) for line in (folder / "run" / "run.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    return steps[-1]["seconds"], steps[-1]["loss"]


def gzipped(*files: Path) -> float:
    """Kilobytes, as a server sends them."""
    return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) / 1e3


def web(bench: Bench) -> list[Row]:
    """The browser edition in node (V8) beside the native program at x86-64-v2, one thread each: tokens per second

    The same run in both, in turns; the losses must be equal. Sizes are after gzip."""
    if not shutil.which("node") or not PACKAGE.is_dir():
        raise Missing("no node, or no build/web (make web)")
    rows, loaded, first = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        text.write_text("".join(f"line {n * n % 977} of {n}\n" for n in range(6000)))
        for title, (size, steps) in SIZES.items():
            options = size | {"steps": max(2, steps // 4) if bench.quick else steps, "eval_every": 0, "sample": 0}
            tokens = options["steps"] * options.get("batch", 12) * options.get("context", 64)
            rates: dict[str, list[float]] = {"web": [], "native": []}
            for _ in range(bench.rounds):
                seconds, loss = native(text, options, folder)
                command = ["node", HERE / "web.mjs", PACKAGE, text, json.dumps(options)]
                found = run_json(command, 1)
                if abs(found["loss"] - loss) > 1e-6 * abs(loss):
                    raise Missing(f"the losses differ: {found['loss']} and {loss}")
                rates["native"].append(tokens / seconds)
                rates["web"].append(tokens / found["seconds"])
                loaded.append(found["loaded"])
                first.append(found["first"])
            best = {kind: max(values) for kind, values in rates.items()}
            peers = {"native x86-64-v2": best["native"]}
            rows.append(Row(f"training, {title}", "tokens/s", best["web"], peers, group="browser edition, training"))
    rows.append(Row("module loaded", "ms", statistics.median(loaded), group="browser edition, start and size"))
    small, whole = ([PACKAGE / f"{name}.wasm", PACKAGE / f"{name}.mjs"] for name in ("small", "whole"))
    scripts = list(PACKAGE.glob("*.js"))
    page = [file for file in PAGE.glob("*.*") if file.is_file()]
    sizes = {"small module": small, "whole module": whole, "package's scripts": scripts, "page": page}
    for what, files in sizes.items():
        rows.append(Row(what, "kB", gzipped(*files), group="browser edition, start and size"))
    return rows
