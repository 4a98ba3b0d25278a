#!/usr/bin/env python3
"""Measures, part by part, next to the peers that are installed, interleaved in one run.

use: python bench/run.py [--quick] [--only PART ...] [--write [FILE]] [--pictures FOLDER] [--sizes N ...]

Prints the tables of each part. --write puts its figures into bench/results.json and writes docs/benchmarks.md, or only
into FILE; the other parts of the file stay. tiny-Shakespeare is read from $CHAINRULE_DATA, or from
../shared/data/shakespeare.txt; without it its parts say so. CHAINRULE_BUILD names the build (build/release).
Peers run in this Python: make oracle, make peers."""

from __future__ import annotations

import argparse
import datetime
import inspect
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import results
from parts import core, cuda, gpus, kernels, language_models, layers, python, training, web
from parts.base import PROGRAM, ROOT, Bench, Missing, Row, info, versions

PARTS: dict[str, Callable[[Bench], list[Row]]] = {
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
    "maths": python.maths,
    "scripts": python.scripts,
    "compile": python.compile,
    "replays": python.replays,
    "sizes": kernels.sizes,
    "fused": kernels.fused,
    "generation": language_models.generation,
    "llm-124m": language_models.llm_124m,
    "llm-135m": language_models.llm_135m,
    "lm": language_models.lm,
    "llm-steps": language_models.llm_steps,
    "lora": language_models.lora,
    "bpe": language_models.bpe,
    "perplexity": language_models.perplexity,
    "load": language_models.load,
    "files": core.files,
    "gpu": gpus.curve,
    "webgpu": gpus.webgpu,
    "cuda": cuda.cuda,
    "cuda_host": cuda.cuda_host,
    "size": core.size,
    "web": web.web,
}


def described() -> str:
    """The first line of each part's docstring."""
    return "\n".join(f"    {name:12}{(part.__doc__ or '').splitlines()[0]}" for name, part in PARTS.items())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"parts:\n{described()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=argparse.SUPPRESS,
    )
    parser.add_argument("--quick", action="store_true", help="one round, fewer runs")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument(
        "--write", metavar="FILE", type=Path, nargs="?", const=results.FILE, help="put the figures into FILE"
    )
    parser.add_argument("--pictures", metavar="FOLDER", type=Path, help="draw there (--write without FILE: docs)")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument(
        "--cpu", action="store_true", help="conv, pool, rnn, maths, scripts: processor time, for a busy machine"
    )
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="of the products of part sizes")
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


def main() -> int:
    o = arguments()
    if not PROGRAM.is_file():
        sys.exit(f"{PROGRAM} is not there: make build")
    pictures = o.pictures or (ROOT / "docs" if o.write == results.FILE else None)
    bench = Bench(o.quick, o.threads, o.cpu, o.sizes, o.cuda, pictures)
    print("\n".join(line for line in info().splitlines() if line.startswith(("chainrule", "  cpu"))), "", sep="\n")
    for name in (name for name in PARTS if name in o.only):
        record: results.Record = {
            "date": str(datetime.date.today()),
            "machine": machine(),
            "threads": o.threads,
            "load": round(os.getloadavg()[0], 1),
            "command": " ".join(
                ["bench/run.py", *(["--quick"] if o.quick else []), *(["--cpu"] if o.cpu else [])]
                + ["--threads", str(o.threads), "--only", name]
            ),
        }
        print(f"## {name}: {inspect.getdoc(PARTS[name])}\n", flush=True)
        try:
            rows = PARTS[name](bench)
        except Missing as why:
            print(f"Went without: {why}.\n", flush=True)
            continue
        print("\n".join(results.tables(rows)), flush=True)
        if o.write:
            measured = results.load(o.write)
            measured[name] = record | {"peers": versions(rows), "rows": rows}
            results.save(measured, o.write)
    if o.write == results.FILE:
        results.PAGE.write_text(results.page(results.load()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
