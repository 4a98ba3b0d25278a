"""The core of the library: one small op from C, values, a long chain, files, and the size of the library."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from .base import BUILD, PROGRAM, Bench, Missing, Row, beside, has, least, python, run_json, stripped_copy

SHOWN = ("add, 1 element", "matmul, 4 x 4", "mul, recorded, backward")  # one small op from C


def dispatch(bench: Bench) -> list[Row]:
    """one small op from C"""
    found = least([bench.program("dispatch", "--json", threads=1) for _ in range(bench.rounds)], "ns")
    group = lambda name: "" if name in SHOWN else "other small ops, from C"
    return [Row(f"{name}, from C", "ns", ns, group=group(name)) for name, ns in found.items()]


# ---- values


def value(bench: Bench) -> list[Row]:
    """values, in C and in Python"""
    rows = []
    for nodes in (10_000, 1_000_000 if bench.quick else 10_000_000):
        got = bench.program("value", nodes, "--json", threads=1)
        for key, what in (("record_ns", "multiply and record"), ("backward_ns", "backward"), ("free_ns", "free")):
            rows.append(Row(f"a node of {nodes:,}, {what}, from C", "ns", got[key], group="nodes of values, from C"))
    rows.append(Row(f"a node of {nodes:,}, from C", "bytes", got["bytes"], group="bytes of values"))
    return rows + value_in_python(bench) + value_curve(bench)


def value_in_python(bench: Bench) -> list[Row]:
    """The least time of each step: chainrule, and micrograd where it is installed."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(bench.rounds):
        for engine in ("chainrule", *(["micrograd"] if has("micrograd") else [])):
            for name, seconds in run_json(python("value.py", engine), 1).items():
                row = found.setdefault(name, {})
                row[engine] = min(row.get(engine, 1e6 * seconds), 1e6 * seconds)
    return [beside(f"Value, {name}", "us", row) for name, row in found.items()]


def value_curve(bench: Bench) -> list[Row]:
    """tanh(x * x + x), summed for a tensor, and its gradient, by the number of elements, with its picture."""
    draw = ["--draw", bench.pictures / "value-curve.svg"] if bench.pictures else []
    curve = run_json(python("value.py", "curve", *draw), bench.threads)
    return [
        Row(f"{name}, {int(n):,} elements", "us", 1e6 * seconds, group="tanh(x * x + x) by the number of elements")
        for name, line in curve.items()
        for n, seconds in line.items()
    ]


# ---- a chain, files, size


def chain(bench: Bench) -> list[Row]:
    """a graph of ten million nodes"""
    n = 1_000_000 if bench.quick else 10_000_000
    got = bench.program("chain", n, "--json")
    if not got["right"]:
        raise Missing("the gradient of the chain is WRONG")
    steps = (("build_s", "built"), ("backward_s", "differentiated"), ("free_s", "freed"))
    title = f"a chain of {n:,} additions of tensors"
    group = lambda what: "" if what == "differentiated" else title
    rows = [Row(f"{title}, {what}", "s", got[key], group=group(what)) for key, what in steps]
    return [*rows, Row(f"{title}, memory", "GiB", got["peak_rss"] / 2**30)]


def files(bench: Bench) -> list[Row]:
    """safetensors and token files, written as always (fsync, then renamed), read from the system's cache"""
    with tempfile.TemporaryDirectory() as folder:
        got = bench.program("files", "--json", *bench.quick_option, folder)
    what = f"{got['megabytes']:,.0f} MB of weights, {got['tokens'] / 1e6:,.0f} million tokens"
    rates = [Row(row["name"], "GB/s", row["rate"], group=what) for row in got["rows"] if row["rate"]]
    slow = lambda row: "" if row["rate"] else f"{what}, mapped"
    return [Row(row["name"], "ms", row["ms"], group=slow(row)) for row in got["rows"]] + rates


def size(bench: Bench) -> list[Row]:
    """of the library, the program and a wheel"""
    library = next(iter(sorted(BUILD.glob("libchainrule.so*"))), None)
    if not library:
        raise Missing("no shared library in this build")
    with tempfile.TemporaryDirectory() as folder:
        sizes = [(file, stripped_copy(file, Path(folder)).stat().st_size) for file in (library, PROGRAM)]
    rows = [Row(f"{file.name.split('.so')[0]}, stripped", "MB", count / 1e6) for file, count in sizes]
    return [*rows, Row("wheel", "MB", wheel_bytes() / 1e6)]


def wheel_bytes() -> int:
    """The size of a wheel's files, stripped and zipped; make test-all builds the true one."""
    package = BUILD / "python" / "chainrule"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(folder / "wheel", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in [PROGRAM, *(f for f in package.rglob("*") if f.is_file() and f.suffix != ".pyc")]:
                stripped = stripped_copy(file, folder) if file == PROGRAM or file.suffix == ".so" else file
                archive.write(stripped, str(file.relative_to(BUILD)))
        return (folder / "wheel").stat().st_size
