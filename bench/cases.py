"""The models of the training benches, the same as in src/cli/bench.c, and how a step is timed."""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    name: str
    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    batch: int
    time: int
    runs: int
    quick_runs: int

    @property
    def parameters(self) -> int:
        C = self.width
        return (self.vocabulary + self.context + 2) * C + self.layers * (12 * C * C + 13 * C)


CASES = {
    "char": Case("char GPT", 65, 64, 4, 4, 128, 12, 64, 100, 20),
    "char6": Case("char GPT 6 x 384", 65, 128, 6, 6, 384, 16, 128, 12, 4),
    "gpt2": Case("GPT-2 124M", 50257, 1024, 12, 12, 768, 4, 64, 9, 3),
}


def measure(case: Case, quick: bool, step: Callable[[], None]) -> dict[str, Any]:
    """Two steps to warm up, then the timed ones."""
    times = []
    runs = case.quick_runs if quick else case.runs
    for run in range(-2, runs):
        start = time.perf_counter()
        step()
        if run >= 0:
            times.append(time.perf_counter() - start)
    rows = [{"name": f"{case.name} step", "min_ms": min(times) * 1e3, "median_ms": statistics.median(times) * 1e3}]
    return {"rows": rows, "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
