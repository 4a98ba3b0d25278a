#!/usr/bin/env python3
"""Writes everything that follows from src/ops/ops.def: programs, gradients, CPU kernels,
declarations, tests, documentation.

use: tools/gen_ops.py            write the files that changed
     tools/gen_ops.py --check    write nothing; name the files that are not current and exit with 1

A row becomes a Row, its expressions become Programs (numbered values, equal ones shared), and each
file is one function of the rows."""

from __future__ import annotations

import ast
import math
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "src/ops/ops.def"
DEFAULT_INPUTS = {"UNARY": ["x"], "BINARY": ["a", "b"], "TERNARY": ["c", "a", "b"]}
RULES = {
    "FLOATS": "CR_RULE_FLOAT",
    "NUMBER": "CR_RULE_NUMBER",
    "ANY": "CR_RULE_ANY",
    "BITS": "CR_RULE_BITS",
    "TEST": "CR_RULE_TEST",
    "WHERE": "CR_RULE_WHERE",
}
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "ADD",
    ast.Sub: "SUB",
    ast.Mult: "MUL",
    ast.Div: "DIV",
    ast.Lt: "LT",
    ast.LtE: "LE",
    ast.Gt: "GT",
    ast.GtE: "GE",
    ast.Eq: "EQ",
    ast.NotEq: "NE",
}
C_OPERATORS: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
WIDTH = 130
# Functions and updates whose compiled loops the browser edition has, where every byte is downloaded.  The others run by
# their instructions there, with the same bits.
LOOPS = set(
    "div maximum minimum clamp abs square reciprocal sqrt rsqrt pow where lerp log1p sin cos tanh erf sigmoid relu"
    " leaky_relu elu gelu gelu_tanh silu swiglu geglu softplus logsigmoid sgd sgd_momentum sgd_nesterov adam adamw"
    " lion rmsprop scale uniform normal rotate".split()
)
HEADER_WIDTH, HEADER_DOC, HEADER_BELOW = 100, 60, 28  # columns of the header: its width, a doc beside, a doc below


class BadRow(Exception):
    """A row that cannot be understood; says the line."""

    def __init__(self, node: ast.AST, message: str) -> None:
        super().__init__(f"{SOURCE}:{getattr(node, 'lineno', 0)}: {message}")


@dataclass(frozen=True)
class Primitive:
    name: str
    arity: int
    doc: str
    c: str  # over floats, in C and CUDA C; "": integers only
    wgsl: str
    vector: bool  # f64 runs vd_name on the cpu
    row: bool  # a row of ops.def is exactly this; else only the programs of plans have it


@dataclass(frozen=True)
class Row:
    """One elementwise function, as it stands in ops.def."""

    name: str
    inputs: list[str]
    params: dict[str, float]  # name -> PyTorch's default
    rule: str
    value: ast.expr
    grads: list[ast.expr | None]  # of each input; None: there is none
    low: float
    high: float
    doc: str
    lets: dict[str, ast.expr]
    group: str
    fast: ast.expr | None  # a second gradient of the first input


@dataclass(frozen=True)
class Update:
    """One in-place rule with several results, as it stands in ops.def."""

    name: str
    inputs: list[str]
    params: list[str]
    results: list[ast.expr]
    doc: str
    lets: dict[str, ast.expr]
    numbers: list[ast.expr] = field(
        default_factory=list
    )  # the params from an optimizer's options; none: they are the options
    mirrored: bool = False  # has a twin that also writes a copy of the first result

    def options(self) -> list[str]:
        used = (n.id for e in self.numbers for n in ast.walk(e) if isinstance(n, ast.Name) and n.id != "sqrt")
        return list(dict.fromkeys(used)) if self.numbers else self.params


Key = tuple[object, ...]  # ("in", 0), ("param", 0), ("const", 0.5), ("MUL", Key, Key)


@dataclass
class Program:
    """A row's value, one of its gradients, or an update in single assignment, ready to be written down."""

    name: str
    doc: str
    rule: str
    inputs: list[str]  # names of what it reads, in order
    sources: list[int]  # the same as numbers: row inputs, then y, then g
    params: list[str]
    consts: list[float]
    instrs: list[tuple[str, list[int]]]
    outs: list[int]
    fused: int = -1

    def value_names(self) -> list[str]:
        constants = [f"k{i}" for i in range(len(self.consts))]
        return self.inputs + self.params + constants + [f"v{i}" for i in range(len(self.instrs))]


@dataclass
class Compiled:
    """A row with its programs; grads[i] is None where no gradient flows."""

    row: Row
    value: Program
    grads: list[Program | None] = field(default_factory=list)
    fast: Program | None = None

    def programs(self) -> Iterator[Program]:
        yield self.value
        yield from (g for g in [*self.grads, self.fast] if g)


# ---- reading


