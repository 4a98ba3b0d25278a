"""PyTorch's namespace over chainrule: ``import chainrule.torch as torch``, or ``python -m chainrule.torch train.py``
for a script that says ``import torch``.

A name is chainrule's own where chainrule has it.  What is only PyTorch's history is in this package.  A name that is
missing raises an error that says what to use.  Importing this package adds the old methods of tensors
(``legacy.py``) to ``chainrule.Tensor``, and changes nothing else of chainrule."""

from __future__ import annotations

import builtins as _builtins
import math as _math
import sys as _sys
from collections.abc import Callable as _Callable
from importlib import import_module as _import_module
from typing import Any as _Any

import chainrule as _cr

from . import _alias, _missing, _names

_alias.install_finder()

from ..autograd import is_inference_mode_enabled as is_inference_mode_enabled  # noqa: E402
from . import legacy as _legacy  # noqa: E402
from ._install import install as install  # noqa: E402
from ._memory import from_file as from_file  # noqa: E402
from ._memory import over as _over  # noqa: E402
from .legacy import (  # noqa: E402, F401
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    Tensor,
    device,
    layout,
    memory_format,
    set_default_tensor_type,
    typename,
)
from .version import __version__ as __version__  # noqa: E402

pi, e, inf, nan = _math.pi, _math.e, _math.inf, _math.nan
newaxis = None
sgn = _cr.sign
strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
sparse_csc, sparse_bsr, sparse_bsc = layout("sparse_csc"), layout("sparse_bsr"), layout("sparse_bsc")
jagged = layout("jagged")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
has_mps = has_cuda = has_mkl = has_mkldnn = has_lapack = False
has_openmp = True
ByteStorage = FloatStorage = LongStorage = _legacy.Storage
Storage = TypedStorage = _legacy.Storage
UntypedStorage = _legacy.UntypedStorage

# Names of torch that are elsewhere in chainrule with the same arguments.
_FUNCTIONAL = """adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d bilinear binary_cross_entropy_with_logits celu_
channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss
cosine_similarity ctc_loss hardshrink hinge_embedding_loss kl_div layer_norm margin_ranking_loss max_pool1d max_pool2d
max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu rms_norm rrelu threshold
triplet_margin_loss native_channel_shuffle""".split()
_NAMES = dict.fromkeys(_FUNCTIONAL, "chainrule.torch.nn.functional")
_NAMES |= dict.fromkeys(
    """autocast is_autocast_enabled is_autocast_available set_autocast_enabled get_autocast_dtype clear_autocast_cache
    GradScaler""".split(),
    "chainrule.torch.amp",
)
_NAMES |= {"Stream": "chainrule.torch.cuda", "Event": "chainrule.torch.cuda", "vmap": "chainrule.torch.func"}
_NAMES |= {"ScriptModule": "chainrule.torch.jit", "finfo": "chainrule.torch._absent"}
_NAMES |= {
    f"{name}_window": "chainrule.torch._windows" for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
}
_NAMES |= dict.fromkeys(
    """cholesky cholesky_inverse cholesky_solve det geqrf inverse lobpcg logdet lu lu_solve lu_unpack matrix_exp
    matrix_power orgqr ormqr pca_lowrank pinverse qr slogdet svd svd_lowrank triangular_solve""".split(),
    "chainrule.torch._linalg",
)
_NAMES |= dict.fromkeys(
    """angle as_strided_scatter chain_matmul empty_strided gradient igamma igammac isreal narrow_copy nonzero_static put
    scalar_tensor unravel_index unsafe_chunk unsafe_split""".split(),
    "chainrule.torch._composed",
)
_forward = _names.forward(__name__, "chainrule", names=_NAMES)


def __getattr__(name: str) -> _Any:
    if name.endswith("_") and not name.startswith("_") and hasattr(_cr.Tensor, name):
        return getattr(_cr.Tensor, name)  # torch.sigmoid_(x)
    if name.startswith("_foreach_") and hasattr(_cr.Tensor, name.removeprefix("_foreach_")):
        from ._foreach import function

        return function(name)
    if name in _missing.DTYPES:
        from ._absent import dtype

        return dtype(name)
    if name == "__config__":
        return _import_module(f"{__package__}.__config__")
    if name == "torch":
        return _sys.modules[__package__]
    return _forward(name)


# ---- functions that only ask, set or adapt ----


def is_storage(obj: object) -> bool:
    return isinstance(obj, _legacy.Storage)


def is_complex(input: _cr.Tensor) -> bool:
    """No tensor is: there are no complex numbers."""
    return False


def real(input: _cr.Tensor) -> _cr.Tensor:
    """The tensor: there are no complex numbers."""
    return input


def conj(input: _cr.Tensor) -> _cr.Tensor:
    """The tensor: there are no complex numbers."""
    return input


def adjoint(input: _cr.Tensor) -> _cr.Tensor:
    """The last two axes exchanged."""
    return input.transpose(-2, -1)


def is_conj(input: _cr.Tensor) -> bool:
    """No tensor is: there are no complex numbers."""
    return False


