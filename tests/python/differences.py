"""Deliberate differences from PyTorch: (names, finding of compare.py, reason); the first two are
regular expressions.  The name of a function also stands for its method and in-place form.
test_names.py reads the entries and fails on an entry that no call needs.

use: python tests/python/differences.py     writes docs/differences.md from this list"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "differences.md"
# Not by an import, which would add methods to Tensor.
MISSING: dict[str, str] = runpy.run_path(str(ROOT / "python" / "chainrule" / "torch" / "_missing.py"))["MISSING"]

DIFFERENCES = {
    "Refused here, taken by PyTorch": [
        (
            ".*",
            r"raises DtypeError: .*(bool is not a number|takes numbers, not bool)",
            "bool is not a number: cast it first.",
        ),
        (
            "add|sub|subtract|cumsum|cumprod",
            r"int64 cannot be written into bool",
            "A bool tensor does not take numbers in place.",
        ),
        (
            "scatter|scatter_add|scatter_reduce",
            r"^raises DtypeError: .*(adds|multiplies) numbers, not bool",
            "bool is not a number that can be added up or multiplied.",
        ),
        (
            "gather|scatter|scatter_add|scatter_reduce",
            (
                r"^raises (Error|DtypeError): .*(must have the axes|indices must be|does not cover).*PyTorch gives.* <-"
                r" .*X\(\([\d, ]*\b0\b"
            ),
            "An index without elements is checked too.",
        ),
        ("hstack|vstack", r"^raises Error: \[[hv]stack\] shapes", "Only cat ignores empty vectors."),
        (
            "addcmul|hardtanh",
            r"parameter -?[0-9.]+ has no \w+ value",
            "A fraction for integers is an error; PyTorch truncates it.",
        ),
        (
            "addmm|baddbmm|addmv|addr|addbmm",
            r"a factor of \w+ must be an integer",
            "A fractional beta or alpha for integers is an error; PyTorch truncates it.",
        ),
        (
            "softmax|log_softmax|randn|randn_like|bernoulli|uniform|normal|log_normal|exponential|cauchy|matmul|mm|bmm|mv|dot|outer|addmm|baddbmm",
            r"^raises \w+: .*(PyTorch gives torch.\w+ \[[\[\]]| <- .*X\(\([\d, ]*\b0\b)",
            "An unsupported dtype is an error for tensors without elements too.",
        ),
        (
            "cat|concat|concatenate",
            r"axis -?\d is out of range",
            "An axis out of range is an error even where all tensors are empty.",
        ),
        (
            "tile",
            r"a negative number of times",
            "A negative number of times is an error; PyTorch multiplies it by a size of 0.",
        ),
        (
            "as_strided",
            r"elements -?\d+ \.\.\. -?\d+ of the memory",
            "A view does not reach beyond the elements of its tensor.",
        ),
        (
            "as_strided",
            r"must be contiguous",
            "Of a tensor in a graph, only a contiguous one has such views.",
        ),
        ("roll", r"axis \d is out of range", "The axis of a tensor without elements is checked too."),
        ("addr", r"raises DtypeError: .*takes numbers, not bool", "bool is not a number: cast it first."),
        ("addbmm", r"does not broadcast into", "An in-place call keeps the shape; PyTorch lets addbmm_ enlarge it."),
        (
            "multinomial",
            r"weights above 0.*PyTorch gives",
            "Without replacement an element of weight 0 is never drawn; PyTorch draws them when no others remain.",
        ),
        ("masked_scatter", r"^raises Error: \[masked_scatter_?\]", "A mask does not widen the tensor."),
    ],
    "Other values, dtypes and shapes": [
        ("ndtr", r"float16", "Half precision is rounded once, at the end."),
        (
            "zeta",
            r"<- .*special|special.*: the result",
            "At its poles the function is infinite, and 0 in the limit of a large x; PyTorch gives NaN.",
        ),
        (
            "any|all",
            r"the result has shape .*\), \(\)\), \{'keepdim'",
            "Without axes the function reduces all axes, as sum does.",
        ),
        (
            "add|sub|subtract",
            r"'alpha': -?\d.*int64, PyTorch's torch.bool|int64, PyTorch's torch.bool.*'alpha'",
            "A bool times a number is an integer.",
        ),
        (
            "clamp|clip",
            r"PyTorch's 0.0 \(float32\)",
            "Bounds are cast to the result's dtype; PyTorch casts them to the tensor's dtype.",
        ),
        (
            "fmod|remainder|floor_divide|div|maximum|minimum|eq|ne|lt|le|gt|ge|not_equal|less|less_equal|greater|greater_equal",
            r"float16\b.*X\(\(\), b?float",
            "A 0-d operand of another float dtype is not rounded to the tensor's.",
        ),
        (
            "type_as|to|int|short|long|as_tensor|copy_",
            r"^the result, element .*\(u?int\d+\)",
            (
                "A float outside the range of an integer dtype becomes its nearest value, NaN 0; PyTorch's result is"
                " not defined."
            ),
        ),
        ("gelu", r"inf, PyTorch's nan", "The value at infinity is infinity."),
        (
            "stride",
            r"X\(.*\b[01]\b",
            "A tensor without elements, and an axis of one, have the strides of a contiguous tensor.",
        ),
        ("repeat_interleave", r"<- .*X\(\(\), ", "A 0-d tensor is a vector of one element."),
        (
            "topk|kthvalue|median|nanmedian|mode",
            r"^the result\[1\], element",
            "The first of equal elements is taken; PyTorch takes any of them.",
        ),
        (
            "median|nanmedian",
            r"^raises Error: .*of no \w+ there is none|^requires_grad .*X\(\((0,|2, 0)",
            "The median of no floats is NaN; the median of no integers is an error.",
        ),
        (
            "bincount",
            r"^the result is chainrule.float.., PyTorch's torch.int64.*X\(\(0,",
            "Weights determine the dtype, also of an empty count.",
        ),
        ("sort|argsort", r"^the result(\[1\])?, element (?!.*'stable': True)", "Every sort is stable."),
        (
            "median|nanmedian",
            r"^the result\[0\], element .* <- .*expanded",
            "The median of an expanded tensor is correct; PyTorch reads other elements.",
        ),
        (
            "addmv",
            r"the result has shape .*X\(\([\d, ]*\b0\b",
            "The added tensor broadcasts to the product's shape, also over no elements.",
        ),
        ("searchsorted|bucketize", r"^the result, element .*special", "NaN is the largest number, as in sort."),
        (
            "einsum",
            r"the result is chainrule.u?int\d+, PyTorch's torch.int64",
            "A sum of integers keeps their dtype, as in NumPy.",
        ),
        ("prod", r"^the result, element .*b?float16", "Half precision is multiplied in float32 and rounded once."),
        ("sinc", r"^gradient .*b?float16", "The gradient in half precision is rounded once."),
        ("var_mean|std_mean", r"inf, PyTorch's nan", "The mean of an infinity is infinite."),
        (
            "histogram|histogramdd",
            r"^the result\[0\], element .* <- .*whole",
            "An element that lies on an edge may be in the bin beside it: edges are rounded otherwise.",
        ),
    ],
    "Gradients": [
        (
            "sum|nansum|mean|nanmean|prod|cumsum|cumprod|fill",
            r"Autograd not support dtype",
            "An integer result does not require a gradient, even if its input does.",
        ),
        (
            "eq|ne|lt|le|gt|ge|not_equal|less|less_equal|greater|greater_equal|logical_and|logical_or|logical_xor",
            r"^requires_grad of the results: \[False\], PyTorch's \[True\]",
            "An integer result does not require a gradient, even if its input does.",
        ),
        (
            "atan2|arctan2",
            r"^gradient.*uint8",
            "uint8 operands are promoted before the gradient is computed; PyTorch negates a uint8.",
        ),
        (
            "logical_and|logical_or|logical_xor|logical_not",
            r"^gradient",
            "An in-place result has no gradient; PyTorch passes the gradient on as if nothing were written.",
        ),
        ("hardsigmoid|hardswish", r"^gradient.*float64", "1/6 is exact in float64; PyTorch rounds it to float32."),
        ("split_with_sizes", r"must be tuple of ints, not Tensor", "A tensor of sizes is taken, as in `split`."),
        ("vander", r"^requires_grad of the results: \[True\]", "A result of no columns requires a gradient too."),
        (
            "nextafter|heaviside|histogram|histogramdd",
            r"requires_grad of the results",
            "There is no gradient; PyTorch fails when the gradient is requested.",
        ),
        (
            "scatter_reduce|index_reduce",
            r"^gradient .*'include_self': False",
            "An element that is left out gets no share of the gradient of an extreme that it equals.",
        ),
        (
            "block_diag",
            r"^gradient .* <- .*X\(\(0,\)",
            "PyTorch gives the matrices after an empty vector the gradient of the row before theirs.",
        ),
        ("cov", r"^gradient .*: nan, PyTorch's", "Where the correction leaves no observation the gradient is NaN too."),
        ("cdist", r"PyTorch's nan .* <- .*special", "With p = 0 a difference that is NaN counts, as in norm."),
        ("ldexp", r"^gradient", "Where n has one element, x gets its gradient too."),
        ("quantile|nanquantile", r"^gradient .*whole", "Another one of equal elements may have the gradient."),
    ],
    "Taken here, refused by PyTorch": [
        (
            ".*",
            r"^gives .*PyTorch raises NotImplementedError",
            "Every dtype that the definition allows works; PyTorch lacks some kernels.",
        ),
        (
            ".*",
            (
                r"^gives .*PyTorch raises RuntimeError: .*(expected .*dtype|same dtype|to have the same|must have the"
                r" same)"
            ),
            "Tensors of several dtypes promote everywhere; PyTorch requires equal dtypes for some names.",
        ),
        (
            ".*",
            r"^gives .*PyTorch raises TypeError: .*must be Tensor, not (float|int)",
            "A number is accepted wherever a tensor would broadcast.",
        ),
        (".*", r"must be tuple of ints, not int", "An int is a shape, or a list of axes, of one element."),
        ("randint", r"got \(int, int, int", "An int is a shape of one element."),
        (
            ".*",
            r"PyTorch (raises )?TypeError: .*(NoneType|missing 1 required positional arguments: \W?size|got \(\))",
            "None means absent; no sizes mean a scalar.",
        ),
        (
            "reshape|permute|view",
            r"missing 1 required positional arguments",
            "No sizes mean a scalar; no axes mean the axes of a scalar.",
        ),
        (
            "to",
            r"no device|got \(torch.dtype, |to\(\) received",
            "A target is a dtype, a device or a Tensor, in any order.",
        ),
        ("clamp|clip", r"PyTorch raises TypeError: .*invalid combination", "min and max may be a number and a tensor."),
        (
            "sub|subtract|rsub",
            r"PyTorch raises RuntimeError: Subtraction",
            "A bool tensor and a number promote, as in add.",
        ),
        ("argmax|argmin", r"does not support bool input", "bool is ordered: false is before true."),
        ("hardtanh", r"unsigned type with negative limits", "A bound outside the range of the dtype has no effect."),
        (
            "index_select",
            r"self indexing axis dim should be positive",
            "Indices are checked only where the result has elements.",
        ),
        ("addcdiv", r"Integer division with addcdiv", "Integers divide as div divides them."),
        ("true_divide|divide", r"rounding_mode", "They are other names of div, with all its arguments."),
        ("randint|randint_like", r"out of bounds for bool", "bool has two values: every other integer is true."),
        ("logsumexp", r"doesn't match the broadcast shape", "Without axes the function reduces all axes, as sum does."),
        ("norm", r"Expected a floating point or complex", "dtype is applied first, so that integers have a norm."),
        ("flip|repeat|tile", r"missing 1 required positional arguments", "No arguments mean an empty list."),
        ("one_hot", r"PyTorch raises RuntimeError: .*type LongTensor", "Indices are int32 or int64."),
        ("take_along_dim", r"PyTorch (raises )?RuntimeError: view size is not compatible", "Any layout is flattened."),
        ("topk", r"PyTorch raises RuntimeError: topk does not support bool", "Every dtype has an order."),
        ("kron|isin", r"PyTorch raises RuntimeError: view size is not compatible", "Any layout is accepted."),
        (
            "index_copy|index_fill|take",
            r"PyTorch raises \w+: .*(Expected a long tensor|Expected dtype int64 for index)",
            "Indices are int32 or int64.",
        ),
        (
            "quantile|nanquantile",
            r"PyTorch raises RuntimeError: .*must be either float or double",
            "Half precision is accepted.",
        ),
    ],
    "Other kinds of exceptions": [
        (
            ".*",
            r"^raises TypeError: .*(must be .*, not |positional arguments but|unexpected keyword|missing"
            r" required|multiple values|not interpret|"
            r"of numbers and sequences|converted to an index|descriptor|expected a dtype)",
            "Wrong types, names and numbers of arguments are a TypeError; PyTorch raises other kinds for some of them.",
        ),
        (".*", r"OverflowError", "An int beyond 64 bits is an OverflowError."),
        (
            "tensor",
            r"^raises (TypeError|ValueError|OverflowError): ",
            (
                "An element that is not a number is a TypeError, ragged lists are a ValueError, an int beyond 64 bits"
                " is an OverflowError."
            ),
        ),
        (
            "index_select",
            r"^raises IndexError: .*PyTorch RuntimeError|^raises Error: .*PyTorch IndexError",
            "An index out of range is an IndexError.",
        ),
        (
            "gather|scatter|scatter_add|scatter_reduce|index_add|take_along_dim",
            r"^raises IndexError: .*PyTorch RuntimeError: (index .*out of bounds|ZeroDivisionError)",
            "An index out of range is an IndexError.",
        ),
        (
            "scatter_add|scatter_reduce",
            r"does not cover the index",
            "A wrong shape is a ValueError and a RuntimeError.",
        ),
        (".*", r"^raises \w+: .*needs tensors of . and . axes", "The wrong number of axes is a RuntimeError."),
        ("mv", r"needs tensors of 2 and 1 axes", "The wrong number of axes is a RuntimeError."),
        (".*", r"dimensions, at most 8", "There are at most 8 axes; this is checked first."),
        ("norm", r"out of range.*is empty", "An axis is checked before the number of elements."),
        (
            "clamp|clip",
            r"do not broadcast",
            "Shapes of bounds that do not broadcast are a ValueError and a RuntimeError.",
        ),
        (
            "to",
            r"expected a dtype, a device or a Tensor, got float",
            "A target is a dtype, a device or a Tensor; each may be given by keyword.",
        ),
        (
            "one_hot",
            r"^raises IndexError: .*PyTorch RuntimeError: Class values",
            "An index out of range is an IndexError.",
        ),
        ("index_copy", r"a source of shape", "A wrong shape is a ValueError and a RuntimeError."),
        (
            "index_fill",
            r"^raises DtypeError: .*PyTorch IndexError: .*Expected dtype",
            "A wrong dtype is a TypeError and a RuntimeError.",
        ),
        ("searchsorted", r"^raises IndexError: .*sorter index out of range", "An index out of range is an IndexError."),
        (
            "index_put",
            r"^raises IndexError: .*PyTorch RuntimeError: shape mismatch",
            "An index out of range is reported before a shape that does not fit.",
        ),
        (
            "index_fill",
            r"^raises IndexError: .*PyTorch RuntimeError: Index has to be",
            "An index of a wrong shape is an IndexError.",
        ),
        (
            "quantile|nanquantile",
            r"^raises IndexError: .*PyTorch RuntimeError: .*must be either float or double",
            "An axis out of range is reported first.",
        ),
        (
            "index_fill",
            r"^raises IndexError: .*PyTorch RuntimeError: setStorage",
            "An index out of range is an IndexError.",
        ),
    ],
}

# Differences that no single call shows; other tests cover them.
GENERAL = [
    (
        "Nodes of the graph (`grad_fn`) have one result each: the number in `next_functions` is 0. A node does not keep"
        " its leaf: `variable` is None once the leaf is freed, else a new object for the same tensor. `inference_mode`"
        " is `no_grad`."
    ),
    "`shape` also equals a list.",
    "`Tensor(data)` is micrograd's: numbers become float32, and the result is a leaf that collects a gradient.",
    "`cr.Error` is a `RuntimeError`, as in PyTorch, and a `ValueError`, as in NumPy: either `except` works.",
    "A tensor has at most 8 axes.",
    (
        "The gradient of `ctc_loss` is that of its formula. PyTorch's is that of the logits in front of a"
        " `log_softmax`; behind one, both are the same."
    ),
    (
        "`sparse=True` is accepted; gradients of tables are dense. `EmbeddingBag(scale_grad_by_freq=True)` counts each"
        " row's own look-ups; PyTorch counts those of another row."
    ),
    (
        "A `TransformerEncoder` in use computes padded positions as others; PyTorch's fast path without gradients"
        " writes zeros there."
    ),
    (
        "A copy of a parametrized module has a class of its own: parametrizations that are removed there stay in the"
        " first."
    ),
    (
        "`torch.func`: vmap runs a function once, for all samples together. Calls that need the elements of a tensor"
        " fail, and the message names them: `item`, branches, `nonzero`, bool keys. So does `as_strided` of"
        " samples that are not contiguous."
        " A rule made by `generate_vmap_rule` sums the gradients"
        " of what all samples share; PyTorch's gives other numbers where a result depends on that only."
    ),
    "Every function that gives tensors takes `out=`; `out` gets the shape of the result.",
    "A memory format, a layout, `pin_memory` and `non_blocking` are accepted and have no effect.",
    "Attention gives 0 for a query whose keys are all masked, also with `need_weights`.",
    (
        "`autocast` has the policy of PyTorch's cpu on every device: softmax, norms and sums of half precision give"
        " half precision, computed in float32. Recurrent layers run in half precision, and `pad` keeps its dtype. The"
        " backward pass is not affected where it runs inside a region."
    ),
    (
        "Optimizers refuse rates that are not finite, one parameter twice, and state dicts whose entries do not fit;"
        " moments of half-precision parameters are float32. `Muon` works in float32, not bfloat16."
    ),
    (
        "The same seed gives the same bits on every device and for any number of threads, but other numbers than"
        " PyTorch's generators."
    ),
]

used: set[tuple[str, str]] = set()  # entries that a call needed


def expected(name: str, call: table.Call, found: str) -> bool:
    text = f"{found} <- {call}".replace("\n", " ")
    entries = [
        (names, what)
        for group in DIFFERENCES.values()
        for names, what, _ in group
        if any(re.fullmatch(names, n) for n in (name, name.removesuffix("_"))) and re.search(what, text)
    ]
    used.update(entries)
    return bool(entries)


def stale() -> list[tuple[str, str]]:
    return [(names, what) for group in DIFFERENCES.values() for names, what, _ in group if (names, what) not in used]


def page() -> str:
    lines = [
        "# Differences from PyTorch",
        "",
        (
            "chainrule uses PyTorch's names. A test compares every name with PyTorch call by call: values, dtypes,"
            " shapes, gradients and kinds of"
        ),
        (
            "exceptions. This page lists every difference that the comparison expects, with its reason. An entry"
            " without names concerns all"
        ),
        (
            "names that it fits. Names of PyTorch that chainrule lacks raise `AttributeError`; the last list says what"
            " to use."
        ),
        "",
        "## In general",
        "",
        *(f"* {text}" for text in GENERAL),
    ]
    for title, group in DIFFERENCES.items():
        reasons: dict[str, list[str]] = {}
        for names, _, reason in group:
            reasons.setdefault(reason, []).extend([] if names == ".*" else [f"`{n}`" for n in names.split("|")])
        lines += ["", f"## {title}", ""]
        lines += [
            f"* {', '.join(dict.fromkeys(names))}: {reason}" if names else f"* {reason}"
            for reason, names in reasons.items()
        ]
    lines += ["", "## Names of PyTorch that are missing", ""]
    lines += ["`chainrule.torch` says this of a name, or of names that begin so.", ""]
    by_reason: dict[str, list[str]] = {}
    for name, reason in MISSING.items():
        by_reason.setdefault(reason, []).append(f"`{name}`")
    del by_reason[MISSING["torch"]]
    lines += [f"* {', '.join(names)}: {reason}." for reason, names in by_reason.items()]
    return "\n".join(
        [
            *lines,
            "",
            "Made from tests/python/differences.py. The tests check that the list is complete and current.",
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit()