def read_source(text: str) -> tuple[list[Primitive], list[Row], list[Update]]:
    primitives: list[Primitive] = []
    rows: list[Row] = []
    updates: list[Update] = []
    group = ""
    for statement in ast.parse(text).body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise BadRow(statement, "expected a row such as UNARY(...)")
        kind = call.func.id
        if kind == "PRIMITIVE":
            primitives.append(read_primitive(call))
        elif kind == "GROUP":
            group = string(call.args[0])
        elif kind == "DEFINE":
            read_define(call)
        elif kind in DEFAULT_INPUTS:
            rows.append(read_row(kind, call, group))
        elif kind == "UPDATE":
            updates.append(read_update(call))
        elif kind in ("OPTIONS", "MIRRORED"):
            updates = read_marks(call, kind, updates)
        else:
            raise BadRow(call, f"unknown kind of row {kind}")
        named = [r.name for r in rows] + [u.name for u in updates]
        if len(set(named)) < len(named):
            raise BadRow(call, f"a second row with the name of this one: {ast.unparse(call.args[0])}")
    return primitives, rows, updates


def read_primitive(call: ast.Call) -> Primitive:
    name, arity, doc = name_of(call.args[0]), int(number(call.args[1])), string(call.args[2])
    given = {k.arg: k.value for k in call.keywords}
    if "floats" in given:
        return Primitive(name, arity, doc, "", "", False, True)
    operands = ", ".join(("$a", "$b", "$c")[:arity])
    texts = {"c": f"{name.lower()}$f({operands})", "wgsl": f"f_{name.lower()}({operands})"}
    for language in texts:
        found = given.get(language, given.get("text"))
        if found is not None:
            texts[language] = string(found)
    return Primitive(name, arity, doc, texts["c"], texts["wgsl"], "f64" in given, "row" not in given)


def read_row(kind: str, call: ast.Call, group: str) -> Row:
    count = len(DEFAULT_INPUTS[kind])
    if len(call.args) != 6 + count:
        raise BadRow(call, f"{kind} takes {6 + count} arguments, got {len(call.args)}")
    head, rule, value, *grads = call.args[: 3 + count]
    low, high, doc = call.args[3 + count :]
    inputs, params = DEFAULT_INPUTS[kind], {}
    if isinstance(head, ast.Call):
        inputs = [name_of(a) for a in head.args] or inputs
        params = {k.arg: number(k.value) for k in head.keywords if k.arg}
        head = head.func
    if len(inputs) != count:
        raise BadRow(call, f"{kind} has {count} inputs, got {inputs}")
    if name_of(rule) not in RULES:
        raise BadRow(rule, f"dtypes are one of {', '.join(RULES)}")
    lets = {k.arg: k.value for k in call.keywords if k.arg}
    fast = lets.pop("fast", None)
    none_or = [None if isinstance(g, ast.Name) and g.id == "NONE" else g for g in grads]
    return Row(
        name_of(head),
        inputs,
        params,
        name_of(rule),
        value,
        none_or,
        number(low),
        number(high),
        string(doc),
        lets,
        group,
        fast,
    )


def read_update(call: ast.Call) -> Update:
    if len(call.args) != 3:
        raise BadRow(call, f"UPDATE takes 3 arguments, got {len(call.args)}")
    head, results, doc = call.args
    lets = {k.arg: k.value for k in call.keywords if k.arg}
    match head, results:
        case ast.Call(func=ast.Subscript(value=name, slice=ast.Tuple(elts=params)), args=inputs), ast.Tuple(
            elts=values
        ):
            return Update(
                name_of(name), [name_of(i) for i in inputs], [name_of(p) for p in params], values, string(doc), lets
            )
        case ast.Call(func=ast.Name() as name, args=inputs), ast.Tuple(elts=values):
            return Update(name_of(name), [name_of(i) for i in inputs], [], values, string(doc), lets)
    raise BadRow(call, "expected UPDATE(name(inputs), (results), ...) or UPDATE(name[params](inputs), (results), ...)")


def read_marks(call: ast.Call, kind: str, updates: list[Update]) -> list[Update]:
    """The updates with what OPTIONS or MIRRORED says about some of them."""
    names, numbers = call.args, []
    if kind == "OPTIONS":
        *names, last = call.args
        numbers = last.elts if isinstance(last, ast.Tuple) else [last]
    marked = {name_of(n) for n in names}
    for u in updates:
        if u.name in marked and numbers and len(numbers) != len(u.params):
            raise BadRow(call, f"{u.name} has {len(u.params)} params, got {len(numbers)}")
    if missing := marked - {u.name for u in updates}:
        raise BadRow(call, f"no update is named {', '.join(sorted(missing))}")
    change: dict[str, Any] = {"numbers": numbers} if numbers else {"mirrored": True}
    return [replace(u, **change) if u.name in marked else u for u in updates]


