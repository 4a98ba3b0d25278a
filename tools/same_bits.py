"""Compares the bits that builds of several compilers compute, at every instruction set of this processor: the weights
after 50 steps of `chainrule train` in three precisions, and the results and gradients of every op (tests/test_bits.c).

    same_bits.py BUILD BUILD...

A BUILD is a folder with the program and tests/test_bits.  Ends with the result line of tests/test.h."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Sizes that no vector divides, and products that are packed.
MODEL = "--layers 2 --heads 2 --width 68 --context 37 --batch 3 --dropout 0.1 --seed 1 --steps 50".split()
TRAININGS = {"f32": (), "bf16": ("--dtype", "bf16"), "f16": ("--dtype", "f16")}
LINE = re.compile(r"^bits (.+): ([0-9a-f]{16})( libm)?\r?$", re.MULTILINE)
Bits = dict[str, str]
# Runs a program of a build with these arguments and variables in this folder, and returns what it prints.
Launch = Callable[[str, list[str], dict[str, str], Path], str]


def weights(run: Path) -> bytes:
    """Of a run's last checkpoint, without the header, which names the run's settings."""
    data = (run / "checkpoint/weights.safetensors").read_bytes()
    return data[8 + struct.unpack_from("<Q", data)[0] :]


def trained(launch: Launch, place: Path, level: int, name: str, precision: str) -> str:
    """A hash of the weights after a training in the folder `place`."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "book.txt").write_text("".join(f"{i} times {i} is {i * i}\n" for i in range(300)))
    words = ["train", "--data", "book.txt", *MODEL, *TRAININGS[precision], "--out", name]
    launch("chainrule", words, {"CHAINRULE_ISA": f"v{level}"}, place)
    return hashlib.sha256(weights(place / name)).hexdigest()


def of_ops(launch: Launch, place: Path, level: int, libm: bool) -> Bits:
    """The hashes of every op's bits; libm: also those that need the C library's functions of f64."""
    said = launch("tests/test_bits", [], {"CHAINRULE_ISA": f"v{level}", "CHAINRULE_TEST_BITS": "1"}, place)
    found = {name: bits for name, bits, system in LINE.findall(said) if libm or not system}
    if len(found) < 1000:
        raise ValueError(f"{len(found)} hashes of ops; is this the test's output? {said[-500:]}")
    return found


def levels() -> list[int]:
    """The instruction sets of this processor."""
    info = Path("/proc/cpuinfo").read_text() if platform.machine() == "x86_64" else ""
    flags = set(info.split("flags", 1)[-1].split("\n", 1)[0].split())
    return [2] + [3] * ("avx2" in flags and "fma" in flags) + [4] * ("avx512vl" in flags)


def native(build: Path) -> Launch:
    def launch(program: str, words: list[str], variables: dict[str, str], place: Path) -> str:
        plain = {"CHAINRULE_ONEDNN": "off", "CHAINRULE_CACHE": "off", "TMPDIR": str(place)}
        return subprocess.run(
            [build / program, *words],
            cwd=place if program == "chainrule" else ROOT,
            env={**os.environ, **plain, **variables},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    return launch


def differing(mine: Bits, theirs: Bits) -> list[str]:
    return sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))


def main() -> int:
    builds = [Path(word).resolve() for word in sys.argv[1:]]
    if len(builds) < 2:
        print(__doc__)
        return 2
    passed = failed = 0
    for level in levels():
        first: Bits = {}
        with tempfile.TemporaryDirectory(prefix="chainrule-") as place:
            for number, build in enumerate(builds):
                launch = native(build)
                own = of_ops(launch, Path(place), level, libm=True) | {
                    f"weights, {precision}": trained(launch, Path(place), level, f"{number}-{precision}", precision)
                    for precision in TRAININGS
                }
                first = first or own
                wrong = differing(first, own)
                if wrong:
                    some = ", ".join(wrong[:12])
                    print(f"FAILED v{level}: {build.name} differs from {builds[0].name} in {len(wrong)}: {some}")
                passed += len(own) - len(wrong)
                failed += len(wrong)
    print(f"result: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
