"""Shared by the Python tests: the built package on the path, how long hypothesis tries, and the
result line that tools/run_tests.py reads."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
LEVEL = int(
    os.environ.get("CHAINRULE_TEST_FULL") or 0
)  # 0: make test, 1: make test-all, 2: all that there is, which takes an hour
FULL = LEVEL >= 1
PAGES = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs" / "howto").glob("*.md")))  # some text
REPORT: Counter[str] = Counter()  # what -> how many ran, for the result line

sys.path.insert(0, str(BUILD / "python"))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else PyTorch's threads wait busily, beside other tests

# The same examples in every run but those of all that there is; nothing depends on how fast the machine is.
settings.register_profile(
    "quick",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "full",
    max_examples=500,
    derandomize=LEVEL < 2,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("full" if FULL else "quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `full` run in `make test-all` only."""
    if not FULL:
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> None:
    """Leaves what was made until now out of the garbage collections that a file's tests ask for: they took a third of
    the time."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    stats = terminalreporter.stats
    seconds: Counter[str] = Counter()
    for report in (report for reports in stats.values() for report in reports if hasattr(report, "duration")):
        seconds[Path(report.nodeid.split("::")[0]).name] += report.duration
    for file, spent in seconds.items():
        terminalreporter.write_line(f"seconds {file} {spent:.1f}")
    for report in stats.get("skipped", []):
        where, _, why = (
            report.longrepr if isinstance(report.longrepr, tuple) else (report.nodeid, 0, str(report.longrepr))
        )
        terminalreporter.write_line(f"skipped {Path(where).name}: {why.removeprefix('Skipped: ')}")
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    counts = "; " * bool(REPORT) + ", ".join(f"{what} {n}" for what, n in REPORT.items())
    terminalreporter.write_line(
        f"result: {len(stats.get('passed', []))} passed, {failed} failed, {len(stats.get('skipped', []))}"
        f" skipped{counts}"
    )
