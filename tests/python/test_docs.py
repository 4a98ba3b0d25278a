"""The Python of the documentation runs: the blocks of a page one after the other, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import differences
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if "```python" in page.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    text = page.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec"), names)


def test_differences() -> None:
    assert differences.PAGE.read_text() == differences.page(), f"{differences.PAGE} is not current: run python tests/python/differences.py"
