"""Where chainrule differs from PyTorch on purpose, each with the reason: (names, what compare.py finds, reason), the first two as
regular expressions.  A name is that of the function; its method and in-place forms are meant too.  test_names.py asks it; the page
"Differences from PyTorch" is made of it."""

from __future__ import annotations

import re

import table

DIFFERENCES = [
    (".*", r"^gives .*PyTorch raises NotImplementedError", "PyTorch lacks the kernel for this dtype: here every dtype that the definition allows works."),
    (
        ".*",
        r"^gives .*PyTorch raises RuntimeError: .*(expected .*dtype|same dtype|to have the same|must have the same)",
        "Dtypes promote everywhere; PyTorch wants equal ones for some names.",
    ),
    (".*", r"must be tuple of ints, not int", "An int is a shape, or a list of axes, of one."),
    ("type_as", r"^the result, element .*uint8", "A float outside the range of an integer dtype becomes its nearest value; PyTorch's result is not defined."),
    ("any|all", r"the result has shape .*\), \(\)\), \{'keepdim'", "No axes named means all, as for sum."),
    (
        "norm",
        r"out of range.*is empty|Expected a floating point or complex|e-3\d\d, PyTorch's -?0.0",
        "An axis is checked first; dtype is applied first; squares below 1e-308 are 0.",
    ),
    ("norm", r"^raises RuntimeError: .*p is a number or 'fro'", "No matrix norms here."),
    ("index_select", r"^raises IndexError: .*PyTorch RuntimeError|^raises Error: .*PyTorch IndexError", "An index out of range is an IndexError."),
    (".*", r"OverflowError", "An int beyond 64 bits is an OverflowError."),
    (
        ".*",
        r"^raises TypeError: .*(must be .*, not |positional arguments but|unexpected keyword|missing required|multiple values|not interpret|"
        r"of numbers and sequences|converted to an index|descriptor|expected a dtype)",
        "Wrong types, names and numbers of arguments are a TypeError; PyTorch raises other kinds for some of them.",
    ),
    (".*", r"^gives .*PyTorch raises TypeError: .*must be Tensor, not (float|int)", "A number is taken wherever a tensor would broadcast."),
    (".*", r"^raises RuntimeError: .*needs tensors of . and . axes", "The wrong number of axes is a RuntimeError."),
    (".*", r"dimensions, at most 8", "Too many axes are found before what is wrong with them."),
    ("scatter_add", r"does not cover the index", "A wrong shape is a ValueError and a RuntimeError."),
    ("to", r"no device|got \(torch.dtype, |to\(\) received", "A target is a dtype, a device or a Tensor, in any order."),
    ("clamp|clip", r"do not broadcast", "min and max may be a number and a tensor."),
    ("randint", r"got \(int, int, int", "An int is a shape of one."),
    ("manual_seed", r"cannot be interpreted as an integer", "A seed is an int; PyTorch calls int() on it."),
    ("add|sub|subtract", r"int64 cannot be written into bool", "A bool tensor does not take numbers."),
    ("add|sub|subtract", r"'alpha': -?\d.*int64, PyTorch's torch.bool|int64, PyTorch's torch.bool.*'alpha'", "A bool times a number is an integer."),
    ("flip|repeat|tile", r"missing 1 required positional arguments", "Nothing named is an empty list."),
    ("repeat_interleave", r"<- .*X\(\(\), ", "A tensor without axes is a vector of one element."),
    ("tile", r"a negative number of times", "PyTorch multiplies the negative number by a size of 0."),
    ("roll", r"axis \d is out of range", "PyTorch does not look at the axis where there are no elements."),
    ("reshape|permute|view", r"missing 1 required positional arguments", "No sizes mean a scalar, no axes those of one."),
    (".*", r"PyTorch (raises )?TypeError: .*(NoneType|missing 1 required positional arguments: \W?size|got \(\))", "None means absent; no sizes mean a scalar."),
    (
        ".*",
        r"^raises Error: .*(no elements has no value|is empty: there is no position).*PyTorch IndexError",
        "An extreme of no elements is a ValueError and a RuntimeError; PyTorch raises IndexError for some of them.",
    ),
    ("gather|scatter_add", r"^raises IndexError: .*PyTorch RuntimeError: index .*out of bounds", "An index out of range is an IndexError."),
    ("scatter_add", r"^raises DtypeError: .*adds numbers, not bool", "bool is not a number that can be added up."),
    ("addcdiv", r"Integer division with addcdiv", "Integers divide as div divides them."),
    ("addcmul", r"parameter -?[0-9.]+ has no \w+ value", "A fraction is refused where PyTorch truncates it to an integer."),
    ("atan2|arctan2", r"^gradient.*uint8", "PyTorch's gradient negates a uint8."),
    ("hardsigmoid|hardswish", r"^gradient.*float64", "PyTorch's gradient rounds 1/6 to float32."),
    ("clamp|clip", r"PyTorch raises TypeError: .*invalid combination", "min and max may be a number and a tensor."),
    ("clamp|clip", r"PyTorch's 0.0 \(float32\)", "PyTorch casts the bounds to the tensor's dtype first, where the result has another."),
    ("fmod|remainder|floor_divide|div", r"bfloat16\), X\(\(\), float16", "A 0-d float16 operand of a bfloat16 tensor is not rounded to bfloat16."),
    ("softmax|log_softmax|randn|randn_like|bernoulli", r"^raises \w+: .*PyTorch gives torch.\w+ \[[\[\]]", "No dtype is allowed for empty tensors only."),
    ("cat|concat|concatenate", r"axis -?\d is out of range", "PyTorch does not look at the axis where all tensors are empty."),
    ("mv", r"needs tensors of 2 and 1 axes", "The wrong number of axes is a RuntimeError."),
    (".*", r"raises DtypeError: .*bool is not a number", "bool is not a number: cast it first."),
    ("sub|subtract|rsub", r"PyTorch raises RuntimeError: Subtraction", "A bool operand of a number promotes, as in add."),
    (
        "tensor",
        r"^raises (TypeError|ValueError|OverflowError): ",
        "What is no number is a TypeError, ragged lists a ValueError, an int beyond 64 bits an OverflowError.",
    ),
    ("stride", r"X\(.*\b0\b", "A tensor without elements has the strides of a contiguous one."),
    ("true_divide|divide", r"rounding_mode", "true_divide is another name of div."),
    ("unbind|split|mv", r"expects at least a 1-dimensional tensor", "The wrong number of axes is a RuntimeError."),
    ("var|std", r"^gradient .*nan", "Division by zero: there is no gradient."),
    ("var|std", r"must be ints, not bool", "unbiased is given by name or after dim: var(True) would be ambiguous."),
    ("where", r"must be bool, got uint8", "A condition is bool."),
    ("to", r"expected a dtype, a device or a Tensor, got float|got \(torch.dtype, torch.dtype\)", "A target is a dtype, a device or a Tensor; each may be named."),
    ("sum|nansum|mean|nanmean|prod|cumsum|cumprod", r"Autograd not support dtype", "An integer result of a tensor that requires a gradient is cut from the graph."),
    ("randint", r"out of bounds for bool", "bool has two values: every other integer is true."),
    ("topk|kthvalue|median|nanmedian|mode", r"^the result\[1\], element", "Of equal elements the first is taken; PyTorch takes any of them."),
    ("topk", r"PyTorch raises RuntimeError: topk does not support bool", "Every dtype has an order."),
    ("median|nanmedian", r"^raises Error: .*of no \w+ there is none|^requires_grad .*X\(\((0,|2, 0)", "Of no numbers the median is NaN, of no integers there is none."),
    ("bincount", r"^the result is chainrule.float.., PyTorch's torch.int64.*X\(\(0,", "Weights say the dtype, of an empty count too."),
    ("searchsorted", r"^raises IndexError: .*sorter index out of range", "An index out of range is an IndexError."),
    ("logsumexp", r"doesn't match the broadcast shape", "No axes named means all, as for sum."),
]


def expected(name: str, call: table.Call, found: str) -> bool:
    return any(
        any(re.fullmatch(names, n) for n in (name, name.removesuffix("_"))) and re.search(what, f"{found} <- {call}".replace("\n", " "))
        for names, what, _ in DIFFERENCES
    )
