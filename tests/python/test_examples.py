"""Every program of examples/ in Python runs, ends well, and fits on a page; those that use what may
be absent also run without it.  These and the chapters of the tutorial print the same with their modules compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import chainrule as cr
import pytest
from compiled import compiled_run
from conftest import ROOT

SAYS = {
    "moons_value": "of 100 right",
    "moons_tensor": "of 100 right",
    "moons_nn": "of 200 right",
    "digits": "unseen digits right",
    "names": "nats a letter",
    "finetune": "9 of 9 answers right",
}
# Here the parts of a model are compiled, because the example calls the model's method `loss`.  A gradient that a part
# and the stream beside it share is rounded otherwise (docs/howto/compile.md), so losses on the way differ.
ROUNDED = {"finetune"}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TUTORIAL = [p for p in sorted((ROOT / "docs" / "tutorial").glob("*.md")) if "```python" in p.read_text()]
NAMES = (
    "ada adele albert anna arthur bella clara daniel ella emma erik felix frieda greta hugo ida jonas karl lara leo"
    " marie max nora otto paula rosa".split()
)


def run(path: Path, *arguments: Path, before: Path | None = None) -> str:
    """The output of an example; ``before``: a folder whose modules come before those that are installed."""
    folders = [*([str(before)] if before else []), str(Path(cr.__file__).parent.parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, str(path), *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and SAYS[path.stem] in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    arguments = [tmp_path / "names.txt"] if path.stem == "names" else []
    eager = run(path, *arguments)
    compiled = compiled_run(path, *arguments)
    if path.stem in ROUNDED:
        eager, compiled = (re.sub(r"loss \d\.\d+", "loss", text) for text in (eager, compiled))
    assert compiled == eager
    assert len(path.read_text().splitlines()) <= 60


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda p: p.stem)
def test_tutorial(page: Path, tmp_path: Path) -> None:
    """Compiled, each block prints what the page shows, which is what the eager run prints (tests/check_pages.py)."""
    said = compiled_run(ROOT / "tests" / "check_pages.py", "--page", page, folder=tmp_path)
    assert re.search(r"^blocks [1-9]\d* 0 \d+$", said, re.MULTILINE), said


def test_digits_without_scikit_learn(tmp_path: Path) -> None:
    (tmp_path / "sklearn.py").write_text("raise ImportError")
    run(ROOT / "examples" / "digits.py", before=tmp_path)


@pytest.mark.full
def test_names_without_a_file(tmp_path: Path) -> None:
    """As far from a list of names as the example knows where to look."""
    copy = tmp_path / "a" / "b" / "names.py"
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / "examples" / "names.py").read_text())
    run(copy)