def name_of(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise BadRow(node, "expected a name")
    return node.id


def string(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise BadRow(node, "expected a string")
    return node.value


def number(node: ast.expr) -> float:
    """The value of products and quotients of numbers, pi, sqrt and log."""
    match node:
        case ast.Constant(value=int() | float() as v):
            return float(v)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -number(x)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return number(a) * number(b)
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return number(a) / number(b)
        case ast.Name(id="pi"):
            return math.pi
        case ast.Call(func=ast.Name(id="sqrt" | "log" as f), args=[x]):
            return math.sqrt(number(x)) if f == "sqrt" else math.log(number(x))
    raise BadRow(node, "expected a number")


# ---- expressions to programs


@dataclass(frozen=True)
class Define:
    """A named part of expressions, as it stands in ops.def."""

    inputs: list[str]
    body: ast.expr
    lets: dict[str, ast.expr]


DEFINES: dict[str, Define] = {}


def read_define(call: ast.Call) -> None:
    match call.args:
        case [ast.Call(func=name, args=inputs), body]:
            lets = {k.arg: k.value for k in call.keywords if k.arg}
            DEFINES[name_of(name)] = Define([name_of(i) for i in inputs], body, lets)
        case _:
            raise BadRow(call, "expected DEFINE(NAME(inputs), expression)")


def expand(define: Define, operands: list[Key], arity: dict[str, int]) -> Key:
    """The body of a DEFINE over operands; a let may use those before it."""
    names = dict(zip(define.inputs, operands, strict=True))
    for let, body in define.lets.items():
        names[let] = evaluate(body, names, arity)
    return evaluate(define.body, names, arity)


def polynomial(x: Key, coefficients: list[float]) -> Key:
    """Horner's scheme, the lowest power first."""
    y: Key = ("const", coefficients[-1])
    for c in reversed(coefficients[:-1]):
        y = ("ADD", ("MUL", y, x), ("const", c))
    return y


def evaluate(node: ast.expr, names: dict[str, Key], arity: dict[str, int]) -> Key:
    """An expression as nested keys; equal subexpressions are equal keys."""

    def go(n: ast.expr) -> Key:
        match n:
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name):
                raise BadRow(n, f"unknown name {name}: here are {', '.join(names)}")
            case ast.Call(func=ast.Name(id="K"), args=[x]):
                return ("const", number(x))
            case ast.Call(func=ast.Name(id="POLY"), args=[x, *coefficients]) if coefficients:
                return polynomial(go(x), [number(c) for c in coefficients])
            case ast.Call(func=ast.Name(id="D"), args=[ast.Name(id=f), x]) if f in DEFINES:
                match DEFINES[f].body:
                    case ast.Call(func=ast.Name(id="POLY"), args=[_, _, *rest]):
                        return polynomial(go(x), [i * number(c) for i, c in enumerate(rest, 1)])
                raise BadRow(n, f"{f} is not a polynomial")
            case ast.Call(func=ast.Name(id=f), args=args) if f in DEFINES:
                if len(args) != len(DEFINES[f].inputs):
                    raise BadRow(n, f"{f} takes {len(DEFINES[f].inputs)} operands")
                return expand(DEFINES[f], [go(a) for a in args], arity)
            case ast.Call(func=ast.Name(id=f), args=args) if f in arity:
                if len(args) != arity[f]:
                    raise BadRow(n, f"{f} takes {arity[f]} operands")
                return (f, *map(go, args))
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return ("NEG", go(x))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in OPERATORS:
                return (OPERATORS[type(op)], go(a), go(b))
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in OPERATORS:
                return (OPERATORS[type(op)], go(a), go(b))
        raise BadRow(n, f"not in the vocabulary: {ast.unparse(n)}")

    return go(node)


def leaves(key: Key, kind: str) -> Iterator[Key]:
    if key[0] == kind:
        yield key
    elif key[0] not in ("in", "param", "const"):
        for operand in key[1:]:
            assert isinstance(operand, tuple)
            yield from leaves(operand, kind)


def linearize(roots: list[Key], first: dict[Key, int]) -> tuple[list[tuple[str, list[int]]], list[int]]:
    """Instructions in order of need.  first: numbers of the inputs, params and constants."""
    number_of = dict(first)
    instrs: list[tuple[str, list[int]]] = []

    def visit(key: Key) -> int:
        if key not in number_of:
            operands = [visit(k) for k in key[1:] if isinstance(k, tuple)]
            number_of[key] = len(first) + len(instrs)
            instrs.append((str(key[0]), operands))
        return number_of[key]

    return instrs, [visit(root) for root in roots]


def make_program(row: Row, expression: ast.expr, gradient_of: str | None, arity: dict[str, int]) -> Program:
    labels = row.inputs + (["y", "g"] if gradient_of else [])
    names: dict[str, Key] = {name: ("in", i) for i, name in enumerate(labels)}
    names |= {name: ("param", i) for i, name in enumerate(row.params)}
    for let, body in row.lets.items():
        names[let] = evaluate(body, names, arity)
    root = evaluate(expression, names, arity)
    sources = sorted({int(str(k[1])) for k in leaves(root, "in")})
    if gradient_of is None:
        sources = list(range(len(row.inputs)))
    elif not sources:  # a gradient of zeros still takes its shape from g
        sources = [len(row.inputs) + 1]
    consts = list(dict.fromkeys(leaves(root, "const")))
    keys = [("in", i) for i in sources] + [("param", i) for i in range(len(row.params))] + consts
    instrs, outs = linearize([root], {k: i for i, k in enumerate(keys)})
    name = row.name if gradient_of is None else f"{row.name}_bwd"
    doc = row.doc if gradient_of is None else f"gradient of {row.name} with respect to {gradient_of}"
    rule = RULES[row.rule] if gradient_of is None else "CR_RULE_FLOAT"
    return Program(
        name,
        doc,
        rule,
        [labels[i] for i in sources],
        sources,
        list(row.params),
        [float(str(k[1])) for k in consts],
        instrs,
        outs,
    )


def compile_rows(primitives: list[Primitive], rows: list[Row]) -> list[Compiled]:
    arity = {p.name: p.arity for p in primitives}
    compiled, fused = [], 0
    for row in rows:
        c = Compiled(row, make_program(row, row.value, None, arity))
        for name, g in zip(row.inputs, row.grads, strict=True):
            c.grads.append(make_program(row, g, name, arity) if g else None)
        c.fast = make_program(row, row.fast, row.inputs[0], arity) if row.fast else None
        for p in c.programs():
            rare = c.fast and p is c.grads[0]  # f64, and second derivatives
            if p.instrs and (len(p.instrs) > 1 or p.params or p.consts) and row.rule != "BITS" and not rare:
                p.fused, fused = fused, fused + 1
        compiled.append(c)
    return compiled


def compile_updates(primitives: list[Primitive], updates: list[Update], fused: int) -> list[Program]:
    """The first compiled loop gets the number `fused`."""
    arity = {p.name: p.arity for p in primitives}
    programs: list[Program] = []
    for u in updates:
        names: dict[str, Key] = {name: ("in", i) for i, name in enumerate(u.inputs)}
        names |= {name: ("param", i) for i, name in enumerate(u.params)}
        for let, body in u.lets.items():
            names[let] = evaluate(body, names, arity)
        roots = [evaluate(r, names, arity) for r in u.results]
        consts = list(dict.fromkeys(k for root in roots for k in leaves(root, "const")))
        keys = [names[x] for x in [*u.inputs, *u.params]] + consts
        instrs, outs = linearize(roots, {k: i for i, k in enumerate(keys)})
        programs.append(
            Program(
                u.name,
                u.doc,
                "CR_RULE_FLOAT",
                u.inputs,
                list(range(len(u.inputs))),
                u.params,
                [float(str(k[1])) for k in consts],
                instrs,
                outs,
                fused + len(programs),
            )
        )
    return programs


# ---- writing


def banner(file: str, what: str) -> list[str]:
    return [f"/* {Path(file).name} - {what}", f" * Generated by tools/gen_ops.py from {SOURCE}: edit that. */"]


def wrap(items: list[str], indent: str = "    ", end: str = "") -> list[str]:
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) > WIDTH - 12:
            lines.append(line.rstrip())
            line = indent
        line += item + ", "
    lines.append(line.rstrip())
    return [f"{text:<{WIDTH - 10}}{end}".rstrip() for text in lines]


