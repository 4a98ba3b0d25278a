"""The browser edition in headless Chromium beside the native program."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .base import HERE, PROGRAM, ROOT, Bench, Missing, Row, python, run_json, shakespeare

sys.path.append(str(ROOT / "tests"))
from tab import PAGE, Tab, page_missing, serve

NATIVE = {"CHAINRULE_ISA": "v2", "CHAINRULE_ONEDNN": "off", "CHAINRULE_DEVICE": "cpu"}
SIZES = {  # title -> options of a run, and its steps
    "0.1M parameters": ({"layers": 2, "width": 64, "heads": 4}, 150),
    "0.8M parameters": ({"layers": 4, "width": 128, "heads": 4}, 40),
    "10M parameters": ({"layers": 6, "width": 384, "heads": 6, "context": 128, "batch": 4}, 6),
}
WELL_TRAINED = {  # title -> text, options of a run, the loss of the rest of the text at which it writes well
    "names, 0.1M parameters, to a loss of 2.2": (
        "names.txt",
        SIZES["0.1M parameters"][0] | {"steps": 1000, "eval_every": 100},
        2.2,
    ),
    "Shakespeare, 0.8M parameters, to a loss of 1.9": (
        "shakespeare.txt",
        SIZES["0.8M parameters"][0] | {"steps": 2600, "eval_every": 650},
        1.9,
    ),
}
ASK = """{
    const worker = new Worker("web.mjs", { type: "module" });
    self.answer = null;
    worker.onmessage = ({ data }) => { worker.terminate(); self.answer = data; };
    worker.postMessage(%s);
}"""


def native(folder: Path, options: dict[str, int], threads: int) -> tuple[float, float]:
    """Seconds in the steps, and the last loss."""
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [str(PROGRAM), "train", "--data", "text.txt", "--out", "run", "--overwrite", *words]
    command += ["--threads", str(threads)]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **NATIVE}, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"the native run failed: {done.stderr.strip()[-200:]}")
    lines = [json.loads(line) for line in (folder / "run" / "run.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    return steps[-1]["seconds"], steps[-1]["loss"]


def gzipped(*files: Path) -> float:
    """Kilobytes, as a server sends them."""
    return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) / 1e3


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Tab]:
    """A tab with a page of the folder, which has shared memory; the package and the worker lie beside it."""
    (folder / "chainrule").symlink_to(PAGE / "chainrule")
    (folder / "web.mjs").symlink_to(HERE / "web.mjs")
    (folder / "index.html").write_text("<!doctype html><title>bench</title>")
    server = serve(folder, isolated=True)
    try:
        with Tab(f"http://127.0.0.1:{server.server_port}/index.html") as tab:
            yield tab
    finally:
        server.shutdown()


def asked(tab: Tab, **what: object) -> Any:
    tab.run(ASK % json.dumps(what))
    tab.wait("self.answer", 1200)
    found = tab.run("self.answer")
    if "error" in found:
        raise Missing(f"the browser says: {found['error']}")
    return found


def training(bench: Bench, tab: Tab, folder: Path) -> list[Row]:
    rows, loaded = [], []
    first: dict[str, list[float]] = {}
    for title, (size, steps) in SIZES.items():
        options = size | {"steps": max(2, steps // 4) if bench.quick else steps, "eval_every": 0, "sample": 0}
        tokens = options["steps"] * options.get("batch", 12) * options.get("context", 64)
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(bench.rounds):
            for threads in range(1, bench.threads + 1):
                seconds, loss = native(folder, options, threads)
                found = asked(tab, threads=threads, options=options)
                if abs(found["loss"] - loss) > 1e-6 * abs(loss):
                    raise Missing(f"the losses differ: {found['loss']} and {loss}")
                rates.setdefault(("native", threads), []).append(tokens / seconds)
                rates.setdefault(("web", threads), []).append(tokens / found["seconds"])
                if threads == 1:
                    loaded.append(found["loaded"])
                    first.setdefault(title, []).append(found["first"])
        best = {kind: max(values) for kind, values in rates.items()}
        for threads in range(1, bench.threads + 1):
            peers = {"native x86-64-v2": best["native", threads]}
            group = f"browser edition, training, {threads} thread{'s' * (threads > 1)}"
            rows.append(Row(f"training, {title}, {threads}", "tokens/s", best["web", threads], peers, group=group))
        if bench.threads > 1:
            rows.append(
                Row(
                    f"training, {title}",
                    "tokens/s",
                    best["web", bench.threads],
                    {"one thread": best["web", 1]},
                    group=f"browser edition, {bench.threads} threads beside one",
                )
            )
    start = "browser edition, start and size"
    rows.append(Row("module loaded", "ms", statistics.median(loaded), group=start))
    for title, times in first.items():
        rows.append(Row(f"first step of training, {title}", "ms", statistics.median(times), group=start))
    return rows


def trained_well(bench: Bench, tab: Tab, folder: Path) -> list[Row]:
    """Seconds from the start of the worker to the end of a text that the model writes; without the texts, nothing."""
    rows = []
    for title, (name, options, until) in WELL_TRAINED.items():
        if bench.quick or not shakespeare().with_name(name).is_file():
            print(f"without {title}: {'quick' if bench.quick else f'{name} is not here'}")
            continue
        (folder / name).symlink_to(shakespeare().with_name(name).resolve())
        found = asked(tab, threads=bench.threads, options=options | {"sample": 0}, text=name, until=until)
        if found["val_loss"] > until:
            raise Missing(f"{title}: {found['val_loss']} after {options['steps']} steps")
        rows.append(Row(title, "s", found["total"], group="browser edition, to a good model"))
    return rows


def adapters(bench: Bench, tab: Tab, folder: Path) -> list[Row]:
    """LoRA of rank 8 over a Llama of 135M in Q4_0, a sample of 128 tokens, on all threads."""
    run_json(python("web_lora.py", folder / "m.gguf", "--write"), bench.threads)
    found, own = [], []
    for _ in range(1 if bench.quick else 3):
        own.append(run_json(python("web_lora.py", folder / "m.gguf"), bench.threads, NATIVE)["seconds"])
        found.append(asked(tab, threads=bench.threads, model="m.gguf"))
    best, peers = min(each["seconds"] for each in found), {"native x86-64-v2": 1e3 * min(own)}
    what = "LoRA over 135M Q4_0, 128 tokens"
    return [
        Row(what, "ms", 1e3 * best, peers),
        Row(f"{what}, memory of the module", "MB", found[0]["megabytes"], group="browser edition, start and size"),
    ]


def web(bench: Bench) -> list[Row]:
    """The browser edition in headless Chromium beside the native program at x86-64-v2: tokens per second

    The same run in both, in turns, by one thread and by all; the losses must be equal. Sizes are after gzip."""
    if why := page_missing():
        raise Missing(why)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.txt").write_text("".join(f"line {n * n % 977} of {n}\n" for n in range(6000)))
        with served(folder) as tab:
            rows = [*training(bench, tab, folder), *trained_well(bench, tab, folder), *adapters(bench, tab, folder)]
    package = PAGE / "chainrule"
    small, whole = ([package / f"{name}.wasm", package / f"{name}.mjs"] for name in ("small", "whole"))
    page = [file for file in PAGE.glob("*.*") if file.is_file()]
    sizes = {"small module": small, "whole module": whole, "package's scripts": [*package.glob("*.js")], "page": page}
    for what, files in sizes.items():
        rows.append(Row(what, "kB", gzipped(*files), group="browser edition, start and size"))
    return rows
