#!/usr/bin/env python3
"""Writes the tables, the type stub and the list of names of the Python extension from
python/src/api.def and src/ops/ops.def.

use: tools/gen_python.py                 write the files that changed: the type stub and the package's list of names
     tools/gen_python.py --check         write nothing; name the files that are not current and exit with 1
     tools/gen_python.py --tables FILE   write the tables of the extension; the build does this (cmake/python.cmake)

A row becomes an Api; each file is one function of the list of them.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import gen_ops

ROOT = gen_ops.ROOT
SOURCE = "python/src/api.def"
STUB_HEAD = "python/src/stub.pyi"  # the types and their properties, which are no rows
PACKAGE = "python/chainrule/__init__.py"
NAMES = re.compile(r"^(__all__ = \[.*\n)[^]]*\]", re.MULTILINE)  # there

# Annotation -> kind of argument (extension.h).
KINDS = {
    "Tensor": "TENSOR",
    "Tensor | Number": "OPERAND",
    "Number": "NUMBER",
    "int": "INT",
    "float": "FLOAT",
    "bool": "BOOL",
    "str": "STR",
    "dtype": "DTYPE",
    "DeviceLike": "DEVICE",
    "Size": "SIZE",
    "Dims": "SIZE",
    "Sequence[Tensor]": "TENSORS",
    "Generator": "GENERATOR",
}
STUB = {
    "Size": "Sequence[int]",
    "Dims": "int | Sequence[int]",
    "Number": "int | float",
    "Tensor | Number": "Tensor | int | float",
    "DeviceLike": "Device | str",
}
SHADOWED = re.compile(
    r"\b(int|float|bool|str|dtype)\b"
)  # the module has dtypes, Tensor methods of these names: the stub says _int
PYTHON_NAMES = {"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"}
NOT_IN_PYTHON = {"gelu_tanh", "trunc_divide", "swiglu", "geglu"}  # an argument of gelu, of div; in nn.functional
NUMBER_FIRST = {
    "mul",
    "remainder",
    "floor_divide",
    "xlog1py",
    "xlogy",
    "zeta",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
}  # f(2, x)
NUMBERS_ONLY = {"mul", "floor_divide"}  # f(2, 3)
NUMBER_ALLOWED = {"lerp": {"weight"}}  # ternaries take tensors, but for these
NUMPYS = {"max": "amax", "min": "amin"}  # numpy.max(x) calls x.max(axis=None, out=None) and means amax
ALIASES = {
    "absolute": "abs",
    "negative": "neg",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "fix": "trunc",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "arccos": "acos",
    "arccosh": "acosh",
    "ger": "outer",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "row_stack": "vstack",
    "trapz": "trapezoid",
}


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str  # without None
    optional: bool
    keyword: bool
    variadic: bool
    default: str | None  # as Python text; None: required (or, where it is optional or variadic, absent)

    def kind(self) -> str:
        return KINDS.get(self.annotation, "OBJECT")

    def stub(self) -> str:
        text = STUB.get(self.annotation, self.annotation)
        return text + " | None" if self.optional and text != "None" else text


@dataclass(frozen=True)
class Api:
    name: str
    params: list[Parameter]
    returns: str
    doc: str
    function: bool
    method: bool
    inplace: bool
    compute: bool
    body: str = ""  # of the C function, for elementwise rows
    alias: str = ""  # another name for this one
    broadcasts: bool = False
    overload: bool = False  # only for the stub: one way to call the next row of this name
    runs: str = ""  # the C function is api_<runs>
    called: str = ""  # what errors say; "": they stay as they are
    nodes: tuple[str, ...] = ()  # what the node of the result is called, where it is not the op; then with a dim

    def c_name(self) -> str:
        return self.alias or self.name


# ---- reading


def read_parameters(args: ast.arguments) -> list[Parameter]:
    params: list[Parameter] = []

    def add(a: ast.arg, default: ast.expr | None, keyword: bool, variadic: bool) -> None:
        text = ast.unparse(a.annotation) if a.annotation else "object"
        optional = text.endswith("None")
        value = ast.unparse(default) if default is not None else None
        if value == "()":
            optional, value = True, None
        params.append(
            Parameter(
                a.arg, text.removesuffix(" | None"), optional, keyword, variadic, None if value == "None" else value
            )
        )

    missing: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    for a, d in zip(args.args, [*missing, *args.defaults], strict=True):
        add(a, d, False, False)
    if args.vararg:
        add(args.vararg, None, False, True)
    for a, k in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        add(a, k, True, False)
    return params


def read_rows() -> list[Api]:
    rows = []
    for node in ast.parse((ROOT / SOURCE).read_text()).body:
        if not isinstance(node, ast.FunctionDef):
            raise SystemExit(f"{SOURCE}:{node.lineno}: expected a row")
        marks = {ast.unparse(d) for d in node.decorator_list}
        calls = [d for d in node.decorator_list if isinstance(d, ast.Call)]
        texts = {ast.unparse(d.func): [ast.literal_eval(a) for a in d.args] for d in calls}
        called = texts.get("called", ["" if node.name[0] == "_" or node.name == "backward" else node.name])[0]
        names = [called.rstrip("_")] if "node" in marks else texts.get("node", [])
        returns = ast.unparse(node.returns) if node.returns else "None"
        rows.append(
            Api(
                node.name,
                read_parameters(node.args),
                returns,
                ast.get_docstring(node) or "",
                bool(marks & {"both", "function"}),
                bool(marks & {"both", "method", "inplace"}),
                "inplace" in marks,
                returns == "Tensor" and "python" not in marks,
                overload="overload" in marks,
                runs=texts.get("runs", [node.name])[0],
                called=called,
                nodes=tuple(names),
            )
        )
    return rows


def elementwise_rows(taken: set[str]) -> list[Api]:
    _, rows, _ = gen_ops.read_source((ROOT / gen_ops.SOURCE).read_text())
    found = []
    for r in rows:
        name = PYTHON_NAMES.get(r.name, r.name)
        if r.name in NOT_IN_PYTHON or name in taken:
            continue
        params = []
        for i, x in enumerate(r.inputs):
            python = "input" if i == 0 else "other" if x == "b" and len(r.inputs) == 2 else x
            number = (
                (len(r.inputs) == 2 or python in NUMBER_ALLOWED.get(name, set())) if i > 0 else name in NUMBER_FIRST
            )
            params.append(Parameter(python, "Tensor | Number" if number else "Tensor", False, False, False, None))
        for x, default in r.params.items():
            params.append(Parameter(x, "float", False, len(r.inputs) > 2, False, repr(default)))
        n = len(r.inputs)
        numbers = [f"a[{n + i}].d" for i in range(len(r.params))]
        operands = [f"a[{i}].t" for i in range(n)]
        doc = r.doc + (".  Shapes broadcast, dtypes promote." if n > 1 else ".")
        number_check = (
            f'if (a[0].owned && a[1].owned) return no_tensor("{name}"); ' if name in NUMBER_FIRST - NUMBERS_ONLY else ""
        )
        value = f"{number_check}return cr_{r.name}({', '.join(operands + numbers)});"
        given = f"(const double[]){{{', '.join(numbers)}}}" if numbers else "NULL"
        found.append(Api(name, params, "Tensor", doc, True, True, False, True, value, broadcasts=n > 1, called=name))
        if r.rule != "TEST" or n > 1 or name == "logical_not":
            params = [replace(params[0], annotation="Tensor"), *params[1:]]
            found.append(
                Api(
                    name + "_",
                    params,
                    "Tensor",
                    f"{name}, written into input: its shape and dtype stay.",
                    False,
                    True,
                    True,
                    True,
                    f'return api_in_place("{r.name}", a, {n}, {given});',
                    broadcasts=n > 1,
                    called=name + "_",
                )
            )
    return found


def read_all() -> list[Api]:
    rows = read_rows()
    rows += elementwise_rows({r.name for r in rows})
    named: dict[str, list[Api]] = {}
    for r in rows:
        named.setdefault(r.name, []).append(r)
    for alias, name in [*ALIASES.items(), *((a + "_", n + "_") for a, n in ALIASES.items() if n + "_" in named)]:
        rows += [replace(r, name=alias, doc=f"The same as {name}.  {r.doc}", alias=name) for r in named[name]]
    return rows


# ---- writing


def c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", '\\n"\n        "') + '"'


def argument_list(first: list[str], params: list[Parameter], typed: bool) -> str:
    parts = [*first]
    for i, p in enumerate(params):
        if p.keyword and not any(q.keyword or q.variadic for q in params[:i]):
            parts.append("*")
        default = None if p.variadic else p.default or ("None" if p.optional else None)
        text = ("*" if p.variadic else "") + p.name + (f": {stub_type(p.stub())}" if typed else "")
        parts.append(text + ("" if default is None else f" = {default}" if typed else f"={default}"))
    return ", ".join(parts)


# What ``out`` of a function takes, by what the function returns; the extension binds it (bind() in call.c).
OUT = {"Tensor": "Tensor"} | dict.fromkeys(
    ("_ValuesIndices", "_MinMax", "_MantissaExponent", "_Histogram", "tuple[Tensor, Tensor]"), "Sequence[Tensor]"
)


def with_out(r: Api, method: bool, params: list[Parameter]) -> list[Parameter]:
    """The parameters of a function, and ``out`` where it gives tensors."""
    if method or r.name.startswith("_") or r.returns not in OUT:
        return params
    return [*params, Parameter("out", OUT[r.returns], True, True, False, None)]


def signature(r: Api, method: bool) -> str:
    """For inspect.signature: the first line of the docstring."""
    first = ["$self", "/"] if method else []
    return f"{r.name}({argument_list(first, with_out(r, method, r.params[len(first) // 2 :]), False)})\n--\n\n"


def doc(r: Api) -> str:
    text = r.doc.replace("``", "")
    names = {p.name for p in r.params}
    if r.returns != "None" and names & {"dim", "dim0"} and "input" in names:
        text += "\nIndexError: an axis outside -ndim ... ndim - 1."
    if r.broadcasts:
        text += "\nRuntimeError: shapes that do not broadcast."
    return text


def parameter_table(r: Api) -> str:
    cells = []
    for p in r.params:
        flags = [f for f, on in (("OPTIONAL", p.optional), ("KEYWORD", p.keyword), ("VARIADIC", p.variadic)) if on]
        text, value = "NULL", "0"
        if p.default is not None:
            literal = ast.literal_eval(p.default)
            text, value = (c_string(literal), "0") if isinstance(literal, str) else ('""', repr(float(literal)))
        cells.append(f'{{"{p.name}", {p.kind()}, {" | ".join(flags) or "0"}, {text}, {value}}}')
    return ", ".join(cells)


def c_lines(rows: list[Api]) -> list[str]:
    out = [
        "/* api.gen.c - the entry of every function and method; tools/gen_python.py writes it during the build. */",
        '#include "extension.h"',
        "",
        (
            "#define CALL(f, e, self) static PyObject *f(PyObject *s, PyObject *const *v, Py_ssize_t n, PyObject *k) "
            "{ (void)s; return api_call(&e, self, v, n, k); }"
        ),
        "#define FAST (METH_FASTCALL | METH_KEYWORDS)",
        "#define AS(f) (PyCFunction)(void (*)(void))(f)",
        "",
    ]
    declared: set[str] = set()
    seen: dict[str, int] = {}
    table: dict[bool, list[str]] = {False: [], True: []}
    for r in rows:
        if r.alias:
            continue
        result = "cr_tensor *" if r.compute else "PyObject *"
        if r.body:
            out.append(f"static cr_tensor *api_{r.name}(const arg *a) {{ {r.body} }}")
        elif r.runs not in declared:
            out.append(f"{result}api_{r.runs}(const arg *a);")
        declared.add(r.runs)
    out.append(f'_Static_assert({max(len(r.params) for r in rows)} <= MAX_ARGS, "a function has more arguments");')
    out.append("")
    forms: dict[tuple[str, bool], str] = {}
    for r in rows:
        if not r.alias:
            seen[r.name] = seen.get(r.name, 0) + 1
            entry = f"{r.name}_entry" + (str(seen[r.name]) if seen[r.name] > 1 else "")
            if r.params:
                out.append(f"static const param {entry}_params[] = {{{parameter_table(r)}}};")
            field = "compute" if r.compute else "run"
            inplace = ", .inplace = true" if r.inplace else ""
            called = f', .called = "{r.called}"' if r.called else ""
            nodes = ", ".join(f'"{name}"' for name in r.nodes)
            node = f", .node = {{{nodes}}}" if nodes else ""
            numpys = f", .numpys = &{NUMPYS[r.name]}_entry" if r.name in NUMPYS else ""
            known = f", .params = {entry}_params, .count = {len(r.params)}" if r.params else ""
            out.append(
                f'static const entry {entry} = {{.name = "{r.name}", .{field} ='
                f" api_{r.runs or r.name}{known}{called}{node}{inplace}{numpys}}};"
            )
            for method in (False, True):
                if r.method if method else r.function:
                    f = f"{'method' if method else 'function'}_{r.name}"
                    out.append(f"CALL({f}, {entry}, {'s' if method else 'NULL'})")
                    forms[r.name, method] = f
        for method in (False, True):
            if r.method if method else r.function:
                text = c_string(signature(r, method) + doc(r))
                table[method].append(f'    {{"{r.name}", AS({forms[r.c_name(), method]}), FAST,\n        {text}}},')
    for method, name in ((False, "api_functions"), (True, "api_methods")):
        out += ["", f"PyMethodDef {name}[] = {{", *table[method], "    {0}", "};"]
    return out


def stub_type(text: str) -> str:
    return SHADOWED.sub(r"_\1", text)


def stub_def(r: Api, method: bool) -> list[str]:
    """The lines of one definition; two where the last positional arguments are also taken as one sequence."""
    first = ["self"] if method else []
    lists = [r.params[len(first) :]]
    for i, p in enumerate(lists[0]):
        if p.variadic and p.kind() == "SIZE":
            forms = replace(p, annotation="int"), replace(p, variadic=False, optional=False)
            lists = [[*lists[0][:i], form, *lists[0][i + 1 :]] for form in forms]
    return [
        f"def {r.name}({argument_list(first, with_out(r, method, params), True)}) -> {stub_type(r.returns)}: ..."
        for params in lists
    ]


def stub_defs(rows: list[Api], method: bool, indent: str) -> list[str]:
    """Every function, or every method; where a name has several forms they are overloads."""
    named: dict[str, list[Api]] = {}
    for r in rows:
        if r.method if method else r.function:
            named.setdefault(r.name, []).append(r)
    out = []
    for forms in named.values():
        lines = [line for r in forms if r.overload or len(forms) == 1 for line in stub_def(r, method)]
        for line in lines:
            out += [f"{indent}@overload"] * (len(lines) > 1) + [indent + line]
    return out


def stub_lines(rows: list[Api]) -> list[str]:
    head, rest = (ROOT / STUB_HEAD).read_text().split("    # generated: methods\n")
    return [*head.splitlines(), *stub_defs(rows, True, "    "), *rest.splitlines(), "", *stub_defs(rows, False, "")]


def package_lines(stub: list[str]) -> list[str]:
    """The package's own text with the list of the extension's names: type checkers read only a literal."""
    names: set[str] = set()
    for node in ast.parse("\n".join(stub)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {ast.unparse(t) for t in (node.targets if isinstance(node, ast.Assign) else [node.target])}
    public = ", ".join(f'"{n}"' for n in sorted(names) if not n.startswith("_"))
    lines = textwrap.fill(public + ",", 116, initial_indent="    ", subsequent_indent="    ")
    return NAMES.sub(lambda found: f"{found[1]}{lines}\n]", (ROOT / PACKAGE).read_text()).splitlines()


def main() -> int:
    rows = read_all()
    if sys.argv[1:2] == ["--tables"]:
        Path(sys.argv[2]).write_text("\n".join(c_lines([r for r in rows if not r.overload])) + "\n")
        return 0
    stub = stub_lines(rows)
    files = {"python/chainrule/_core.pyi": stub, PACKAGE: package_lines(stub)}
    texts = {f: "\n".join(lines) + "\n" for f, lines in files.items()}
    stale = [f for f, text in texts.items() if not (ROOT / f).exists() or (ROOT / f).read_text() != text]
    for f in stale:
        if "--check" in sys.argv[1:]:
            print(f"{f} is not current: run tools/gen_python.py", file=sys.stderr)
        else:
            Path(ROOT / f).write_text(texts[f])
            print(f"wrote {f}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