def opcodes_h(primitives: list[Primitive]) -> list[str]:
    out = banner("opcodes.gen.h", "the instructions of elementwise programs.")
    out += ["#ifndef CR_OPCODES_GEN_H", "#define CR_OPCODES_GEN_H", ""]
    out += [
        "/* cr_instr's operands a, b, c in order; values have one dtype, the walk's `compute` */",
        "typedef enum cr_opcode {",
    ]
    out += [f"    CR_OP_{p.name},".ljust(22) + f"/* {p.arity}: {p.doc} */" for p in primitives]
    out += ["    CR_OP_COUNT", "} cr_opcode;", ""]
    out += [
        "/* for  static const char *const names[CR_OP_COUNT] = CR_OPCODE_NAMES;  and the number of operands likewise */"
    ]
    for name, items in (("NAMES", [f'"{p.name}"' for p in primitives]), ("ARITY", [str(p.arity) for p in primitives])):
        out += [f"#define CR_OPCODE_{name} {{ \\", *wrap(items, end="\\"), "}"]
    out += [
        "",
        "/* The instructions over floats, X(NAME, name, operands, C over f64 values a, b, c, CUDA C, WGSL,",
        " * SCALAR or VECTOR: how the cpu runs f64) */",
        "#define CR_FLOAT_OPCODES(X) \\",
    ]
    rows = []
    for p in primitives:
        if p.c:
            scalar = p.c.replace("$f", "").replace("$", "").replace("(C)", "(double)")
            how = "VECTOR" if p.vector else "SCALAR"
            rows.append(f'    X({p.name}, {p.name.lower()}, {p.arity}, {scalar}, "{p.c}", "{p.wgsl}", {how})')
    width = max(map(len, rows)) + 1
    out += [f"{row:<{width}}\\" for row in rows[:-1]] + [rows[-1]]
    return [*out, "", "#endif"]


def rows_h(compiled: list[Compiled], updates: list[Update]) -> list[str]:
    out = banner("rows.gen.h", "numbers of the elementwise functions in cr_rows.")
    out += ["#ifndef CR_ROWS_GEN_H", "#define CR_ROWS_GEN_H", "", "typedef enum cr_row {"]
    out += wrap([f"CR_ROW_{c.row.name.upper()}" for c in compiled] + ["CR_ROW_COUNT"])
    out[-1] = out[-1].rstrip(",")
    most = max(len(p.value_names()) for c in compiled for p in c.programs())
    return [
        *out,
        "} cr_row;",
        "",
        f"enum {{ CR_ROW_VALUES = {most} }};                     /* of the largest row */",
        (
            f"enum {{ CR_UPDATE_COUNT = {len(updates) + sum(u.mirrored for u in updates)} }};                   /* with"
            " twins */"
        ),
        "",
        "#endif",
    ]


