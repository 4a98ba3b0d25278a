"""The chapters of the tutorial as notebooks: examples/notebooks/NAME.ipynb of docs/tutorial/NAME.md.

use: python tools/notebooks.py [--check]        --check: says which are not current

A block of Python or sh is a cell with the output that the page shows; the rest of the page is text, with links that
lead from the notebook's folder."""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES, FOLDER = "docs/tutorial", "examples/notebooks"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```output\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)\s]+)")


def text_cell(text: str) -> list[dict[str, Any]]:
    from_here = lambda link: link[1] + posixpath.relpath(posixpath.join(PAGES, link[2]), FOLDER)
    words = LINK.sub(from_here, text.strip("\n"))
    return [{"cell_type": "markdown", "metadata": {}, "source": words.splitlines(keepends=True)}] if words else []


def code_cell(code: str, output: str | None) -> dict[str, Any]:
    lines = (output or "").splitlines(keepends=True)
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else [],
        "source": code.rstrip("\n").splitlines(keepends=True),
    }


def notebook(page: str) -> str:
    cells: list[dict[str, Any]] = []
    end = 0
    for block in BLOCK.finditer(page):
        cells += [
            *text_cell(page[end : block.start()]),
            code_cell(block[2] if block[1] == "python" else f"%%sh\n{block[2]}", block[3]),
        ]
        end = block.end()
    cells += text_cell(page[end:])
    ids = [cell | {"id": f"cell-{k}"} for k, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": ids, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def notebooks() -> dict[Path, str]:
    """Path of each notebook -> its text."""
    pages = (page for page in sorted((ROOT / PAGES).glob("*.md")) if page.name != "index.md")
    return {ROOT / FOLDER / f"{page.stem}.ipynb": notebook(page.read_text(encoding="utf-8")) for page in pages}


def main() -> int:
    wanted = notebooks()
    there = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / FOLDER).glob("*.ipynb"))}
    if "--check" in sys.argv[1:]:
        wrong = [path for path in sorted({*wanted, *there}) if wanted.get(path) != there.get(path)]
        for path in wrong:
            print(f"{path.relative_to(ROOT)} is not what its page gives: python3 tools/notebooks.py")
        return bool(wrong)
    (ROOT / FOLDER).mkdir(exist_ok=True)
    for path in there.keys() - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
