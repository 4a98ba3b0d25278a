"""Tensors, automatic differentiation and neural networks: PyTorch's names over a small C library."""

from . import autograd as autograd
from . import cuda as cuda
from . import random as random
from . import viz as viz
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
from .micro import MLP as MLP
from .micro import Layer as Layer
from .micro import Neuron as Neuron
from .random import get_rng_state as get_rng_state
from .random import initial_seed as initial_seed
from .random import seed as seed
from .random import set_rng_state as set_rng_state
from .value_batch import ValueBatch as ValueBatch

__all__ = [  # the names of the extension, by tools/gen_python.py
    "Device", "DtypeError", "Error", "Generator", "Node", "OutOfMemoryError", "RemovableHandle", "Size", "Tensor",
    "Value", "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr",
    "all", "allclose", "amax", "amin", "aminmax", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh",
    "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort", "argwhere", "as_tensor", "asarray", "asin",
    "asinh", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "baddbmm", "bernoulli", "bfloat16",
    "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bmm", "bool", "broadcast_to", "bucketize", "can_cast", "cat", "ceil", "celu", "chunk", "clamp",
    "clamp_max", "clamp_min", "clip", "clone", "concat", "concatenate", "contiguous", "copysign", "cos", "cosh",
    "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "default_generator", "deg2rad", "detach", "device",
    "diag", "diag_embed", "diagonal", "diff", "div", "divide", "dot", "double", "dtype", "einsum", "elu", "empty",
    "empty_cache", "empty_like", "eq", "equal", "erf", "erfc", "exp", "exp2", "expm1", "eye", "fix", "flatten",
    "flip", "fliplr", "flipud", "float", "float16", "float32", "float64", "floor", "floor_divide", "fmax", "fmin",
    "fmod", "frac", "from_dlpack", "from_numpy", "full", "full_like", "gather", "ge", "gelu", "ger",
    "get_default_device", "get_float32_matmul_precision", "get_num_threads", "greater", "greater_equal", "gt",
    "half", "hardsigmoid", "hardswish", "hardtanh", "histc", "hstack", "hypot", "index_add", "index_copy",
    "index_fill", "index_put", "index_select", "inner", "int", "int16", "int32", "int64", "int8",
    "is_floating_point", "is_grad_enabled", "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan",
    "isneginf", "isposinf", "kron", "kthvalue", "le", "leaky_relu", "lerp", "less", "less_equal", "linspace",
    "load", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logsigmoid", "logsumexp", "long", "lt",
    "manual_seed", "masked_fill", "masked_scatter", "masked_select", "matmul", "max", "maximum", "mean", "median",
    "memory_stats", "meshgrid", "min", "minimum", "mish", "mm", "mode", "moveaxis", "movedim", "msort", "mul",
    "multinomial", "multiply", "mv", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "ne",
    "neg", "negative", "nextafter", "nonzero", "norm", "normal", "not_equal", "numel", "one_hot", "ones",
    "ones_like", "outer", "pad", "permute", "pow", "prod", "promote_types", "quantile", "rad2deg", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "ravel", "reciprocal", "relu",
    "relu6", "remainder", "repeat_interleave", "reshape", "result_type", "roll", "round", "rsqrt", "rsub", "save",
    "scatter", "scatter_add", "scatter_reduce", "searchsorted", "select", "selu", "set_default_device",
    "set_float32_matmul_precision", "set_num_threads", "set_printoptions", "short", "sigmoid", "sign", "signbit",
    "silu", "sin", "sinc", "sinh", "softmax", "softplus", "softsign", "sort", "split", "sqrt", "square", "squeeze",
    "stack", "std", "std_mean", "sub", "subtract", "sum", "swapaxes", "swapdims", "synchronize", "t", "take",
    "take_along_dim", "tan", "tanh", "tensor", "tensordot", "tile", "topk", "trace", "transpose", "tril", "triu",
    "true_divide", "trunc", "uint16", "uint32", "uint64", "uint8", "unbind", "unflatten", "unique",
    "unique_consecutive", "unsqueeze", "var", "var_mean", "vdot", "vstack", "where", "xlogy", "zeros", "zeros_like",
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

if autograd.TYPE_CHECKING:
    from . import array_api as array_api
    from . import data as data
    from . import models as models
    from . import nn as nn
    from . import optim as optim


def __getattr__(name: str) -> object:
    """These are imported when they are first used."""
    if name in ("array_api", "data", "models", "nn", "optim"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
