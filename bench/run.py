#!/usr/bin/env python3
"""Every number of docs/benchmarks.md, next to the peers that are installed, interleaved in one run.

use: python bench/run.py [--quick] [--json FILE] [--write docs/benchmarks.md] [--only PART ...] [--sizes N ...]

    step        GPT-2 124M and two character GPTs
    text        tiny-Shakespeare, three seeds
    operations  products, elementwise operations and rows
    attention   forward and backward
    products    shares of the peak
    dispatch    one small op from C
    value       values, in C and in Python
    chain       a graph of ten million nodes
    python      small tensors, import, the C benches called from Python
    nn          steps and an epoch with nn, optim, data and models
    rnn         recurrent networks
    everyday    every op, from Python
    conv        convolutions
    pool        pooling, resampling, normalization
    scripts     training steps of whole networks
    compile     recorded steps
    replays     recorded steps of the program, and the cost of a kernel
    sizes       products of 128 to 4096 by plain loops, cpu and GPU; --sizes chooses
    fused       attention, and without it, on the cpu
    generation  with and without a cache
    llm         language models: tokens a second, steps, encoding, perplexity, loading; --llm chooses
    files       safetensors and token files
    gpu         when one pays
    webgpu      the first GPU
    cuda        an NVIDIA GPU beside PyTorch on it
    cuda_host   the host's cost of a step on such a GPU, measured without one
    size        of the library

bench/parts/ has the functions. tiny-Shakespeare is read from $CHAINRULE_DATA, or from
../shared/data/shakespeare.txt; without it the part says so. CHAINRULE_BUILD names the build
(build/release).  Peers run in this Python: make oracle, make peers."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from parts import core, cuda, gpus, kernels, language_models, layers, python, training
from parts.base import PROGRAM, Bench, info

PARTS: dict[str, Callable[[Bench], None]] = {  # in the order of the page
    "step": training.step,
    "text": training.text,
    "operations": kernels.operations,
    "attention": kernels.attention,
    "products": kernels.products,
    "dispatch": core.dispatch,
    "value": core.value,
    "chain": core.chain,
    "python": python.small,
    "nn": python.nn,
    "rnn": layers.rnn,
    "everyday": python.everyday,
    "conv": layers.conv,
    "pool": layers.pool,
    "scripts": python.scripts,
    "compile": python.compile,
    "replays": python.replays,
    "sizes": kernels.sizes,
    "fused": kernels.fused,
    "generation": language_models.generation,
    "llm": language_models.llm,
    "files": core.files,
    "gpu": gpus.curve,
    "webgpu": gpus.webgpu,
    "cuda": cuda.cuda,
    "cuda_host": cuda.cuda_host,
    "size": core.size,
}
LLM_PARTS = tuple(language_models.LLM_PARTS)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures, next to the peers that are installed.")
    parser.add_argument("--quick", action="store_true", help="one round, fewer runs")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--json", metavar="FILE", help="the numbers as JSON too")
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="the tables as Markdown too; with --only these sections of the page that is there",
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument(
        "--cpu", action="store_true", help="conv, pool, rnn, scripts: processor time, for a busy machine"
    )
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="of the products of part sizes")
    parser.add_argument(
        "--llm", nargs="+", choices=LLM_PARTS, metavar="NAME", help=f"of part llm: {', '.join(LLM_PARTS)}"
    )
    parser.add_argument(
        "--cuda", nargs=argparse.REMAINDER, default=[], help="all that follows: options of bench/cuda.py"
    )
    return parser.parse_args()


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


def made_by() -> str:
    """The command of this run, and the load of the machine before it."""
    command = f"python bench/run.py {' '.join(sys.argv[1:])}"
    if sys.argv[1:] in ([], ["--write", "docs/benchmarks.md"]):
        command = "make bench"
    load = os.getloadavg()[0]
    return f"`{command}`; load average before: {load:.1f}{' - NOT A QUIET MACHINE' if load > 0.7 else ''}."


def spliced(old: str, new: str) -> str:
    """The old page with the sections of the new one in place of its own of the same name; sections
    that it lacks come last."""
    head, *sections = old.split("\n## ")
    fresh = {section.splitlines()[0]: section for section in new.split("\n## ")[1:]}
    kept = [fresh.pop(section.splitlines()[0], section) for section in sections]
    return "\n## ".join([head, *kept, *fresh.values()])


def main() -> int:
    o = arguments()
    if not PROGRAM.is_file():
        sys.exit(f"{PROGRAM} is not there: make build")
    page = Path(o.write) if o.write else None
    again = page is not None and len(o.only) < len(PARTS) and page.is_file()
    how, today = made_by(), datetime.date.today()
    bench = Bench(o.quick, o.threads, o.cpu, o.sizes, o.llm, o.cuda, page.parent if page else None)
    bench.say(
        "# Benchmarks",
        "",
        f"{today}, {machine()}; {o.threads} threads each, f32; chainrule and the peers alternate in one run.",
        f"Made by {how}",
        "",
    )
    lines = [line for line in info().splitlines() if line.startswith(("chainrule", "  cpu"))]
    bench.say("```text", *lines, "```", "")
    bench.measured = f"Measured by itself on {today}: {how}" if again else ""
    for part, measure in PARTS.items():
        if part in o.only:
            measure(bench)
            if again and part != "llm":  # which says so behind each of its sections
                bench.say(bench.measured, "")
    if o.json:
        Path(o.json).write_text(json.dumps(bench.data, indent=1) + "\n")
    if page:
        text = "\n".join(bench.text)
        page.write_text(spliced(page.read_text(), text) if again else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
