"""The true NVRTC compiles the kernels that tests use, for every kind of GPU, without a GPU: tests run on the
simulated GPU, whose NVRTC keeps each text; then the library itself compiles the texts for a driver that
launches nothing (null.c), into a folder that CHAINRULE_CACHE may name on a machine with a GPU.

use: check_null.py [CACHE]        CHAINRULE_BUILD: the build (build/release)

The kernels of the .cu files are compiled for each architecture, the elementwise ones, of which there are many, for one
each in turn; with CHAINRULE_TEST_FULL=1 all for all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import resources
from environment import simulated

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
FULL = os.environ.get("CHAINRULE_TEST_FULL", "") != ""
ARCHITECTURES = ("80", "90", "100", "120")
PROGRAMS = ["test_tiny", *(f"test_cuda_{name}" for name in "kernels order attention hopper factor packed".split())]
PROCESSORS = len(os.sched_getaffinity(0))


def run_tests(texts: Path, cache: Path, environment: dict[str, str]) -> list[str]:
    """Fills `texts`; what failed."""
    variables = {**os.environ, **environment, "CHAINRULE_CACHE": str(cache), "CUDASIM_KEEP": str(texts)}

    def one(program: str) -> str:
        done = subprocess.run([str(BUILD / "tests" / program)], env=variables, text=True, capture_output=True, cwd=ROOT)
        return "" if done.returncode == 0 else f"{program}: {done.stdout[-2000:]}{done.stderr[-500:]}"

    with ThreadPoolExecutor(PROCESSORS) as several:
        return [problem for problem in several.map(one, PROGRAMS) if problem]


def divide(texts: Path) -> dict[str, list[Path]]:
    """Architecture -> the texts to compile for it."""
    found: dict[str, list[Path]] = {a: [] for a in ARCHITECTURES}
    walks = 0
    for path in sorted(texts.glob("*.cu")):
        walk = re.search(r"\bwalk\(", path.read_text(encoding="utf-8")) is not None
        for i, architecture in enumerate(ARCHITECTURES):
            if FULL or not walk or walks % len(ARCHITECTURES) == i:
                found[architecture].append(path)
        walks += walk
    return found


def compile_all(work: dict[str, list[Path]], nvrtc: Path, cache: Path, folder: Path) -> list[tuple[int, str]]:
    """Of each process: the exit status and what it said."""

    def one(item: tuple[str, int]) -> tuple[int, str]:
        architecture, part = item
        variables = {
            **os.environ,
            "CUDASIM_CC": architecture,
            "CHAINRULE_CUDA": str(BUILD / "cudasim/null/libcuda.so.1"),
            "CHAINRULE_NVRTC": str(nvrtc),
            "CHAINRULE_CUBLASLT": "off",
            "CHAINRULE_WGPU": "off",
            "CHAINRULE_CACHE": str(cache),
        }
        command = [str(BUILD / "cudasim/fill_cache"), str(folder / architecture), str(part), str(PROCESSORS)]
        done = subprocess.run(command, env=variables, text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr

    for architecture, paths in work.items():
        (folder / architecture).mkdir()
        for path in paths:
            (folder / architecture / path.name).symlink_to(path)
    with ThreadPoolExecutor(PROCESSORS) as several:
        return list(several.map(one, [(a, part) for a in work for part in range(PROCESSORS)]))


def main() -> int:
    found = sorted((ROOT / "build/nvrtc/nvidia/cu13/lib").glob("libnvrtc.so.*"))
    environment = simulated(BUILD)
    if not environment or not found or not (BUILD / "cudasim/fill_cache").exists():
        why = "no NVRTC (make build/.for-nvrtc)" if environment else "no simulated GPU"
        print(f"skipped kernels by the true NVRTC: {why}\nresult: 0 passed, 0 failed, 1 skipped")
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chainrule-") as name:
        folder = Path(name)
        texts, cache = folder / "texts", Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else folder / "cache"
        texts.mkdir()
        wrong = run_tests(texts, folder / "simulated", environment)
        work = divide(texts)
        ended = compile_all(work, found[0], cache, folder)
        wrong += [said for status, said in ended if status]
        megabytes = sum(path.stat().st_size for path in cache.glob("*.cubin")) / 1e6
        compiled = sum(int(n) for _, said in ended for n in re.findall(r"^compiled (\d+) of", said, re.MULTILINE))
        count, rows = resources.table_of(cache)
    wanted = sum(len(paths) for paths in work.values())
    if compiled != wanted and len(sys.argv) == 1:
        wrong.append(f"{compiled} of {wanted} texts were compiled")
    wrong += resources.compared(rows)
    for line in wrong:
        print(line)
    print(f"report {resources.summary(count, rows)}")
    print(
        f"report {compiled} texts by NVRTC for sm_{', sm_'.join(ARCHITECTURES)}: {megabytes:.1f} MB in the cache,"
        f" {time.monotonic() - start:.0f} s"
    )
    passed = compiled if not wrong else 0
    print(f"result: {passed} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong or not compiled else 0


if __name__ == "__main__":
    sys.exit(main())