def structured_h() -> list[str]:
    """The structured ops: each file of src/ops/ that has a line `const cr_op cr_op_NAME = {`."""
    found: list[str] = []
    for file in sorted((ROOT / "src/ops").glob("*.c")):
        found += re.findall(r"^const cr_op cr_op_(\w+) = \{", file.read_text(encoding="utf-8"), re.MULTILINE)
    found.remove("elementwise")  # apply.c: not one op, but all rows of ops.def
    out = ["/* structured.gen.h - the structured ops of src/ops/.", " * Generated by tools/gen_ops.py. */"]
    rows = [f"    X({name}) \\" for name in found]
    return [*out, "#define CR_STRUCTURED_OPS(X) \\", *rows[:-1], rows[-1].removesuffix(" \\")]


def is_rare(p: Program) -> bool:
    return p.name.removesuffix("_bwd").removesuffix("_copy") not in LOOPS


def initializer(p: Program, label: str, differentiable: bool, grad: str, fast: str = "NULL") -> str:
    consts = f"{label}_k" if p.consts else "NULL"
    code = f"{label}_code" if p.instrs else "NULL"
    counts = f"{len(p.inputs)}, {len(p.params)}, {len(p.consts)}, {len(p.instrs)}, {len(p.outs)}"
    flag, outs = "true" if differentiable else "false", ", ".join(map(str, p.outs))
    loop = f"RARE({p.fused})" if p.fused >= 0 and is_rare(p) else str(p.fused)
    return (
        f'{{"{p.name}", DOC("{p.doc}"), {p.rule},\n        {counts}, {consts}, {code}, {{{outs}}}, {loop}, {flag},'
        f" {grad}, {fast}, -1, NULL}}"
    )


def tables(p: Program, label: str, expression: str) -> list[str]:
    """Constants and instructions of one program, under the expression that they come from."""
    names, base = p.value_names(), len(p.value_names()) - len(p.instrs)
    out = [f"/* {p.name}({', '.join(p.inputs + p.params)}) = {expression} */"]
    if p.consts:
        out.append(f"static const double {label}_k[] = {{{', '.join(map(repr, p.consts))}}};")
    if p.instrs:
        out.append(f"static const cr_instr {label}_code[] = {{")
        for i, (op, operands) in enumerate(p.instrs):
            text = f"    {{CR_OP_{op}, {', '.join(map(str, operands + [-1] * (3 - len(operands))))}}},"
            out.append(f"{text:<38}/* {names[base + i]} = {op.lower()} {' '.join(names[v] for v in operands)} */")
        out.append("};")
    return out


def c_number(node: ast.expr, options: list[str]) -> str:
    """An expression over options as C."""
    match node:
        case ast.BinOp(op=ast.Pow(), left=a, right=b):
            return f"pow({c_number(a, options)}, {c_number(b, options)})"
        case ast.BinOp(op=op, left=a, right=b) if type(op) in C_OPERATORS:
            return f"({c_number(a, options)} {C_OPERATORS[type(op)]} {c_number(b, options)})"
        case ast.Call(func=ast.Name(id="sqrt"), args=[a]):
            return f"sqrt({c_number(a, options)})"
        case ast.Name(id=name):
            return f"o[{options.index(name)}]"
    return repr(number(node))


def options_c(updates: list[Update]) -> list[str]:
    """The tables that cr_program_params reads, in the order of cr_updates."""
    fills, table = [], []
    for u in updates:
        fill = "NULL"
        if u.numbers:
            fill = f"{u.name}_params"
            values = "; ".join(f"p[{i}] = {c_number(e, u.options())}" for i, e in enumerate(u.numbers))
            fills.append(f"static void {fill}(const double *o, double *p) {{ {values}; }}")
        names = ", ".join(f'"{name}"' for name in u.options()) or "NULL"
        table += [f"    {{{len(u.options())}, {{{names}}}, {fill}}},"] * (1 + u.mirrored)
    return [
        "/* o: options, p: params */",
        *fills,
        "",
        "const cr_update_options cr_options[CR_UPDATE_COUNT] = {",
        *table,
        "};",
        "",
    ]


def gradient_tables(c: Compiled) -> list[str]:
    out, entries = [], []
    fast = [(f"{c.row.name}_fast", c.row.fast, c.fast)] if c.fast else []
    exact = [(f"{c.row.name}_d{x}", g, p) for x, g, p in zip(c.row.inputs, c.row.grads, c.grads, strict=True)]
    for label, g, p in exact + fast:
        entries.append(
            f"{{&{label}, {len(p.sources)}, {{{', '.join(map(str, p.sources))}}}}}" if p else "{NULL, 0, {0}}"
        )
        if g and p:
            out += tables(p, label, ast.unparse(g))
            out.append(f"static cr_program {label} = {initializer(p, label, True, 'NULL')};")
    if out:
        out.append(f"static cr_gradient {c.row.name}_grad[] = {{{', '.join(entries[: len(exact)])}}};")
    if fast:
        entries = [entries[-1], *entries[1 : len(exact)]]
        out.append(f"static cr_gradient {c.row.name}_fast_grad[] = {{{', '.join(entries)}}};")
    return out


