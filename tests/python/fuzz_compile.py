"""A fuzzer of compiled steps: random programs run op by op and compiled, and everything is compared.

    fuzz_compile.py --seconds 60 --seed 1            programs until the time is over
    fuzz_compile.py --seed 1 --only 17               one of them, with its text
    fuzz_compile.py --seconds 60 --threads           compiled functions called by several threads at once

fuzz_programs.py makes the programs and fuzz_world.py runs them, in processes that may crash.  A program whose
sides differ is made as short as it fails, and printed with what differs.  A compiled function may record again,
run op by op with a warning, or raise an Error that says it cannot; those are counted."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", HERE.parent.parent / "build" / "release"))
sys.path[:0] = [str(BUILD / "python"), str(HERE)]

from fuzz_programs import Line, features, loose, made, rendered  # noqa: E402
from fuzz_tables import DECLARED  # noqa: E402
from fuzz_world import Counts, Outcome, Program, run_world  # noqa: E402

SECONDS = 30.0  # for one program
STRIDE = 1_000_003  # between the seeds of two runs
PLAIN = {
    "def",
    "compile",
    "value",
    "return",
    "module",
    "optimizer",
    "helper",
    "stop",
    "ema",
    "scaler",
    "trainer",
}  # tags that name no kind


# ---- the process that runs programs ----


def work() -> None:
    """Reads programs, one a line, and answers each with its outcome."""
    counts = Counts()
    for line in sys.stdin:
        outcome = run_world(Program(**json.loads(line)), counts)
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


class Worker:
    """A process for programs, started again after a crash."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), "--work"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={
                    "CHAINRULE_CC": "off",
                    **os.environ,
                    "CHAINRULE_BUILD": str(BUILD),
                    "CHAINRULE_CUDA": "off",
                    "CHAINRULE_WGPU": "off",
                },
            )
        return self.process

    def stop(self) -> int:
        if self.process is None:
            return 0
        self.process.kill()
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process = None
        return code

    def run(self, program: Program, fresh: bool = False) -> Outcome:
        if fresh:
            self.stop()
        process = self.start()
        to: IO[bytes] | None = process.stdin
        back: IO[bytes] | None = process.stdout
        assert to and back
        try:
            to.write(json.dumps(asdict(program)).encode() + b"\n")
            to.flush()
        except BrokenPipeError:
            pass
        answer, end = b"", time.monotonic() + SECONDS
        while not answer.endswith(b"\n"):
            ready = select.select([back], [], [], max(0.0, end - time.monotonic()))[0]
            part = os.read(back.fileno(), 1 << 16) if ready else b""
            if not part:
                if ready:
                    code = process.wait()
                    self.stop()
                    name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                    return Outcome("differs", len(program.actions), "crash", name)
                self.stop()
                return Outcome("differs", len(program.actions), "hang", f"no end within {SECONDS:g} s")
            answer += part
        if program.threads:
            self.stop()  # a thread may be left
        return Outcome(**json.loads(answer))


# ---- shorter programs ----


@dataclass
class Case:
    """A program as lines."""

    lines: list[Line]
    threads: int
    declared_loose: bool = True

    def program(self, lines: list[Line] | None = None) -> Program:
        lines = self.lines if lines is None else lines
        return rendered(lines, loose(lines), self.threads)


@dataclass
class Finding:
    case: Case
    outcome: Outcome
    only: int = 0
    seen: int = 1
    tags: list[str] = field(default_factory=list)

    def key(self) -> str:
        return f"{self.outcome.what}: {' + '.join(self.tags)}"


def tags_of(lines: list[Line]) -> list[str]:
    plain = {t for t in (line.tag for line in lines) if t.startswith("tensor ")} - {"tensor hook", "tensor in place"}
    plain -= {t for t in plain if t == "tensor rebound by data"}
    plain |= {line.tag for line in lines if line.tag.startswith("setup of ")}
    special = {f"({name})" for line in lines for name in features(line)}
    return sorted({line.tag for line in lines} - PLAIN - plain) + sorted(special)


def changes_of(lines: list[Line]) -> set[str]:
    return {line.tag for line in lines if line.where == "act" and not line.tag.startswith("call ")}


