"""In Jupyter: the chapters of the tutorial as notebooks, and a progress bar. A kernel runs them through nbclient."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BUILD, FULL, ROOT

sys.path.append(str(ROOT / "tests"))
check_pages = importlib.import_module("check_pages")

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (make oracle)")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (make oracle)")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (make oracle)")
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def executed(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The outputs of each cell of code, run by a kernel of this Python in a folder."""
    monkeypatch.setenv("PYTHONPATH", f"{BUILD / 'python'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("PATH", f"{BUILD}{os.pathsep}{os.environ['PATH']}")
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(outputs: list[dict[str, Any]], stream: str = "stdout") -> str:
    return "".join(o["text"] for o in outputs if o["output_type"] == "stream" and o["name"] == stream)


def absent(source: str) -> str:
    """What a chapter needs that is not here."""
    needs = {"viz.graph": "graphviz", "viz.curves": "matplotlib", "viz.boundary": "matplotlib"}
    packages = {package for name, package in needs.items() if name in source}
    missing = [package for package in sorted(packages) if not importlib.util.find_spec(package)]
    if not missing and "graphviz" in packages and not shutil.which("dot"):
        return "no program dot"
    return f"{missing[0]} is not installed (pip install chainrule[viz])" if missing else ""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_chapter(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs from top to bottom and prints what its page shows; tests/check_pages.py runs the same blocks."""
    source = path.read_text(encoding="utf-8")
    if not FULL and path.stem != "tensor":
        pytest.skip("CHAINRULE_TEST_FULL=1: the other chapters in a kernel")
    if missing := absent(source):
        pytest.skip(missing)
    shown = [cell["outputs"] for cell in json.loads(source)["cells"] if cell["cell_type"] == "code"]
    found = executed(nbformat.reads(source, as_version=4), tmp_path, monkeypatch)
    for wanted, got in zip(shown, found, strict=True):
        text = "".join(line for output in wanted for line in output["text"])
        assert not text or check_pages.same(text, printed(got)), (text, printed(got))


def test_progress_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed (pip install chainrule[viz])")
    code = "import chainrule as cr\nprint(sum(cr.viz.progress(range(4), 'training')))"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    (outputs,) = executed(notebook, tmp_path, monkeypatch)
    assert printed(outputs) == "6\n" and "training: 100%" in printed(outputs, "stderr"), outputs