def is_primitive(c: Compiled, p: Primitive) -> bool:
    return c.value.instrs == [(p.name, list(range(p.arity)))] and len(c.value.inputs) == p.arity


def programs_c(
    compiled: list[Compiled], updates: list[Program], sources: list[Update], primitives: list[Primitive]
) -> list[str]:
    out = banner("programs.gen.c", "every elementwise function and its gradients as programs.")
    out += [
        '#include "programs.h"',
        "",
        "#include <math.h>",
        "",
        "/* RARE: the number of a compiled loop that the modules of the browser edition do not have. */",
        "#ifdef __EMSCRIPTEN__",
        "#define RARE(loop) (-1)",
        '#define DOC(text) ""',
        "#else",
        "#define RARE(loop) (loop)",
        "#define DOC(text) text",
        "#endif",
        "",
        "/* Values are numbered: inputs, params, constants (k), instructions (v). */",
    ]
    for c in compiled:
        out += ["", *tables(c.value, c.row.name, ast.unparse(c.row.value)), *gradient_tables(c)]
    for program, u in zip(updates, sources, strict=True):
        out += ["", *tables(program, program.name, update_text(u))]
    out += ["", "cr_program cr_rows[CR_ROW_COUNT] = {"]
    for c in compiled:
        flag, grad = (True, f"{c.row.name}_grad") if any(c.grads) else (False, "NULL")
        fast = f"{c.row.name}_fast_grad" if c.fast else "NULL"
        out.append(f"    [CR_ROW_{c.row.name.upper()}] = {initializer(c.value, c.row.name, flag, grad, fast)},")
    out += ["};", "", "cr_program cr_updates[CR_UPDATE_COUNT] = {"]
    for program, u in zip(updates, sources, strict=True):
        twin = replace(program, name=f"{program.name}_copy", outs=[*program.outs, program.outs[0]])
        out += [f"    {initializer(each, program.name, False, 'NULL')}," for each in (program, twin)[: 1 + u.mirrored]]
    out += [
        "};",
        "",
        *options_c(sources),
        "/* The row that is exactly one instruction: its gradients are the instruction's.  -1: only plans have it. */",
    ]
    out += ["const int16_t cr_opcode_row[CR_OP_COUNT] = {"]
    for p in primitives:
        rows = [c.row.name for c in compiled if is_primitive(c, p)]
        if not p.row:
            out.append(f"    [CR_OP_{p.name}] = -1,")
            continue
        if not rows:
            raise SystemExit(f"{SOURCE}: no row is exactly the primitive {p.name}")
        out.append(f"    [CR_OP_{p.name}] = CR_ROW_{rows[0].upper()},")
    return [*out, "};"]


def update_text(u: Update) -> str:
    """The rule as a program's text."""
    return "; ".join([*(f"{n} = {ast.unparse(v)}" for n, v in u.lets.items()), ", ".join(map(ast.unparse, u.results))])


def signature(row: Row) -> str:
    arguments = [f"const cr_tensor *{i}" for i in row.inputs] + [f"double {p}" for p in row.params]
    return f"cr_tensor *cr_{row.name}({', '.join(arguments)})"


def elementwise_c(compiled: list[Compiled]) -> list[str]:
    out = banner("elementwise.gen.c", "the public elementwise functions.")
    out += ['#include "programs.h"', ""]
    for c in compiled:
        inputs = f"(const cr_tensor *const[]){{{', '.join(c.row.inputs)}}}"
        params = f"(const double[]){{{', '.join(c.row.params)}}}" if c.row.params else "NULL"
        out += [
            f"{signature(c.row)} {{",
            f"    return cr_apply_program(&cr_rows[CR_ROW_{c.row.name.upper()}], {inputs}, {params});",
            "}",
        ]
    return out


def header_lines(compiled: list[Compiled]) -> list[str]:
    """Declarations with their doc beside them, or below them where the line would be too long."""
    out, group = [], ""
    for c in compiled:
        if c.row.group != group:
            out += [""] * bool(group) + [f"/* {c.row.group} */"]
            group = c.row.group
        call, doc = signature(c.row) + ";", f"/* {c.row.doc} */"
        pieces = call.replace(" ", "\0").replace(",\0", ", ")  # breaks between arguments only
        *before, last = (
            line.replace("\0", " ")
            for line in textwrap.wrap(pieces, HEADER_WIDTH, subsequent_indent=" " * (call.index("(") + 1))
        )
        beside = [n for n in (HEADER_DOC, len(last) + 1) if len(last) < n <= HEADER_WIDTH - len(doc)]
        if beside:
            out += [*before, f"{last:<{beside[0]}}{doc}"]
        else:
            below = textwrap.wrap(c.row.doc, HEADER_WIDTH - HEADER_BELOW - 6)
            out += [*before, last, " " * HEADER_BELOW + "/* " + f"\n{'':{HEADER_BELOW + 3}}".join(below) + " */"]
    return out


