"""Libraries that take turns, each in a process of its own, so that no thread pool waits beside another's work."""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

COUNTED = 0.04  # seconds of calls for one reading of processor time
Runs = dict[str, Callable[[], object]]
Open = Callable[[str, int], tuple[str, Callable[[str], Runs]]]  # library, threads -> version, what makes runs of a case


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of elapsed time")
    parser.add_argument("--only", default="", help="cases with this in their names")
    return parser


def prepared(library: str, threads: int) -> Any:
    """The module, for so many threads."""
    for variable in ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = str(threads)
    if library == "jax":
        eigen = f"--xla_cpu_multi_thread_eigen={'false' if threads == 1 else 'true'}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {eigen}"
    lib = importlib.import_module(library)
    if library != "jax":
        importlib.import_module(library + ".nn.functional")
        lib.set_num_threads(threads)
    return lib


def failing() -> None:
    """In place of a call that raised an exception."""


def work(open_library: Open, library: str, threads: int, cpu: bool, pipe: Any) -> None:
    """Answers (case, what, seconds) with the least milliseconds of one call; infinity where the library fails."""
    version, make = open_library(library, threads)
    clock = time.process_time if cpu else time.perf_counter
    made: dict[str, Runs] = {}
    pipe.send(version)
    while ask := pipe.recv():
        name, what, seconds = ask
        if name not in made:
            made = {name: make(name)}
            try:
                made[name][what]()
            except Exception as error:
                print(f"{version}, {name}, {what}: {error}", file=sys.stderr)
                made[name][what] = failing
        if made[name][what] is failing:
            pipe.send(math.inf)
            continue
        run, least, end = made[name][what], math.inf, time.perf_counter() + seconds
        run()
        calls = 1
        if cpu:  # the system counts the time of threads that run elsewhere once in some milliseconds
            start = time.perf_counter()
            run()
            calls += int(COUNTED / (time.perf_counter() - start))
        while time.perf_counter() < end or least == math.inf:
            start = clock()
            for _ in range(calls):
                run()
            least = min(least, (clock() - start) / calls)
        pipe.send(1e3 * least)


def start(target: Callable[..., None], *words: Any) -> Any:
    """A process that runs target(*words, its end of a pipe): the other end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=target, args=(*words, theirs), daemon=True).start()
    return ours


class Turns:
    def __init__(self, open_library: Open, libraries: list[str], o: argparse.Namespace) -> None:
        self.libraries, self.quick = libraries, o.quick
        self.pipes = [start(work, open_library, library, o.threads, o.cpu) for library in libraries]
        self.versions = [pipe.recv() for pipe in self.pipes]

    def least(
        self, name: str, what: str, seconds: float, rounds: int = 7, without: Collection[str] = ()
    ) -> dict[str, float]:
        """By library that can do it the least milliseconds of a call, over rounds of so many seconds each."""
        ms = {library: math.inf for library in self.libraries if library not in without}
        for _ in range(2 if self.quick else rounds):
            for library, pipe in zip(self.libraries, self.pipes, strict=True):
                if library in without:
                    continue
                pipe.send((name, what, seconds / 8 if self.quick else seconds))
                ms[library] = min(ms[library], pipe.recv())
        return {library: least for library, least in ms.items() if least < math.inf}

    def end(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
