"""Every C program in examples/ compiles without a warning and prints what it should.

use: python tests/check_examples.py        CHAINRULE_BUILD: where the library is (build/release)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve()
WARNINGS = ["-std=gnu17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
EXPECTED = {
    "cuda_demo": ["went without a GPU: [cuda] "],  # tests/check_gpu.py runs it on one
    "hello": ["g     = 24.7041", "dg/da = 138.8338", "dg/db = 645.5773"],  # micrograd's own numbers
    "moons": ["step 200"],
    "own_op": ["gradient of cube: ok", "its second derivative: ok", "its gradient: ok"],
}


def compiled(source: str, folder: Path) -> Path:
    """The program, linked with the library of this build; AssertionError: what the compiler says."""
    path, program = folder / "program.c", folder / "program"
    path.write_text(source, encoding="utf-8")
    libraries = [str(BUILD / "libchainrule.a"), "-lm", "-lpthread", "-ldl"]
    command = [
        os.environ.get("CC", "cc"),
        *WARNINGS,
        f"-I{ROOT / 'include'}",
        str(path),
        *libraries,
        "-o",
        str(program),
    ]
    made = subprocess.run(command, capture_output=True, text=True)
    assert not made.returncode, made.stderr
    return program


def run(source: Path, folder: Path) -> None:
    program = compiled(source.read_text(encoding="utf-8"), folder)
    done = subprocess.run(
        [str(program)], env={**os.environ, "CHAINRULE_CUDA": "off"}, capture_output=True, text=True, timeout=120
    )
    missing = [text for text in EXPECTED.get(source.stem, ["an entry in EXPECTED"]) if text not in done.stdout]
    assert not done.returncode and not missing, (
        f"exit {done.returncode}, without {missing}:\n{done.stdout}{done.stderr}"
    )


def main() -> int:
    programs = sorted((ROOT / "examples").glob("*.c"))
    failed = 0
    for path in programs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(path, Path(folder))
            except (AssertionError, subprocess.TimeoutExpired) as wrong:
                failed += 1
                print(f"FAILED {path.name}: {wrong}")
    print(f"result: {len(programs) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