def fused_h(compiled: list[Compiled], updates: list[Program]) -> list[str]:
    out = banner("fused.gen.h", "programs of several instructions over f32 as compiled loops.")
    out[-1] = out[-1].removesuffix(" */")
    out += [
        " *",
        (
            " * The file that includes this defines  vec  (LANES floats), FETCH(p), STORE(p, v), v_k(number) and"
            " v_<instruction>: v_add, v_exp ..."
        ),
        " * A product that only one sum reads is computed with it: v_fma(a, b, c) is a b + c, v_fnma c - a b.",
        " * v_sel(c, a, b) is a where c is not 0; a comparison gives 0 or 1.  n is a multiple of LANES. */",
    ]
    entries = []
    for p in [*(p for c in compiled for p in c.programs() if p.fused >= 0), *updates]:
        out += ["", f"/* {p.doc} */" if p.name.endswith("_bwd") else f"/* {p.name}: {p.doc} */"]
        kind = "static inline void" if is_rare(p) else "static void"  # nobody calls it in the browser edition
        parameters = "float *const *out, const float *const *in, const float *params, int64_t n"
        out.append(f"{kind} fused_{p.fused}({parameters}) {{")
        out += fused_body(p) + ["}"]
        entries.append(f"RARE(fused_{p.fused})" if is_rare(p) else f"fused_{p.fused}")
    out += ["", "typedef void (*fused_fn)(float *const *out, const float *const *in, const float *params, int64_t n);"]
    out += ["#ifdef __EMSCRIPTEN__", "#define RARE(loop) NULL", "#else", "#define RARE(loop) loop", "#endif"]
    return [*out, "static const fused_fn fused_table[] = {", *wrap(entries), "};"]


def joined_operands(p: Program) -> dict[int, int]:
    """For instructions that are sums: which operand is a product that nothing else reads.  The two are one operation
    that rounds once.  cr_joined_operand of src/dev/program.h has the same rule."""
    read = Counter([v for _, operands in p.instrs for v in operands] + p.outs)
    first = len(p.value_names()) - len(p.instrs)
    found: dict[int, int] = {}
    for i, (op, operands) in enumerate(p.instrs):
        for k, v in enumerate(operands if op in ("ADD", "SUB") else []):
            if v >= first and p.instrs[v - first][0] == "MUL" and read[v] == 1:
                found.setdefault(i, k)
    return found


def fused_instructions(p: Program) -> Iterator[str]:
    names, joined = p.value_names(), joined_operands(p)
    first = len(names) - len(p.instrs)
    with_sums = {p.instrs[i][1][k] for i, k in joined.items()}
    for i, (op, operands) in enumerate(p.instrs):
        call = f"v_{op.lower()}({', '.join(names[v] for v in operands)})"
        if i in joined:
            k = joined[i]
            factors = ", ".join(names[v] for v in p.instrs[operands[k] - first][1])
            other = names[operands[1 - k]]
            if op == "ADD":
                call = f"v_fma({factors}, {other})"
            else:
                call = f"v_fnma({factors}, {other})" if k else f"v_fma({factors}, -{other})"
        if first + i not in with_sums:
            yield f"const vec {names[first + i]} = {call};"


def fused_body(p: Program) -> list[str]:
    names = p.value_names()
    used = {v for _, operands in p.instrs for v in operands}
    before = [f"{name} = v_k(params[{i}])" for i, name in enumerate(p.params) if len(p.inputs) + i in used]
    out = [] if before else ["    (void)params;"]
    before += [f"k{i} = v_k({k!r}f)" for i, k in enumerate(p.consts)]
    out += [f"    const vec {', '.join(before)};"] if before else []
    out.append("    for (int64_t i = 0; i < n; i += LANES) {")
    loads = [f"{name} = FETCH(in[{i}] + i)" for i, name in enumerate(p.inputs) if i in used]
    out.append(f"        const vec {', '.join(loads)};")
    out += [f"        {line}" for line in fused_instructions(p)]
    stores = [f"        STORE(out[{p.outs.index(v)}] + i, {names[v]});" for v in dict.fromkeys(p.outs)]
    return [*out, *stores, "    }"]


def fitted(r: Row) -> bool:
    nodes = (n for e in (r.value, *r.grads) if e is not None for n in ast.walk(e))
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in DEFINES for n in nodes)


