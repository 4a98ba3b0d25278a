#!/usr/bin/env python3
"""Writes the functions of the JavaScript package from the tables of Python's (python/src/api.def, src/ops/ops.def)
and the prototypes of include/chainrule/.

use: tools/gen_web.py            write the files that changed: web/ops.gen.js, web/ops.gen.d.ts, web/exports*.gen.txt
     tools/gen_web.py --check    write nothing; name the files that are not current and exit with 1
     tools/gen_web.py --without  print the rows that have no function here, each with the reason

A row of Python whose parameters are, in this order, those of the C function of the same name becomes a function
f(input, ...) and, where Python has it, a method.  Parameters that only Python has (out, dtype) are left out.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace

import gen_ops
import gen_python
from gen_python import Api, Parameter

ROOT = gen_ops.ROOT
HEADERS = ("include/chainrule.h", "include/chainrule/ops.h", "include/chainrule/nn.h")
PROTOTYPE = re.compile(r"^(cr_tensor \*|[\w ]+?[ *]+)(cr_\w+)\(([^;{]*)\);", re.MULTILINE)
CALLS = re.compile(r'(?:\bc\.|\bcall\(\s*")(cr_\w+|malloc|free)\b')  # in web/*.js
WHOLE = re.compile(r"cr_(lm|chat|cache|dataset)_")  # functions that the small module has not
C_NAMES = {  # Python's name -> C's, where they differ
    "amax": "max",
    "amin": "min",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}
BY_HAND = {
    "tensor",
    "arange",
    "item",
    "max",
    "min",
    "clamp",
    "clip",
    "var",
    "std",
    "split",
    "einsum",
    "logit",
}  # tensor.js
# Type of a C parameter -> its code in the tables, and the kinds of Python's arguments that become it.
CODES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"(const )?cr_tensor \*\w+", "t", ("TENSOR", "OPERAND")),
    (r"int \w+, const int64_t \*\w+", "l", ("SIZE",)),
    (r"int \w+, const cr_tensor \*const \*\w+", "T", ("TENSORS",)),
    (r"int \w+", "i", ("INT",)),
    (r"int64_t \w+", "n", ("INT",)),
    (r"double \w+", "d", ("FLOAT", "NUMBER", "OPERAND")),
    (r"bool \w+", "b", ("BOOL",)),
    (r"cr_dtype \w+", "e", ("DTYPE",)),
    (r"const char \*\w+", "s", ("STR",)),
    (r"cr_generator \*\w+", "g", ("GENERATOR",)),
    (r"const cr_device \*\w+", "v", ()),
    (r"cr_tensor \*\*\w+", "o", ()),
)
TYPES = {
    "t": "Tensor",
    "l": "number[]",
    "L": "number[]",
    "T": "Tensor[]",
    "i": "number",
    "n": "number",
    "d": "number",
    "b": "boolean",
    "e": "DType",
    "s": "string",
    "g": "Generator",
}
HIDDEN = "vo"  # codes that no argument has
RESERVED = {"with", "default", "function", "var", "new", "delete", "in", "from_"}


@dataclass(frozen=True)
class Op:
    name: str
    c: str
    codes: str
    params: list[Parameter]  # of the codes but v and o
    doc: str
    function: bool
    method: bool
    inplace: bool
    row: str = ""  # of ops.def, for its in-place form
    truth: bool = False  # the result is a boolean


def codes_of(parameters: str) -> str | None:
    """The codes of a prototype's parameters; None: one is of another type."""
    left, codes = " ".join(parameters.split()), ""
    while left:
        for pattern, code, _ in sorted(CODES, key=lambda row: -len(row[0])):
            if found := re.match(pattern + r"(, |$)", left):
                codes += code
                left = left[found.end() :]
                break
        else:
            return None
    return codes


def prototypes() -> dict[str, tuple[str, str | None]]:
    """C name -> its result and the codes of its parameters."""
    found = {}
    for name in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (ROOT / name).read_text(), flags=re.DOTALL)
        for result, c, parameters in PROTOTYPE.findall(text):
            found[c] = (result.strip(), codes_of(parameters))
    return found


def shown(codes: str) -> list[str]:
    """The codes that arguments have."""
    return [code for code in codes if code not in HIDDEN]


def value(p: Parameter) -> str:
    """The default in JavaScript; "": the argument is required."""
    if p.default is None:
        return "null" if p.optional and not p.variadic else ""
    text = {"True": "true", "False": "false", "float('inf')": "Infinity"}.get(p.default, p.default)
    return text.replace("'", '"')


def pair(row: Api, codes: str) -> list[Parameter] | str:
    """Python's parameter of each code; or why there is none."""
    kinds = {code: kinds for _, code, kinds in CODES}
    left, chosen = list(row.params), []
    for code in codes:
        if code in HIDDEN:
            continue
        at = next((i for i, p in enumerate(left) if p.kind() in kinds[code]), None)
        if at is None:
            return f"C has one more parameter ({code})"
        skipped = [p for p in left[:at] if not p.keyword and not p.optional and p.default is None]
        if skipped:
            return f"C has no {skipped[0].name}"
        chosen.append(left[at])
        left = left[at + 1 :] if code not in "eg" else left[:at] + left[at + 1 :]
    absent = [p for p, code in zip(chosen, shown(codes), strict=True) if code in "ndi" and value(p) == "null"]
    if absent:
        return f"C always has {absent[0].name}"
    needed = [p for p in left if not p.optional and p.default is None and not p.variadic]
    return f"C has no {needed[0].name}" if needed else chosen


