"""Tensors, automatic differentiation and neural networks: PyTorch's names over a small C library."""

from . import _fork as _fork
from . import _subclass as _subclass
from . import autograd as autograd
from ._core import *
from ._core import __version__ as __version__
from ._dtypes import broadcast_shapes as broadcast_shapes
from ._dtypes import broadcast_tensors as broadcast_tensors
from ._dtypes import finfo as finfo
from ._dtypes import iinfo as iinfo
from ._settings import auto_transfer as auto_transfer
from ._settings import config as config
from ._settings import profile as profile
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled

__all__ = [  # the names of the extension, by tools/gen_python.py
    "Device", "DtypeError", "Error", "Generator", "Node", "OutOfMemoryError", "RemovableHandle", "Size", "Tensor",
    "Value", "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr",
    "all", "allclose", "amax", "amin", "aminmax", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh",
    "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort", "argwhere", "as_strided", "as_tensor", "asarray",
    "asin", "asinh", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "baddbmm", "bernoulli",
    "bfloat16", "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "block_diag", "bmm", "bool", "broadcast_to", "bucketize", "can_cast", "cartesian_prod", "cat",
    "cdist", "ceil", "celu", "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "column_stack",
    "combinations", "concat", "concatenate", "contiguous", "copysign", "corrcoef", "cos", "cosh", "count_nonzero",
    "cov", "cross", "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "default_generator", "deg2rad",
    "detach", "device", "diag", "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "diff", "digamma", "dist",
    "div", "divide", "dot", "double", "dsplit", "dstack", "dtype", "einsum", "elu", "empty", "empty_cache",
    "empty_like", "entr", "eq", "equal", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "expm1", "eye", "fill",
    "fix", "flatten", "flip", "fliplr", "flipud", "float", "float16", "float32", "float64", "float_power", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "frac", "frexp", "from_dlpack", "from_numpy", "full", "full_like",
    "gather", "gcd", "ge", "gelu", "ger", "get_default_device", "get_default_dtype", "get_float32_matmul_precision",
    "get_num_threads", "greater", "greater_equal", "gt", "half", "hardsigmoid", "hardswish", "hardtanh",
    "heaviside", "histc", "histogram", "histogramdd", "hsplit", "hstack", "hypot", "i0", "i0e", "i1", "i1e",
    "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "index_select", "inner", "int", "int16",
    "int32", "int64", "int8", "is_floating_point", "is_grad_enabled", "is_tensor", "isclose", "isfinite", "isin",
    "isinf", "isnan", "isneginf", "isposinf", "kron", "kthvalue", "lcm", "ldexp", "le", "leaky_relu", "lerp",
    "less", "less_equal", "lgamma", "linspace", "load", "log", "log10", "log1p", "log2", "log_ndtr", "log_softmax",
    "logaddexp", "logaddexp2", "logcumsumexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logit",
    "logsigmoid", "logspace", "logsumexp", "long", "lt", "manual_seed", "masked_fill", "masked_scatter",
    "masked_select", "matmul", "max", "maximum", "mean", "median", "memory_stats", "meshgrid", "min", "minimum",
    "mish", "mm", "mode", "moveaxis", "movedim", "msort", "mul", "multinomial", "multiply", "mv", "nan_to_num",
    "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "ndtr", "ndtri", "ne", "neg", "negative",
    "nextafter", "nonzero", "norm", "normal", "not_equal", "numel", "one_hot", "ones", "ones_like", "outer", "pad",
    "permute", "positive", "pow", "prod", "promote_types", "quantile", "rad2deg", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "ravel", "reciprocal", "relu", "relu6", "remainder",
    "renorm", "repeat_interleave", "reset_peak_memory_stats", "reshape", "result_type", "roll", "rot90", "round",
    "row_stack", "rsqrt", "rsub", "save", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "select",
    "select_scatter", "selu", "set_default_device", "set_default_dtype", "set_float32_matmul_precision",
    "set_num_threads", "set_printoptions", "short", "sigmoid", "sign", "signbit", "silu", "sin", "sinc", "sinh",
    "slice_scatter", "softmax", "softplus", "softsign", "sort", "split", "split_with_sizes", "sqrt", "square",
    "squeeze", "stack", "std", "std_mean", "sub", "subtract", "sum", "swapaxes", "swapdims", "synchronize", "t",
    "take", "take_along_dim", "tan", "tanh", "tensor", "tensor_split", "tensordot", "tile", "topk", "trace",
    "transpose", "trapezoid", "trapz", "tril", "tril_indices", "triu", "triu_indices", "true_divide", "trunc",
    "uint16", "uint32", "uint64", "uint8", "unbind", "unflatten", "unique", "unique_consecutive", "unsqueeze",
    "vander", "var", "var_mean", "vdot", "vsplit", "vstack", "where", "xlog1py", "xlogy", "zeros", "zeros_like",
    "zeta",
]
__all__ += [  # the names written in Python
    "MLP",
    "Layer",
    "Neuron",
    "ValueBatch",
    "auto_transfer",
    "broadcast_shapes",
    "broadcast_tensors",
    "config",
    "enable_grad",
    "finfo",
    "get_rng_state",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "no_grad",
    "profile",
    "seed",
    "set_grad_enabled",
    "set_rng_state",
]

# Imported when they are first used; tests/python/test_names.py lists what ``import chainrule`` brings in at once.
_MODULES = {
    "amp", "array_api", "cuda", "data", "distributed", "distributions", "func", "linalg", "models", "nn", "optim",
    "random", "serialization", "special", "value_batch", "vision", "viz",
}  # fmt: skip
_FROM = {
    "Tokenizer": "data",
    "autocast": "amp",
    "MLP": "micro",
    "Layer": "micro",
    "Neuron": "micro",
    "ValueBatch": "value_batch",
    "binomial": "distributions",
    "compile": "_compile",
    "get_rng_state": "random",
    "initial_seed": "random",
    "mvlgamma": "special",
    "poisson": "distributions",
    "polygamma": "special",
    "seed": "random",
    "set_rng_state": "random",
}
__all__ += [name for name in _FROM if name not in __all__]

if autograd.TYPE_CHECKING:
    from . import amp as amp
    from . import array_api as array_api
    from . import cuda as cuda
    from . import data as data
    from . import distributed as distributed
    from . import distributions as distributions
    from . import linalg as linalg
    from . import models as models
    from . import nn as nn
    from . import optim as optim
    from . import random as random
    from . import serialization as serialization
    from . import special as special
    from . import vision as vision
    from . import viz as viz
    from ._compile import compile as compile
    from .amp import autocast as autocast
    from .data import Tokenizer as Tokenizer
    from .distributions import binomial as binomial
    from .distributions import poisson as poisson
    from .micro import MLP as MLP
    from .micro import Layer as Layer
    from .micro import Neuron as Neuron
    from .random import get_rng_state as get_rng_state
    from .random import initial_seed as initial_seed
    from .random import seed as seed
    from .random import set_rng_state as set_rng_state
    from .special import mvlgamma as mvlgamma
    from .special import polygamma as polygamma
    from .value_batch import ValueBatch as ValueBatch


def __getattr__(name: str) -> object:
    """A name whose module is imported at the first use."""
    if name in _MODULES:
        __import__(f"{__name__}.{name}")
        return globals()[name]
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{_FROM[name]}", fromlist=[name])
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
