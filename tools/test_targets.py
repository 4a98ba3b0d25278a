"""Builds the program and the C tests for other systems by Zig's compiler, and runs them as far as
this machine can: natively, under qemu and under wine.

    test_targets.py [--target NAME]... [--all-tests]

One line a target says what was built, what ran, and what was skipped for which reason.  Needs
ziglang (make build/.for-release), qemu-user-static and wine (make deps).  Ends with the result line
of tests/test.h."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import same_bits

ROOT = Path(__file__).resolve().parent.parent
RESULT = re.compile(r"^result: (\d+) passed, (\d+) failed, (\d+) skipped", re.MULTILINE)
TESTS = "core os io text pool pending tokenizer params optim gpt lm plan threads packed value views".split()
MODEL = "--layers 2 --heads 2 --width 32 --context 32 --batch 4 --seed 1".split()


@dataclass(frozen=True)
class Target:
    zig: str
    runner: tuple[str, ...]  # what runs its programs; () natively
    processor: str
    runs: bool = True


TARGETS = {
    "linux-x86_64": Target("x86_64-linux-musl", (), "x86_64"),
    "linux-aarch64": Target("aarch64-linux-musl", ("qemu-aarch64-static",), "aarch64"),
    "windows-x86_64": Target("x86_64-windows-gnu", ("wine",), "x86_64"),
    "macos-arm64": Target("aarch64-macos.11.0-none", (), "arm64", runs=False),
}


class Failure(Exception):
    """What went wrong."""


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def zig() -> str | None:
    """How Zig is called; None: it is not here."""
    for python in (ROOT / "build/release-venv/bin/python", Path(sys.executable)):
        if (
            python.is_file()
            and not subprocess.run([python, "-m", "ziglang", "version"], capture_output=True).returncode
        ):
            return f"{python} -m ziglang"
    return None


def quiet(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Failure(f"$ {' '.join(command)}\n{done.stdout[-4000:]}")


def build(target: Target, tests: list[str], compiler: str) -> Path:
    folder = ROOT / "build" / "targets" / target.zig
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": str(ROOT / "cmake/zig.cmake"),
        "CHAINRULE_TARGET": target.zig,
        "CHAINRULE_ZIG": compiler,
        "CHAINRULE_SHARED": "OFF",
        "CHAINRULE_EXAMPLES": "OFF",
        "CHAINRULE_TESTS": "ON" if target.runs else "OFF",
    }
    quiet(["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *(f"-D{k}={v}" for k, v in options.items())])
    quiet(["ninja", "-C", str(folder), "chainrule", *tests, *["test_bits"] * bool(tests)])
    return folder


# ---- what runs


class Runner:
    """Runs programs of a target; each gets the environment of an emulator's."""

    def __init__(self, target: Target, folder: Path, place: Path) -> None:
        self.target, self.folder, self.place = target, folder, place
        self.suffix = ".exe" if "windows" in target.zig else ""
        self.environment = {**os.environ, "TMPDIR": str(place), "CHAINRULE_CACHE": "off", "CHAINRULE_ONEDNN": "off"}
        if target.runner:
            self.environment["CHAINRULE_TEST_EMULATED"] = "1"
        if "wine" in target.runner:
            self.environment |= {"WINEPREFIX": str(ROOT / "build/targets/wine"), "WINEDEBUG": "-all"}
            Path(self.environment["WINEPREFIX"]).mkdir(parents=True, exist_ok=True)

    def run(self, name: str, *words: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.target.runner, str(self.folder / f"{name}{self.suffix}"), *words],
            cwd=cwd or ROOT,
            env={**self.environment, **more},
            text=True,
            errors="replace",
            capture_output=True,
            timeout=1500,
        )

    def program(self, *words: str, **more: str) -> str:
        done = self.run("chainrule", *words, cwd=self.place, **more)
        if done.returncode:
            raise Failure(f"chainrule {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in map(json.loads, (run / "run.jsonl").read_text().splitlines()) if "loss" in row]


def test_program(r: Runner) -> None:
    """Trains, resumes with the bits of a run without a break, and writes the same text; paths of letters that no code
    page has, and longer than 260."""
    long = "x" * 100
    place = r.place / "ü 日本" / long / long / long
    place.mkdir(parents=True)
    (place / "text.txt").write_text("".join(f"line {i}: the quick brown fox\n" for i in range(200)), encoding="utf-8")
    whole, parts = place / "whole", place / "parts"
    text = ("--data", str(place / "text.txt"))
    r.program("train", *text, *MODEL, "--steps", "20", "--out", str(whole))
    r.program("train", *text, *MODEL, "--steps", "20", "--save-every", "10", "--keep", "2", "--out", str(parts))
    if same_bits.weights(whole) != same_bits.weights(parts):
        raise Failure("two runs of one seed differ")
    said = r.program("generate", "--model", str(whole), "--prompt", "line ", "--tokens", "50", "--seed", "1")
    again = r.program("generate", "--model", str(parts), "--prompt", "line ", "--tokens", "50", "--seed", "1")
    if said != again or "line" not in said:
        raise Failure(f"wrote '{said}', then '{again}'")
    r.program("train", "--resume", str(parts), "--steps", "30")
    if len(losses(parts)) <= len(losses(whole)):
        raise Failure("the run did not go on")


def test_bits(r: Runner, native: Path) -> None:
    """Weights and every op's results have the bits of the native build; aarch64 those of x86-64-v2."""

    def launch(program: str, words: list[str], variables: dict[str, str], place: Path) -> str:
        done = r.run(program, *words, cwd=place if program == "chainrule" else ROOT, **variables)
        if done.returncode:
            raise Failure(f"{program} {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    here = same_bits.native(native)
    levels = same_bits.levels() if r.target.processor == "x86_64" else [2]
    for level in levels:
        found = []
        for name, build in (("there", launch), ("here", here)):
            bits = same_bits.of_ops(build, r.place, level, libm=False)
            for precision in same_bits.TRAININGS:
                run = f"{name}-v{level}-{precision}"
                bits[f"weights, {precision}"] = same_bits.trained(build, r.place, level, run, precision)
            found.append(bits)
        wrong = same_bits.differing(*found)
        if wrong:
            raise Failure(f"v{level}: {len(wrong)} of {len(found[0])} differ from GCC's: {', '.join(wrong[:12])}")
    words = " and ".join(f"v{level}" for level in levels)
    print(f"report weights in {len(same_bits.TRAININGS)} precisions and every op have GCC's bits at {words}")


def test_mach_o(program: Path, processor: str) -> None:
    """A program of this processor, for macOS 11 and later, that needs the system's own libraries only."""
    data = program.read_bytes()
    magic, cpu, _, kind, commands = struct.unpack_from("<IIIII", data)
    wanted = {"arm64": 0x0100000C, "x86_64": 0x01000007}[processor]
    if (magic, cpu, kind) != (0xFEEDFACF, wanted, 2):
        raise Failure(f"no program for {processor}: {magic:#x}, {cpu:#x}, kind {kind}")
    at, libraries, least, signed = 32, [], 0, False
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, at)
        if command in (0x0C, 0x80000018):  # LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB
            name = at + struct.unpack_from("<I", data, at + 8)[0]
            libraries.append(data[name : data.index(b"\0", name)].decode())
        if command == 0x32:  # LC_BUILD_VERSION
            least = struct.unpack_from("<I", data, at + 12)[0]
        signed |= command == 0x1D  # LC_CODE_SIGNATURE
        at += size
    if any(not name.startswith(("/usr/lib/", "/System/")) for name in libraries):
        raise Failure(f"needs {libraries}")
    if least != 11 << 16:
        raise Failure(f"for macOS {least >> 16}.{least >> 8 & 255} and later, not 11.0")
    if processor == "arm64" and not signed:
        raise Failure("no signature: arm64 runs no program without one")
    print(f"report needs {', '.join(libraries)}; macOS 11.0 and later")


# ---- the command line


def one(name: str, compiler: str, every: bool, total: Counts) -> None:
    target = TARGETS[name]
    every_test = sorted(
        p.stem for p in (ROOT / "tests").glob("test_*.c") if not re.search("cuda|webgpu|plan_mem", p.stem)
    )
    tests = (every_test if every else [f"test_{part}" for part in TESTS]) if target.runs else []
    missing = [word for word in target.runner if not shutil.which(word)]
    foreign = not target.runner and platform.machine() != target.processor
    if missing or (target.runs and foreign):
        tests = []
    counts = Counts()

    def trial(what: str, fn: Callable[[], None]) -> None:
        try:
            fn()
            counts.passed += 1
        except (Failure, OSError, subprocess.SubprocessError, ValueError) as problem:
            print(f"FAILED {name}, {what}: {problem}")
            counts.failed += 1

    try:
        folder = build(target, tests, compiler)
    except Failure as problem:
        print(f"FAILED {name}, the build: {problem}")
        total.failed += 1
        return
    if not target.runs:
        trial("what the program needs", lambda: test_mach_o(folder / "chainrule", target.processor))
        print(f"report {name}: built, not run; {counts.passed} passed, {counts.failed} failed")
    elif missing or foreign:
        counts.skipped += 1
        why = f"{missing[0]} is not installed (make deps)" if missing else f"this is {platform.machine()}"
        print(f"skipped {name}: built, not run: {why}")
    else:
        with tempfile.TemporaryDirectory(
            prefix="chainrule-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        ) as place:
            r = Runner(target, folder, Path(place))
            trial("the program", lambda: test_program(r))
            native = ROOT / "build/release"
            if (native / "tests/test_bits").is_file():
                trial("bits", lambda: test_bits(r, native))
            for test in tests:
                done = r.run(f"tests/{test}")
                found = list(RESULT.finditer(done.stdout))
                passed, failed, skipped = map(int, found[-1].groups()) if found else (0, 1, 0)
                failed = failed or int(done.returncode != 0)
                if failed:
                    said = f"{done.stdout[-2000:]}{done.stderr[-500:]}"
                    print(f"FAILED {name}, {test} (exit status {done.returncode}):\n{said}")
                counts.passed += passed
                counts.failed += failed
                counts.skipped += skipped
                for line in done.stdout.splitlines():
                    if line.startswith("skipped "):
                        print(f"skipped {name}, {test}, {line[len('skipped ') :]}")
        ran = f"program and {len(tests)} C tests by {' '.join(target.runner) or 'this machine'}"
        print(
            f"report {name}: built, ran {ran}: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
        )
    total.passed += counts.passed
    total.failed += counts.failed
    total.skipped += counts.skipped


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds for other systems, and runs what can be run here.")
    parser.add_argument("--target", action="append", choices=list(TARGETS), default=[], help="default: all")
    parser.add_argument("--all-tests", action="store_true", help="every C test, not only those of the platform")
    given = parser.parse_args()
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        print(f"these emulators are for Linux on x86-64; this is {platform.system()} on {platform.machine()}")
        return 77
    compiler = zig()
    if compiler is None:
        print("ziglang is not installed (make build/.for-release)")
        return 77
    total = Counts()
    for name in given.target or TARGETS:
        one(name, compiler, given.all_tests, total)
    print(f"result: {total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
