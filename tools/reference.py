"""Generates the parts of the reference pages that are not docstrings; docs/conf.py inserts them.

public_header()  the text of include/chainrule.h with the parts that it includes
header()         that text as MyST: groups are headings, functions and macros are entries, types are code
functions()      the functions of the package chainrule, group by group, as entries for Sphinx's autodoc
classes()        the classes of chainrule.nn, group by group, as links to their pages
pages()          name of such a page -> its text: a class, its formula and example of docs/reference/nn-examples.md;
                 or a group
signatures()     name -> signature with types, from the stub of the extension; the functions themselves have no types
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections import Counter
from pathlib import Path

import gen_ops
import gen_python

ROOT = Path(__file__).resolve().parent.parent
STUB = "python/chainrule/_core.pyi"
MODULES = [  # of the package, with a page each or a section of one
    "",
    ".amp",
    ".autograd",
    ".nn",
    ".nn.attention",
    ".nn.functional",
    ".nn.init",
    ".nn.parallel",
    ".nn.utils",
    ".nn.utils.parametrizations",
    ".nn.utils.parametrize",
    ".nn.utils.prune",
    ".nn.utils.stateless",
    ".nn.utils.rnn",
    ".optim",
    ".optim.lr_scheduler",
    ".optim.swa_utils",
    ".distributed",
    ".distributions",
    ".distributions.constraints",
    ".special",
    ".data",
    ".serialization",
    ".models",
    ".viz",
    ".random",
    ".cuda",
    ".vision",
    ".vision.datasets",
    ".vision.transforms",
    ".vision.transforms.functional",
    ".vision.models",
    ".vision.utils",
]
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")  # of ASCII; after a backslash each is plain text in Markdown
ENTRY = re.compile(
    r"""^(?: (?P<note> /\*.*?\*/ )
         |   \#define[ ](?P<macro> CR_\w+(?:\([^)]*\))?) (?:(?!/\*)[^\n])*
         |   (?P<type> typedef[ ](?:struct|enum)[ ]\w+[ ]\{.*?\}[ ]\w+; | typedef[^;]*; )
         |   (?P<function> [a-z][^;{}]*\) ) ;
         ) (?P<doc> (?:[ \t]*/\*.*?\*/ (?:\n[ ]{20,}(?=/\*))? | [ \t]*\n[ ]{20,}(?=/\*))* )""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


def public_header() -> str:
    """include/chainrule.h with each #include of a part replaced by the part, from its first group to its end."""
    include = ROOT / "include"

    def part(line: re.Match[str]) -> str:
        _, group, rest = (include / line[1]).read_text(encoding="utf-8").partition("/* ----")
        return group + rest

    return re.sub(
        r'^#include "(chainrule/\w+\.h)"$',
        part,
        (include / "chainrule.h").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )


def words(comment: str) -> str:
    """The text of a comment."""
    return re.sub(r"^\s*/\*+|\*/|^ \*|-{4,}", "", comment, flags=re.MULTILINE).strip()


def plain(text: str) -> str:
    return PUNCTUATION.sub(r"\\\1", " ".join(words(text).split()))


def entry(kind: str, declaration: str, doc: str) -> str:
    return f"```{{c:{kind}}} {' '.join(declaration.split())}\n{plain(doc)}\n```\n"


def header(text: str) -> str:
    """A macro with two definitions (C and C++) has one entry."""
    card, _, declarations = text.partition("#define CR_VERSION")
    _, *terms = re.split(
        r"\n (?=\w)", words(card[: card.index("*/")])
    )  # the first line of the file, then pairs of a word and its meaning
    out = [f"**{term}**: {plain(meaning)}\n" for term, meaning in (text.split(maxsplit=1) for text in terms)]
    seen: set[str] = set()
    for found in ENTRY.finditer("#define CR_VERSION" + declarations):
        note, macro, of_type, function, doc = (found[k] or "" for k in ("note", "macro", "type", "function", "doc"))
        if note.startswith("/* ----"):
            title, *more = re.split(r": |\s*\n", words(note), maxsplit=1)
            out += [f"## {title[0].upper() + title[1:]}\n", *(plain(text) + "\n" for text in more)]
        elif note and "generated:" not in note:
            out.append(f"*{plain(note)}*\n")
        elif macro and macro not in seen:
            seen.add(macro)
            out.append(entry("macro", macro, doc))
        elif of_type:
            before = (
                out.pop().removesuffix("```\n") if out[-1].startswith("```c\n") else "```c\n"
            )  # consecutive types share a block
            out.append(f"{before}{of_type}{doc}\n```\n")
        elif function:
            out.append(entry("function", function, doc))
    return "\n".join(out)


# ---- Python ----


def groups() -> dict[str, list[str]]:
    """Title of a group -> names of its functions in api.def and ops.def."""
    api = gen_python.read_all()
    of_ops = {
        gen_python.PYTHON_NAMES.get(r.name, r.name): r.group
        for r in gen_ops.read_source((ROOT / gen_ops.SOURCE).read_text())[1]
    }
    lines = (ROOT / gen_python.SOURCE).read_text().splitlines()
    title, of_api = "", {}
    for line in lines:
        if line.startswith("# ----"):
            title = re.split(r"[(:]| that ", line.strip("# -"))[0].strip()
        elif line.startswith("def "):
            of_api[line[4:].partition("(")[0]] = title
    titles = [*dict.fromkeys(of_api.values())]
    after = titles.index("arithmetic") + 1
    titles[after:after] = of_ops.values()
    found: dict[str, list[str]] = {title: [] for title in titles}
    for r in api:
        if r.function and r.name[0] != "_":
            names = found[of_api.get(r.c_name()) or of_ops[r.c_name()]]
            names += [r.name] * (r.name not in names)
    return {title: names for title, names in found.items() if names}