def is_nonzero(input: _cr.Tensor) -> bool:
    """The truth of the one element.  RuntimeError: there is not exactly one."""
    return _builtins.bool(input)


def is_signed(input: _cr.Tensor) -> bool:
    """Can the dtype hold negative numbers?"""
    return input.dtype.is_signed


def is_same_size(input: _cr.Tensor, other: _cr.Tensor) -> bool:
    return input.shape == other.shape


def is_inference(input: _cr.Tensor) -> bool:
    """No tensor is bound to inference mode."""
    return False


def is_anomaly_enabled() -> bool:
    before = _cr._core._set_anomaly(False)
    _cr._core._set_anomaly(before)
    return before


def get_device(input: _cr.Tensor) -> int:
    """The number of the tensor's GPU, -1 for the processor."""
    return _legacy.get_device(input)


def frombuffer(
    buffer: _Any, *, dtype: _cr.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> _cr.Tensor:
    """A vector over memory with Python's buffer protocol: ``count`` elements, all when -1, from byte ``offset`` on."""
    memory = memoryview(buffer).cast("B")[offset:]
    whole = len(memory) // dtype.itemsize * dtype.itemsize if count < 0 else count * dtype.itemsize
    if whole > len(memory):
        raise ValueError(f"frombuffer: {count} elements of {dtype} need {whole} bytes, there are {len(memory)}")
    return _over(memory[:whole], dtype).requires_grad_(requires_grad)


def range(start: float, end: float | None = None, step: float = 1, **options: _Any) -> _cr.Tensor:
    """start, start + step, ... up to and with ``end``, as floats; ``arange`` leaves ``end`` out."""
    first, last = (0, start) if end is None else (start, end)
    if not step or (last - first) / step < 0:
        raise RuntimeError(
            "step must be nonzero" if not step else "upper bound and lower bound inconsistent with step sign"
        )
    options.setdefault("dtype", _cr.get_default_dtype())
    return _cr.arange(first, first + (_math.floor((last - first) / step) + 0.5) * step, step, **options)


def to_dlpack(tensor: _cr.Tensor) -> _Any:
    """A DLPack capsule over the tensor's memory."""
    return tensor.__dlpack__()


def _amp_foreach_non_finite_check_and_unscale_(grads: _Any, found_inf: _cr.Tensor, inv_scale: _cr.Tensor) -> None:
    """Multiplies gradients by ``inv_scale``; found_inf becomes 1 where one of them is not finite."""
    for g in grads:
        if not g.isfinite().all():
            found_inf.fill_(1)
        g.mul_(inv_scale)


def spmm(input: _cr.Tensor, mat2: _cr.Tensor) -> _cr.Tensor:
    """``mm``: sparse matrices are dense tensors here."""
    return input.mm(mat2)


def sparse_coo_tensor(
    indices: _Any, values: _Any, size: _Any = None, *, dtype: _cr.dtype | None = None, **options: _Any
) -> _cr.Tensor:
    """A dense tensor with ``values`` at ``indices`` (axes, n), equal indices added, and zeros elsewhere."""
    from .sparse import dense

    return dense(indices, values, size, dtype, options)


def dropout(input: _cr.Tensor, p: float, train: bool) -> _cr.Tensor:
    return _cr.nn.functional.dropout(input, p, train)


def embedding(weight: _cr.Tensor, indices: _cr.Tensor, padding_idx: int = -1, *unused: bool) -> _cr.Tensor:
    """weight[indices]; the functional form takes them in the other order."""
    return _cr.nn.functional.embedding(indices, weight, padding_idx if padding_idx >= 0 else None)


def group_norm(
    input: _cr.Tensor,
    num_groups: int,
    weight: _cr.Tensor | None = None,
    bias: _cr.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> _cr.Tensor:
    return _cr.nn.functional.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: _cr.Tensor,
    weight: _cr.Tensor | None,
    bias: _cr.Tensor | None,
    running_mean: _cr.Tensor | None,
    running_var: _cr.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> _cr.Tensor:
    return _cr.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


# ---- switches: accepted, and remembered where they can be asked for.  Results are deterministic without them ----

_settings: dict[str, _Any] = {"deterministic": False, "warn_only": False, "interop": 1, "warn_always": False}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Every result has the same bits in every run, with or without this."""
    _settings.update(deterministic=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    return _builtins.bool(_settings["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _builtins.bool(_settings["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    _settings["deterministic"] = debug_mode not in (0, "default")


def get_deterministic_debug_mode() -> int:
    return 2 * _builtins.bool(_settings["deterministic"])


def set_warn_always(b: bool) -> None:
    _settings["warn_always"] = b


def is_warn_always_enabled() -> bool:
    return _builtins.bool(_settings["warn_always"])


def get_num_interop_threads() -> int:
    return _builtins.int(_settings["interop"])


def set_num_interop_threads(num: int) -> None:
    """One op runs at a time, on all threads; the number is only remembered."""
    _settings["interop"] = num


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers stay."""
    return False


def compiled_with_cxx11_abi() -> bool:
    return True


def _assert(condition: _Any, message: str) -> None:
    assert condition, message


_Function = _Callable[..., _Any]
