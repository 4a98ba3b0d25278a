#!/usr/bin/env python3
"""Writes tests/golden/elementwise.h: what PyTorch says about every elementwise function, at
ordinary points and at the awkward ones.

use: elementwise.py        (needs torch; the header is committed, so that the tests do not)
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

INF, NAN = math.inf, math.nan
UNARY_X = [
    -INF,
    -1e4,
    -20.5,
    -6.0,
    -3.0,
    -2.5,
    -1.0,
    -0.75,
    -0.1,
    -0.0,
    0.0,
    1e-8,
    0.3,
    0.5,
    1.0,
    1.5,
    2.5,
    3.0,
    6.0,
    20.5,
    1e4,
    INF,
    NAN,
]
PAIR = [-2.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, INF, NAN]
TRIPLE = [-2.5, 0.0, 0.25, 3.0]

UNARY: dict[str, tuple[Callable[..., Tensor], Sequence[float]]] = {
    "clamp": (torch.clamp, (-1.0, 1.5)),
    "leaky_relu": (F.leaky_relu, (0.25,)),
    "elu": (F.elu, (1.25,)),
    "celu": (F.celu, (1.25,)),
    "softplus": (F.softplus, (2.0, 3.0)),
    "hardtanh": (F.hardtanh, (-1.0, 1.5)),
    "nan_to_num": (torch.nan_to_num, (7.0, 3.0, -4.5)),
    "logit": (torch.logit, (0.125,)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), ()),
}
for _name in ("selu", "gelu", "silu", "mish", "softsign", "hardsigmoid", "hardswish", "relu6", "logsigmoid"):
    UNARY[_name] = (getattr(F, _name), ())
for _name in (
    "neg abs sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh"
    " tanh asinh acosh atanh erf erfc sigmoid relu floor ceil round trunc frac isnan isinf isposinf isneginf isfinite"
    " signbit logical_not deg2rad rad2deg sinc"
).split():
    UNARY[_name] = (getattr(torch, _name), ())

for _name in "lgamma digamma i0 erfinv i0e i1 i1e ndtr ndtri log_ndtr erfcx entr".split():
    UNARY[_name] = (getattr(torch.special, "gammaln" if _name == "lgamma" else _name), ())

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"),
}
for _name in (
    "add sub mul div remainder fmod pow maximum minimum clamp_min clamp_max atan2 copysign hypot logaddexp logaddexp2"
    " xlogy fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor"
).split():
    BINARY[_name] = getattr(torch, _name)

BINARY["xlog1py"] = torch.special.xlog1py
BINARY["swiglu"] = lambda gate, up: F.silu(gate) * up
BINARY["geglu"] = lambda gate, up: F.gelu(gate) * up

TERNARY: dict[str, tuple[Callable[..., Tensor], Sequence[float]]] = {
    "lerp": (torch.lerp, ()),
    "addcmul": (lambda x, a, b, v: torch.addcmul(x, a, b, value=v), (1.25,)),
    "addcdiv": (lambda x, a, b, v: torch.addcdiv(x, a, b, value=v), (1.25,)),
    "where": (lambda c, a, b: torch.where(c != 0, a, b), ()),
}
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]  # in the order of cr_dtype


def text(v: float) -> str:
    if math.isnan(v):
        return "NAN"
    return ("-" if v < 0 else "") + "INFINITY" if math.isinf(v) else repr(v)


def array(values: Sequence[float]) -> str:
    return "{" + "\n        ".join(textwrap.wrap(", ".join(map(text, values)), 130)) + "}"


def evaluate(f: Callable[..., Tensor], columns: list[list[float]], params: Sequence[float]) -> list[list[float]]:
    """The value at each point, then its derivative with respect to each input (NaN for all where
    PyTorch gives none)."""
    inputs = [torch.tensor(c, dtype=torch.float64, requires_grad=True) for c in columns]
    y = f(*inputs, *params)
    out = [y.to(torch.float64).tolist()]
    if not y.requires_grad:
        return out
    grads = torch.autograd.grad(y.sum(), inputs, allow_unused=True)
    return out + [[0.0] * len(columns[0]) if g is None else g.tolist() for g in grads]


def table(
    name: str,
    arity: int,
    points: int,
    rows: dict[str, tuple[Callable[..., Tensor], Sequence[float]]],
    columns: list[list[float]],
) -> list[str]:
    out = [
        "",
        (
            f"static const struct {{ const char *name; double params[3]; int columns; double y[{1 + arity}][{points}];"
            f" }} {name}[] = {{"
        ),
    ]
    for row, (f, params) in sorted(rows.items()):
        results = evaluate(f, columns, params)
        out += [
            f'    {{"{row}", {array(params or [0.0])}, {len(results)}, {{',
            *(f"        {array(r)}," for r in results),
            "    }},",
        ]
    return [*out, "};"]


def promotion(b: Callable[[torch.dtype], Tensor | float]) -> list[str]:
    """The promoted dtypes of a tensor with axes (rows) and something else (columns); -1 where PyTorch refuses."""
    out = []
    for x in DTYPES:
        line = []
        for y in DTYPES:
            try:
                line.append(DTYPES.index(torch.result_type(torch.ones(1, dtype=x), b(y))))
            except RuntimeError:
                line.append(-1)
        out.append("    {" + ", ".join(map(str, line)) + "},")
    return out


def main() -> None:
    pairs = [[a for a in PAIR for _ in PAIR], [b for _ in PAIR for b in PAIR]]
    triples = [
        [a for a in TRIPLE for _ in range(16)],
        [b for _ in TRIPLE for b in TRIPLE for _ in TRIPLE],
        [c for _ in range(16) for c in TRIPLE],
    ]
    out = [
        (
            "/* elementwise.h - what PyTorch says about every elementwise function: values, then derivatives with"
            " respect to each input."
        ),
        f" * Generated by tests/golden/elementwise.py with PyTorch {torch.__version__.split('+')[0]}. */",
    ]
    for label, columns in (("unary_in", [UNARY_X]), ("binary_in", pairs), ("ternary_in", triples)):
        out += [
            "",
            f"static const double {label}[{len(columns)}][{len(columns[0])}] = {{",
            *(f"    {array(c)}," for c in columns),
            "};",
        ]
    out += table("golden_unary", 1, len(UNARY_X), UNARY, [UNARY_X])
    out += table("golden_binary", 2, len(pairs[0]), {k: (f, ()) for k, f in BINARY.items()}, pairs)
    out += table("golden_ternary", 3, len(triples[0]), TERNARY, triples)
    out += ["", "/* dtype of a tensor with axes (rows) together with: */"]
    out += [
        "static const signed char golden_promote[13][13] = {        /* another one */",
        *promotion(lambda d: torch.ones(1, dtype=d)),
        "};",
    ]
    out += [
        "static const signed char golden_promote_0d[13][13] = {     /* one without axes */",
        *promotion(lambda d: torch.ones((), dtype=d)),
        "};",
    ]
    out += [
        "static const signed char golden_promote_number[13][13] = { /* a number: 2 or 2.0, by the column's kind */",
        *promotion(lambda d: 2.0 if d.is_floating_point else 2),
        "};",
    ]
    (Path(__file__).parent / "elementwise.h").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