def read_ops() -> tuple[list[Op], list[str]]:
    known, ops, without = prototypes(), [], []
    for row in gen_python.read_all():
        if row.overload or row.alias or row.name.startswith("_") or row.name in BY_HAND:
            continue
        if row.inplace and row.body:
            own = "".join("d" if p.kind() == "FLOAT" else "t" for p in row.params)
            named = re.findall(r'api_in_place\("(\w+)"', row.body)[0]
            ops.append(Op(row.name, "", own, row.params, row.doc, False, True, True, named))
            continue
        plain = row.c_name()
        c = "cr_" + C_NAMES.get(plain, plain)
        if c not in known:
            if row.inplace and "cr_" + plain[:-1] in known:
                without.append(f"{row.name}: in place")
            else:
                without.append(f"{row.name}: no {c}")
            continue
        result, codes = known[c]
        if codes is None or result != "cr_tensor *":
            without.append(f"{row.name}: {c} has parameters or results of other types")
            continue
        params = pair(row, codes)
        if isinstance(params, str):
            without.append(f"{row.name}: {params}")
            continue
        spread = iter(params)
        codes = "".join(x if x in HIDDEN else "L" if next(spread).variadic and x == "l" else x for x in codes)
        ops.append(
            Op(row.name, c, codes, params, row.doc, row.function, row.method, row.inplace, truth=row.returns == "bool")
        )
    unique: dict[str, Op] = {}
    for op in ops:  # a function and a method may be two rows
        before = unique.get(op.name, op)
        before = op if "L" in op.codes else before
        both = (unique.get(op.name, op), op)
        unique[op.name] = replace(before, function=any(x.function for x in both), method=any(x.method for x in both))
    return sorted(unique.values(), key=lambda op: op.name), without


def js_lines(ops: list[Op]) -> list[str]:
    out = [
        "// ops.gen.js - the functions that tensors have in common with Python; tools/gen_web.py writes it.",
        "// name: [C function, codes of its parameters, names of the arguments, their defaults (undefined: none),",
        "//        f: function, m: method, i: in place, b: gives a boolean,",
        "//        for in-place forms without a C function the row of ops.def]",
        "const none = undefined;",
        "export const ops = {",
    ]
    for op in ops:
        names = ", ".join(f'"{p.name}"' for p in op.params)
        defaults = ", ".join(value(p) or "none" for p in op.params)
        flags = ("f" if op.function else "") + ("m" if op.method else "") + ("i" if op.inplace else "")
        flags += "b" if op.truth else ""
        row = f', "{op.row}"' if op.row else ""
        out.append(f'    {op.name}: ["{op.c}", "{op.codes}", [{names}], [{defaults}], "{flags}"{row}],')
    return [*out, "};"]


def type_of(p: Parameter, code: str) -> str:
    text = "Tensor | number | boolean" if code == "t" and p.kind() == "OPERAND" else TYPES[code]
    if code == "l" and p.annotation == "Dims":
        text = "number | number[]"
    return text + " | null" if value(p) == "null" else text


def declaration(op: Op, method: bool) -> list[str]:
    given = list(zip(op.params, shown(op.codes), strict=True))[1 if method else 0 :]
    parts, optional = [], False
    for p, code in given:
        optional = optional or value(p) != ""
        name = p.name + "_" if p.name in RESERVED else p.name
        parts.append(f"{name}{'?' if optional else ''}: {type_of(p, code)}")
    spread = given and given[0][1] == "L"
    named = "; ".join(
        f"{p.name}{'?' if value(p) else ''}: {type_of(p, code)}" for p, code in given if value(p) or p.keyword
    )
    outs = op.codes.count("o")
    result = "boolean" if op.truth else "Tensor" if not outs else f"[{', '.join(['Tensor'] * (outs + 1))}]"
    required = [text for text in parts if "?:" not in text]
    lines = [f"    /** {op.doc.splitlines()[0]} */"] if op.doc else []
    lines.append(f"    {op.name}({', '.join(parts)}): {result};")
    if spread:
        lines.append(f"    {op.name}(...{given[0][0].name}: number[]): {result};")
    if named:
        lines.append(f"    {op.name}({', '.join([*required, f'options: {{ {named} }}'])}): {result};")
    return lines


def dts_lines(ops: list[Op]) -> list[str]:
    out = [
        "// ops.gen.d.ts - types of ops.gen.js; tools/gen_web.py writes it.",
        'import type { DType, Generator, Tensor } from "./index.js";',
        "",
        "/** Functions of tensors, by PyTorch's names.  The last argument may be an object of named arguments. */",
        "export interface Functions {",
    ]
    for op in ops:
        out += declaration(op, False) if op.function else []
    out += ["}", "", "/** The same as methods of a tensor. */", "export interface Methods {"]
    for op in ops:
        out += declaration(op, True) if op.method else []
    return [*out, "}"]


def export_lines(ops: list[Op], *, small: bool) -> list[str]:
    names = {op.c for op in ops if op.c} | {"malloc", "free"}
    for path in (ROOT / "web").glob("*.js"):
        if ".gen." not in path.name:
            names |= set(CALLS.findall(path.read_text()))
    kept = [name for name in sorted(names) if not (small and WHOLE.match(name))]
    return [f"_{name}" for name in kept]  # and those of web/glue.c, which says so itself


def main() -> int:
    ops, without = read_ops()
    if "--without" in sys.argv:
        print("\n".join(without), f"\n{len(ops)} functions", sep="\n")
        return 0
    stale = []
    for name, lines in (
        ("web/ops.gen.js", js_lines(ops)),
        ("web/ops.gen.d.ts", dts_lines(ops)),
        ("web/exports.gen.txt", export_lines(ops, small=False)),
        ("web/exports.small.gen.txt", export_lines(ops, small=True)),
    ):
        text, path = "\n".join(lines) + "\n", ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
            print(f"wrote {name}")
    if stale and "--check" in sys.argv:
        print(f"not current (run tools/gen_web.py): {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
