"""How Sphinx makes pages of README.md, CONTRIBUTING.md, CHANGELOG.md and docs/*.md (make docs).  The source folder is the repository's
root, so that links between them are the same on a page, in an editor and on a repository's web site."""

import re
from pathlib import Path

header = Path(__file__).resolve().parent.parent / "include" / "chainrule.h"
found = re.search(r'CR_VERSION "([\d.]+)"', header.read_text(encoding="utf-8"))

project = "chainrule"
author = "The chainrule developers"
copyright = "2026, " + author
release = found.group(1) if found else "unknown"
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"]
exclude_patterns = ["build", ".git"]
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"chainrule {release}"
html_copy_source = False


def without_folders(app, page, source):  # type: ignore[no-untyped-def]
    """A link to a folder of the repository works where the text is read beside it; on a page it becomes plain text."""
    here = Path(app.env.doc2path(page)).parent

    def plain(link: "re.Match[str]") -> str:
        return link.group(1) if (here / link.group(2)).is_dir() else link.group(0)

    source[0] = re.sub(r"\[([^\]]+)\]\(([^)#:\s]+)\)", plain, source[0])


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("source-read", without_folders)
