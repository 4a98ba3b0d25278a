"""The base of all parts: running commands, merging rounds, the rows of a part, and the options of one run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
PROGRAM = BUILD / "chainrule"
LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch", "jax": "JAX"}
PACKAGES = {name: module for module, name in LIBRARIES.items()} | {"llama.cpp": "xllamacpp"}  # else the peer's name

Times = dict[str, float]  # min_ms and median_ms, of some rows rate or extra_mb


class Missing(Exception):
    """Why a part measured nothing: what this machine or this build lacks, or the command that failed."""


# ---- commands


def run_json(command: Iterable[object], threads: int, env: dict[str, str] | None = None) -> Any:
    """The JSON that a command prints."""
    words = [str(w) for w in command]
    path = os.pathsep.join(filter(None, (str(BUILD / "python"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**os.environ, "CHAINRULE_NUM_THREADS": str(threads), "PYTHONPATH": path} | (env or {}),
    )
    if done.returncode:
        raise Missing(f"`{' '.join(words)}` failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def python(script: str, *words: object) -> list[object]:
    """The command that runs a script of bench/."""
    return [sys.executable, HERE / script, *words]


def info() -> str:
    """The output of `chainrule info`: the version and the devices."""
    return subprocess.run([str(PROGRAM), "info"], capture_output=True, text=True).stdout


def isas() -> dict[str, dict[str, str]]:
    """Instruction set -> the environment that chooses it, for the peers too; the widest here, and AVX2."""
    text = info()
    widest = "AVX-512" if "x86-64-v4" in text else "AVX2" if "x86-64-v3" in text else "this processor"
    avx2 = {
        "CHAINRULE_ISA": "v3",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    }
    return {widest: {}} | ({"AVX2": avx2} if widest == "AVX-512" else {})


def has(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def has_extension() -> bool:
    """Does this build have the Python extension?"""
    return bool(list(BUILD.glob("python/chainrule/_core*.so")))


def data_path(variable: str, name: str) -> Path:
    """The path in an environment variable, or else shared/data/NAME beside the repository."""
    return Path(os.environ.get(variable, ROOT.parent / "shared" / "data" / name))


def shakespeare() -> Path:
    """tiny-Shakespeare, which may be absent."""
    return data_path("CHAINRULE_DATA", "shakespeare.txt")


def stripped_copy(file: Path, folder: Path) -> Path:
    """A copy without symbols; with them where there is no `strip`."""
    copy = folder / file.name
    shutil.copyfile(file.resolve(), copy)
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", str(copy)], check=False)
    return copy


# ---- rows over rounds


def rows_named(results: list[Any], name: str) -> list[Any]:
    return [row for r in results for row in r["rows"] if row["name"] == name]


def least(results: list[Any], key: str) -> dict[str, float]:
    """Name of a row -> its least value of all rounds."""
    names = [row["name"] for row in results[0]["rows"]]
    return {name: min(row[key] for row in rows_named(results, name)) for name in names}


def merge(results: list[Any]) -> dict[str, Times]:
    """Rows by name over rounds: the least of the minima, the median of the medians, the rate at the least time."""
    rows: dict[str, Times] = {}
    for name in [row["name"] for row in results[0]["rows"]]:
        found = rows_named(results, name)
        rows[name] = {
            "min_ms": min(row["min_ms"] for row in found),
            "median_ms": statistics.median(row["median_ms"] for row in found),
        }
        if "rate" in found[0]:
            rows[name]["rate"] = max(row["rate"] * row["median_ms"] / row["min_ms"] for row in found)
    return rows


# ---- the rows of a part


@dataclass(frozen=True)
class Row:
    """One figure beside those of the peers. A unit that ends with "/s" is a rate: the larger, the better."""

    what: str
    unit: str
    ours: float | None
    peers: dict[str, float] = field(default_factory=dict)
    isa: str = ""  # of parts that measure each instruction set
    share: float | None = None  # of the limit that the part names
    group: str = ""  # the page shows the rows of a group as one, by their geometric mean
    missing: dict[str, str] = field(default_factory=dict)  # column -> why it has no figure

    @property
    def ratio(self) -> float | None:
        """How many times better than the best peer: in less time or memory, or at a higher rate."""
        if not self.peers or self.ours is None or self.ours <= 0:  # memory beyond 16 bytes a parameter may be less
            return None
        if self.unit.endswith("/s"):
            return self.ours / max(self.peers.values())
        return min(self.peers.values()) / self.ours


def beside(what: str, unit: str, values: dict[str, float], ours: str = "chainrule", **more: Any) -> Row:
    """The row of `ours` beside all libraries that are not chainrule, by their usual names."""
    peers = {
        " ".join([LIBRARIES.get(name.split()[0], name.split()[0]), *name.split()[1:]]): value
        for name, value in values.items()
        if not name.startswith("chainrule")
    }
    return Row(what, unit, values[ours], peers, **more)


def versions(rows: Iterable[Row]) -> dict[str, str]:
    """The versions of the peers in these rows, as far as a Python package has them."""
    found = {}
    for name in dict.fromkeys(peer.split()[0] for row in rows for peer in row.peers):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(PACKAGES.get(name, name))
    return found


# ---- one run of run.py


@dataclass(frozen=True)
class Bench:
    """The options of one run, and the commands that follow them."""

    quick: bool
    threads: int
    cpu: bool  # processor time instead of elapsed time
    sizes: list[int] | None  # of part sizes
    cuda: list[str]  # options of bench/cuda.py
    pictures: Path | None  # the folder for pictures; None: none are drawn

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 3

    @property
    def quick_option(self) -> list[str]:
        return ["--quick"] if self.quick else []

    def ours(self, part: str, *words: str, quick: bool = False, env: dict[str, str] | None = None) -> Any:
        """A part of `chainrule bench`."""
        options = ["--json", "--only", part, "--threads", self.threads, *(["--quick"] if quick else self.quick_option)]
        return run_json([PROGRAM, "bench", *options, *words], self.threads, env)

    def program(self, name: str, *words: object, threads: int | None = None, env: dict[str, str] | None = None) -> Any:
        """A program of bench/*.c."""
        return run_json([BUILD / "bench" / name, *words], threads or self.threads, env)

    def script(self, name: str, *words: object, env: dict[str, str] | None = None) -> Any:
        """A script of bench/ that takes --threads."""
        return run_json(python(name, *words, "--threads", self.threads), self.threads, env)

    def by_isa(self, name: str, *words: object) -> dict[str, Any]:
        """The JSON of a script under each instruction set."""
        return {isa: self.script(name, *words, *self.quick_option, env=env) for isa, env in isas().items()}

    def turns(self, name: str) -> Any:
        """A script whose libraries take turns (bench/turns.py)."""
        return self.script(name, *self.quick_option, *["--cpu"] * self.cpu)

    def turns_by_isa(self, name: str) -> dict[str, Any]:
        """The same under each instruction set."""
        return self.by_isa(name, *["--cpu"] * self.cpu)
