"""How Sphinx makes pages of the Markdown files here, in docs/, and in the rooms of src/ (make docs).
The source folder is the repository's root, so that links between them are the same on a page, in an
editor and on a repository's web site.

The reference is made of the docstrings of the package in build/release and of the header; a public
name that is on no page is a warning."""

import importlib
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "tools"),
    str(Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")) / "python"),
]

try:
    import chainrule
except ImportError as problem:
    raise RuntimeError("the reference is made of the Python extension, which this build lacks (make deps)") from problem
import latex2mathml.converter  # noqa: E402
import reference  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.util import logging  # noqa: E402

project = "chainrule"
author = "The chainrule developers"
copyright = "2026, " + author
release = chainrule.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "docs/reference/nn/*.rst", "src/**/*.md"]
include_patterns += ["python/README.md", "web/README.md"]
exclude_patterns = ["build", ".git", "docs/reference/nn-examples.md"]  # examples are on the pages of their classes
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False  # a layer's forward is that of Module to a reader
autodoc_member_order = "bysource"
add_module_names = False
maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries = False
html_theme = "furo"
html_title = f"chainrule {release}"
html_copy_source = False
html_math_renderer = "mathml"
smartquotes = False  # a quote in a docstring is code more often than not
html_static_path = ["style.css"]
html_css_files = ["style.css"]

MADE = {  # a line of a page -> what stands in its place
    "<!-- made: functions -->": reference.functions,
    "<!-- made: classes -->": reference.classes,
    "<!-- made: header -->": lambda: reference.header(reference.public_header()),
}
SIGNATURES = reference.signatures()


def read_page(app, page, source):  # type: ignore[no-untyped-def]
    """Puts in what is made.  A link to a folder of the repository works where the text is read
    beside it; on a page it becomes plain text."""
    here = Path(app.env.doc2path(page)).parent

    def plain(link: "re.Match[str]") -> str:
        return link.group(1) if (here / link.group(2)).is_dir() else link.group(0)

    source[0] = re.sub(r"\[([^\]]+)\]\(([^)#:\s]+)\)", plain, source[0])
    for line, make in MADE.items():
        if line in source[0]:
            source[0] = source[0].replace(line, make())


def read_docstring(app, what, name, thing, options, lines):  # type: ignore[no-untyped-def]
    """Docstrings are prose: only ``code`` and blocks behind :: are marked; what else would be a mark is plain text."""
    literal = False
    for i, line in enumerate(lines):
        literal = literal and (not line.strip() or line.startswith(" "))
        if not literal:
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"([*`|\\]|_(?!\w))", r"\\\1", part) for part in parts[::2]]
            lines[i] = "".join(parts)
        literal = literal or line.endswith("::")


def read_signature(app, what, name, thing, options, signature, result):  # type: ignore[no-untyped-def]
    return SIGNATURES.get(name, (signature, result))


def check_names(app, env):  # type: ignore[no-untyped-def]
    """A name that is another's object (chainrule.nn.MLP, chainrule.MLP) may be under either.  An instance of a class
    of ours (chainrule.distributions.constraints.real) has no docstring of its own, so autodoc leaves it out."""
    there = {name for name, _, kind, *_ in env.get_domain("py").get_objects() if kind != "module"}
    public = {
        f"chainrule{m}.{name}": getattr(importlib.import_module("chainrule" + m), name)
        for m in reference.MODULES
        for name in module_names(m)
    }
    shown = {id(thing) for name, thing in public.items() if name in there}
    for name, thing in public.items():
        ours = type(thing).__module__.startswith("chainrule.")
        if name not in there and id(thing) not in shown and not ours:
            logging.getLogger(__name__).warning("%s is on no page of the reference", name)


def module_names(module: str) -> "list[str]":
    thing = importlib.import_module("chainrule" + module)
    return [name for name in thing.__all__ if not isinstance(getattr(thing, name), type(re))]


def write_pages(app, config):  # type: ignore[no-untyped-def]
    """A page for each class of nn; git ignores them."""
    folder = ROOT / "docs" / "reference" / "nn"
    folder.mkdir(exist_ok=True)
    pages = reference.pages()
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")


def write_index(app, problem):  # type: ignore[no-untyped-def]
    """The first page lies below docs/, as in the repository."""
    if not problem:
        there = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">'
        Path(app.outdir, "index.html").write_text(f'{there}<a href="docs/index.html">{html_title}</a>\n')


def formula(display: str):  # type: ignore[no-untyped-def]
    """Formulas are MathML, which browsers show by themselves, also offline and in dark mode."""

    def visit(translator, node):  # type: ignore[no-untyped-def]
        translator.body.append(latex2mathml.converter.convert(node.astext(), display=display))
        raise nodes.SkipNode

    return visit, None


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("config-inited", write_pages)
    app.connect("build-finished", write_index)
    app.add_html_math_renderer("mathml", formula("inline"), formula("block"))
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", read_signature)
    app.connect("env-check-consistency", check_names)