class Shortener:
    """Takes lines out of a program for as long as it fails in the same way."""

    def __init__(self, worker: Worker, seconds: float) -> None:
        self.worker, self.end = worker, time.monotonic() + seconds

    def fails(self, case: Case, lines: list[Line], what: str) -> bool:
        if time.monotonic() > self.end:
            return False
        found = self.worker.run(case.program(lines))
        return found.verdict == "differs" and found.what == what

    def shorten(self, case: Case, outcome: Outcome) -> list[Line]:
        lines, what = case.lines, outcome.what
        acts = [line for line in lines if line.where == "act"]
        if what not in ("crash", "hang") and 0 <= outcome.where < len(acts):
            kept = [line for line in lines if line.where != "act"] + acts[: outcome.where + 1]
            if self.fails(case, kept, what):
                lines = kept
        while True:
            before = len(lines)
            lines = self.without_functions(case, lines, what)
            size = max(1, len(lines) // 2)
            while size:
                at = 0
                while at < len(lines):
                    fewer = lines[:at] + [x for x in lines[at : at + size] if x.tag == "def"] + lines[at + size :]
                    if len(fewer) < len(lines) and self.fails(case, fewer, what):
                        lines = fewer
                    else:
                        at += size
                size //= 2
            if len(lines) == before:
                break
        return self.simpler(case, lines, what)

    def without_functions(self, case: Case, lines: list[Line], what: str) -> list[Line]:
        for head in [line for line in lines if line.tag == "def"]:
            fewer = [
                x
                for x in lines
                if x.where != head.where and f"{head.where}(" not in x.text and not x.text.startswith(f"{head.where} =")
            ]
            if len(fewer) < len(lines) and self.fails(case, fewer, what):
                lines = fewer
        return lines

    def simpler(self, case: Case, lines: list[Line], what: str) -> list[Line]:
        """Shorter texts of the lines that stay."""
        have = {x.text.split(" = ")[0] for x in lines if x.where == "setup"}
        mats = ["x", "x * 2", "x * w0[0]", "x @ w0", "m0(x)"]
        ways: dict[str, list[str]] = {
            "module": ["{name} = nn.Linear(6, 6)", "{name} = Scale()"],
            "optimizer": [
                f"{{name}} = cr.optim.SGD([{p}], lr=0.1{m})"
                for p in ("w0", "*m0.parameters()")
                for m in ("", ", momentum=0.9")
            ],
            "value": [f"{{name}} = {m}" for m in mats],
            "backward": [f"({m}).square().mean().backward()" for m in ("m0(x)", "x @ w0", "x * w1")],
            "backward between": [f"({m}).square().mean().backward()" for m in ("m0(X(9))", "X(9) @ w0", "X(9) * w1")],
            "return": ["return x", "return x * 2", "return t0", "return m0(x)", "return x @ w0"],
        }
        for i, line in enumerate(lines):
            options = ways.get(line.tag, [])
            if line.tag.startswith("call ") and "(" in line.text:
                start = line.text.index("(")
                options = [line.text[:start].rpartition(" ")[2] + f"(X({7 + i}))", line.text[:start] + f"(X({7 + i}))"]
                if line.text.count("(") == 1 or line.text.startswith("with"):
                    options = []
            for text in options:
                text = text.replace("{name}", line.text.split(" = ")[0])
                if len(text) >= len(line.text) or any(n in text and n not in have for n in ("w0", "w1", "m0", "t0")):
                    continue
                other = [*lines[:i], Line(line.where, line.tag, text), *lines[i + 1 :]]
                if self.fails(case, other, what):
                    lines = other
                    break
        for i in reversed(range(len(lines))):  # what the shorter texts no longer need
            fewer = lines[:i] + lines[i + 1 :]
            if lines[i].tag != "def" and self.fails(case, fewer, what):
                lines = fewer
        return lines


# ---- a run ----


class Run:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.off = {tag for tag in (given.off or "").split(",") if tag}
        if not given.all:
            self.off |= set(DECLARED)
        self.worker = Worker()
        self.findings: dict[str, Finding] = {}
        self.n: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.cannot: Counter[str] = Counter()
        self.end = time.monotonic() + given.seconds

    def case(self, k: int) -> Case:
        threads = 0 if not self.given.threads else (-6, 3)[k % 2]
        lines, _ = made(self.given.seed * STRIDE + k, self.off, threads)
        return Case(lines, threads)

    def known(self, case: Case) -> Case:
        """Without the changes of findings that were seen three times."""
        for found in self.findings.values():
            changes = changes_of(found.case.lines)
            if found.seen >= 3 and changes and changes <= changes_of(case.lines):
                case = Case([x for x in case.lines if not (x.where == "act" and x.tag in changes)], case.threads)
        return case

    def one(self, k: int) -> None:
        case = self.case(k)
        if k % 5:
            case = self.known(case)
        found = self.worker.run(case.program())
        self.n["programs"] += 1
        self.n["calls"] += sum(x.tag.startswith("call ") for x in case.lines)
        self.n["actions"] += sum(x.where == "act" for x in case.lines)
        self.n["replays"] += found.replays
        self.n["recordings"] += found.recordings
        for why in found.refused:
            self.refused[why[:110]] += 1
        if found.verdict == "cannot":
            self.n["errors that say they cannot"] += 1
            self.cannot[found.text[:110]] += 1
        elif found.verdict == "differs":
            self.n["failed"] += 1
            self.fail(case, found, k)

    def fail(self, case: Case, found: Outcome, k: int) -> None:
        again = self.worker.run(case.program(), fresh=True)
        if again.verdict != "differs":
            self.n["failed once only"] += 1
            if not case.threads:
                print(f"program {k} failed in a used process only: {found.what}: {found.text[:300]}", flush=True)
            return
        if self.matches(case):
            return
        shortener = Shortener(self.worker, self.given.shorten)
        lines = shortener.shorten(case, again)
        short = Case(lines, case.threads)
        last = self.worker.run(short.program(), fresh=True)
        if last.verdict != "differs":
            short, last = case, again
        finding = Finding(short, last, k, tags=tags_of(short.lines))
        if finding.key() in self.findings:
            self.findings[finding.key()].seen += 1
            return
        self.findings[finding.key()] = finding
        self.show(finding)

    def matches(self, case: Case) -> bool:
        """Does it pass without what is special in one finding: its changes, or else its features?"""
        for found in self.findings.values():
            changes = changes_of(found.case.lines)
            special = {name for line in found.case.lines for name in features(line)} if not changes else set()
            if not changes | special or not changes <= changes_of(case.lines):
                continue
            rest = [
                x
                for x in case.lines
                if x.tag == "def" or not (x.where == "act" and x.tag in changes or special & features(x))
            ]
            if len(rest) < len(case.lines) and self.worker.run(Case(rest, case.threads).program()).verdict != "differs":
                found.seen += 1
                return True
        return False

    def show(self, finding: Finding) -> None:
        threads = " --threads" if self.given.threads else ""
        print(f"==== {finding.key()}\n# --seed {self.given.seed} --only {finding.only}{threads}", flush=True)
        program = finding.case.program()
        print(program.setup + "# ----\n" + "\n".join(program.actions))
        print(f"# action {finding.outcome.where}: {finding.outcome.what}: {finding.outcome.text[:400]}\n", flush=True)
        if self.given.save:
            with open(self.given.save, "a") as f:
                f.write(
                    json.dumps(
                        {
                            "key": finding.key(),
                            "seed": self.given.seed,
                            "only": finding.only,
                            "program": asdict(program),
                            "outcome": asdict(finding.outcome),
                        }
                    )
                    + "\n"
                )

    def all(self) -> int:
        start, k = time.monotonic(), self.given.start
        while time.monotonic() < self.end and k < self.given.start + self.given.programs:
            self.one(k)
            k += 1
        self.worker.stop()
        seconds = time.monotonic() - start
        print(", ".join(f"{n} {what}" for what, n in self.n.items()), f"in {seconds:.0f} s")
        for text, n in [*self.refused.most_common(self.given.most), *self.cannot.most_common(self.given.most)]:
            print(f"  {n} times: {text}")
        for finding in sorted(self.findings.values(), key=lambda f: -f.seen):
            print(f"  found {finding.seen} times: {finding.key()}")
        failed = len(self.findings)
        print(f"result: {self.n['programs'] - self.n['failed']} passed, {failed} failed, 0 skipped")
        return 1 if failed else 0

    def only(self, k: int) -> int:
        case = self.case(k)
        program = case.program()
        print(program.setup + "# ----\n" + "\n".join(f"{a}   # {i}" for i, a in enumerate(program.actions)))
        found = self.worker.run(program, fresh=True)
        print(found)
        if found.verdict == "differs":
            self.fail(case, found, k)
        self.worker.stop()
        return int(found.verdict == "differs")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzzes compiled steps; ends with a result line.")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one program of the seed")
    parser.add_argument("--start", type=int, default=0, help="the first program")
    parser.add_argument("--programs", type=int, default=1 << 60, help="at most so many")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--off", default="", help="kinds to leave out, with commas")
    parser.add_argument(
        "--all", action="store_true", help="also kinds that are declared as differing: " + ", ".join(DECLARED)
    )
    parser.add_argument("--shorten", type=float, default=60, help="seconds for making a program shorter")
    parser.add_argument("--most", type=int, default=5, help="reasons of refusals to print")
    parser.add_argument("--save", help="a file for findings, one JSON a line")
    given = parser.parse_args()
    if given.work:
        work()
        return 0
    run = Run(given)
    return run.all() if given.only is None else run.only(given.only)


if __name__ == "__main__":
    sys.exit(main())