def tests_h(compiled: list[Compiled]) -> list[str]:
    out = banner("elementwise_tests.gen.h", "what the tests need to know about every elementwise function.")
    out += [
        "#ifndef CR_ELEMENTWISE_TESTS_GEN_H",
        "#define CR_ELEMENTWISE_TESTS_GEN_H",
        "",
        '#include "programs.h"',
        "",
        "typedef struct elementwise_test {",
        "    const char *name; cr_row row; cr_rule rule;",
        "    int n_in, n_param;",
        "    double low, high, params[3];                    /* where inputs are drawn; PyTorch's defaults */",
        "    bool differentiable;                            /* in every input but a condition */",
        "    bool fitted;                                    /* made of a DEFINE, with polynomials fitted to it */",
        "    cr_tensor *(*call)(const cr_tensor *const *in, const double *p);    /* the public function */",
        "} elementwise_test;",
        "",
    ]
    for c in compiled:
        arguments = [f"in[{i}]" for i in range(len(c.row.inputs))] + [f"p[{i}]" for i in range(len(c.row.params))]
        unused = "" if c.row.params else "(void)p; "
        out.append(
            f"static cr_tensor *call_{c.row.name}(const cr_tensor *const *in, const double *p) "
            f"{{ {unused}return cr_{c.row.name}({', '.join(arguments)}); }}"
        )
    out += ["", "static const elementwise_test elementwise_tests[CR_ROW_COUNT] = {"]
    for c in compiled:
        r = c.row
        values = ", ".join(map(repr, r.params.values())) or "0"
        flag = "true" if all(c.grads[r.rule == "WHERE" :]) else "false"
        out.append(
            f'    {{"{r.name}", CR_ROW_{r.name.upper()}, {RULES[r.rule]}, {len(r.inputs)}, {len(r.params)}, {r.low:g},'
            f" {r.high:g}, {{{values}}}, {flag}, {'true' if fitted(r) else 'false'}, call_{r.name}}},"
        )
    return [*out, "};", "", "#endif"]


def docs_lines(compiled: list[Compiled], updates: list[Update]) -> list[str]:
    out, group = [], ""
    for c in compiled:
        r = c.row
        if r.group != group:
            group = r.group
            out += [
                "",
                f"## {group[0].upper() + group[1:]}",
                "",
                "| function | value | dtypes | gradient |",
                "|---|---|---|---|",
            ]
        where = "".join(f"; `{n} = {ast.unparse(v)}`" for n, v in r.lets.items())
        grads = [f"d{i}: `{ast.unparse(g)}`" for i, g in zip(r.inputs, r.grads, strict=True) if g]
        if r.fast:
            grads.append(f"d{r.inputs[0]} in f32 and below: `{ast.unparse(r.fast)}`")
        call = ", ".join([*r.inputs, *(f"{k}={v:g}" for k, v in r.params.items())])
        cells = [f"`{r.name}({call})`", r.doc, r.rule.lower(), ("; ".join(grads) + where) if grads else "none"]
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    out += [
        "",
        "## Updates",
        "",
        "| update | results | what | params from an optimizer's options |",
        "|---|---|---|---|",
    ]
    for u in updates:
        numbers = "; ".join(
            f"{p} = {ast.unparse(e)}" for p, e in zip(u.params, u.numbers, strict=False) if ast.unparse(e) != p
        )
        out.append(
            f"| `{u.name}({', '.join([*u.inputs, *u.params])})` | `{update_text(u)}` | {u.doc} |"
            f" {f'`{numbers}`' if numbers else ''} |"
        )
    return out[1:]


def between(file: str, begin: str, end: str, lines: list[str]) -> str:
    """The text of a file with what stands between two marker lines replaced."""
    text = (ROOT / file).read_text()
    head, rest = text.split(begin + "\n", 1)
    return head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1]


def generate() -> dict[str, str]:
    primitives, rows, sources = read_source((ROOT / SOURCE).read_text())
    compiled = compile_rows(primitives, rows)
    updates = compile_updates(primitives, sources, sum(p.fused >= 0 for c in compiled for p in c.programs()))
    writers: dict[str, Callable[[], list[str]]] = {
        "src/dev/opcodes.gen.h": lambda: opcodes_h(primitives),
        "src/dev/cpu/fused.gen.h": lambda: fused_h(compiled, updates),
        "src/ops/rows.gen.h": lambda: rows_h(compiled, sources),
        "src/ops/structured.gen.h": structured_h,
        "src/ops/programs.gen.c": lambda: programs_c(compiled, updates, sources, primitives),
        "src/ops/elementwise.gen.c": lambda: elementwise_c(compiled),
        "src/ops/elementwise_tests.gen.h": lambda: tests_h(compiled),
    }
    files = {file: "\n".join(write()) + "\n" for file, write in writers.items()}
    header, docs = "include/chainrule/ops.h", "docs/ops.md"
    files[header] = between(header, "/* generated: begin */", "/* generated: end */", header_lines(compiled))
    files[docs] = between(docs, "<!-- generated: begin -->", "<!-- generated: end -->", docs_lines(compiled, sources))
    return files


def main() -> int:
    try:
        files = generate()
    except BadRow as e:
        print(e, file=sys.stderr)
        return 1
    stale = [f for f, text in files.items() if not (ROOT / f).exists() or (ROOT / f).read_text() != text]
    if "--check" in sys.argv[1:]:
        for f in stale:
            print(f"{f} is not current: run tools/gen_ops.py", file=sys.stderr)
        return 1 if stale else 0
    for f in stale:
        (ROOT / f).write_text(files[f])
        print(f"wrote {f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