def functions() -> str:
    return "\n".join(
        f"## {title[0].upper() + title[1:]}\n\n```{{eval-rst}}\n.. currentmodule:: chainrule\n\n"
        + "\n".join(f".. autofunction:: {name}" for name in names)
        + "\n```\n"
        for title, names in groups().items()
    )


# ---- chainrule.nn ----

GROUPS = {  # title -> the modules of chainrule.nn whose classes it has
    "Modules and containers": "module parameter containers",
    "Linear layers": "linear",
    "Activations": "activation",
    "Convolutions": "conv",
    "Pooling": "pooling",
    "Normalization": "norm",
    "Dropout": "dropouts",
    "Embeddings": "embedding",
    "Recurrent layers": "rnn",
    "Attention and transformers": "multihead transformer rotary",
    "Losses": "loss margin_loss adaptive",
    "Distances": "distance",
    "Padding": "padding",
    "Rearranging and resampling": "rearrange upsample",
    "Layers of a size that the first input gives": "lazy",
    "Quantized layers": "quantized",
}
EXAMPLES = ROOT / "docs" / "reference" / "nn-examples.md"


def in_groups() -> dict[str, list[str]]:
    """Title -> the public names of nn in that group, functions last."""
    nn = importlib.import_module("chainrule.nn")
    group = {module: title for title, modules in GROUPS.items() for module in modules.split()}
    found: dict[str, list[str]] = {title: [] for title in GROUPS}
    for name in nn.__all__:
        home, _, module = getattr(getattr(nn, name), "__module__", "").rpartition(".")
        if home == "chainrule.nn" and module in group:
            found[group[module]].append(name)
    return {title: sorted(names, key=lambda n: (n.islower(), n)) for title, names in found.items()}


def first_sentence(name: str) -> str:
    thing = getattr(importlib.import_module("chainrule.nn"), name)
    text = " ".join((inspect.getdoc(thing) or "").replace("``", "").split())
    return re.split(r"(?<=[^A-Z .]{2})[.:;] +(?=[A-Za-z(])", text, maxsplit=1)[0].removesuffix(".")


def slug(title: str) -> str:
    return "group-" + title.lower().replace(" ", "-")  # a name that differs from a class in more than case


def classes() -> str:
    """The side bar has the groups, by their pages."""
    groups = in_groups()
    lists = "\n".join(
        f"## {title}\n\n"
        + "".join(f"* {{doc}}`{name} <nn/{name}>` - {plain(first_sentence(name))}\n" for name in names)
        for title, names in groups.items()
    )
    return f"{lists}\n```{{toctree}}\n:hidden:\n\n" + "".join(f"nn/{slug(title)}\n" for title in groups) + "```\n"


def as_rst(markdown: str) -> str:
    """Formulas and blocks of code; there is nothing else in a section of EXAMPLES."""
    out = []
    for formula, kind, code in re.findall(r"^\$\$(.*?)\$\$$|^```(\w+)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL):
        directive = f".. code-block:: {kind}" if kind else ".. math::"
        out.append(f"{directive}\n\n{textwrap.indent((code or formula).strip(), '   ')}\n")
    return "\n".join(out)


def pages() -> dict[str, str]:
    examples = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", EXAMPLES.read_text(), re.MULTILINE | re.DOTALL))
    groups = in_groups()
    names = {name for names in groups.values() for name in names}
    assert not examples.keys() - names, "an example of no class of nn"
    found = {name: page(name, examples.get(name, "")) for name in names}
    for title, members in groups.items():
        entries = "".join(f"   {name}\n" for name in members)
        found[slug(title)] = f"{title}\n{'=' * len(title)}\n\n.. toctree::\n\n{entries}"
    return found


def page(name: str, example: str) -> str:
    directive = "autofunction" if name.islower() else "autoclass"
    below = textwrap.indent(as_rst(example), "   ")
    return f"{name}\n{'=' * len(name)}\n\n.. currentmodule:: chainrule.nn\n\n.. {directive}:: {name}\n\n{below}"


def signatures() -> dict[str, tuple[str, str]]:
    """chainrule.name and chainrule.Class.name -> arguments, result.  Names with overloads are left out."""
    tree = ast.parse((ROOT / STUB).read_text())
    found: dict[str, tuple[str, str]] = {}
    times: Counter[str] = Counter()
    for body, prefix in [
        (tree.body, "chainrule."),
        *((c.body, f"chainrule.{c.name}.") for c in tree.body if isinstance(c, ast.ClassDef)),
    ]:
        for f in body:
            if isinstance(f, ast.FunctionDef) and "property" not in map(ast.unparse, f.decorator_list):
                text = re.sub(r"\b_(int|float|bool|str|dtype)\b", r"\1", ast.unparse(f))
                arguments, _, result = (
                    text.removeprefix("@classmethod\n")
                    .removeprefix(f"def {f.name}")
                    .removesuffix(":\n    ...")
                    .rpartition(" -> ")
                )
                found[prefix + f.name] = (
                    re.sub(r"\((self|cls)(, /)?(, |\))", lambda m: "(" + ")" * (m[3] == ")"), arguments, count=1),
                    result,
                )
                times[prefix + f.name] += 1
    return {name: signature for name, signature in found.items() if times[name] == 1}
