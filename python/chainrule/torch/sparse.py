"""``torch.sparse``: sparse tensors are dense tensors here; results are the same, memory is not."""

from __future__ import annotations

from typing import Any

import chainrule as cr

from . import _names
from .legacy import DTYPES

__getattr__ = _names.forward(__name__)


def dense(indices: Any, values: Any, size: Any, dtype: cr.dtype | None, options: dict[str, Any]) -> cr.Tensor:
    """The tensor of ``torch.sparse_coo_tensor``."""
    known = {"device", "requires_grad", "check_invariants", "is_coalesced"}
    if options.keys() - known:
        raise TypeError(f"sparse_coo_tensor() got an unexpected keyword argument {min(options.keys() - known)!r}")
    place = {"device": options["device"]} if options.get("device") else {}
    at = cr.as_tensor(indices, dtype=cr.int64, **place)
    data = cr.as_tensor(values, dtype=dtype, **place)
    if at.ndim != 2 or data.ndim < 1 or at.shape[1] != data.shape[0]:
        raise ValueError(
            f"sparse_coo_tensor: indices are (axes, n) and values (n, ...), not {tuple(at.shape)} and"
            f" {tuple(data.shape)}"
        )
    if size is None:
        shape = [int(n) + 1 for n in at.amax(1).tolist()] + list(data.shape[1:])
    else:
        shape = [int(n) for n in size]
    found = cr.zeros(shape, dtype=data.dtype, device=data.device).index_put(tuple(at.unbind(0)), data, accumulate=True)
    return found.detach().requires_grad_() if options.get("requires_grad") else found


def mm(mat1: cr.Tensor, mat2: cr.Tensor) -> cr.Tensor:
    return mat1.mm(mat2)


def addmm(mat: cr.Tensor, mat1: cr.Tensor, mat2: cr.Tensor, *, beta: float = 1, alpha: float = 1) -> cr.Tensor:
    return cr.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: cr.Tensor, dim: Any = None, dtype: cr.dtype | None = None) -> cr.Tensor:
    x = input if dtype is None else input.to(dtype)
    return x.sum() if dim is None else x.sum(dim)


def _typed(dtype: cr.dtype) -> Any:
    def make(indices: Any, values: Any, size: Any = None) -> cr.Tensor:
        return dense(indices, values, size, dtype, {})

    return make


# torch.sparse.FloatTensor(indices, values, size) and its relatives
globals().update({name: _typed(dtype) for name, dtype in DTYPES.items()})
