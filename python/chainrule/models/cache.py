"""Keys and values of earlier positions: tensors of a float type, or int8 with a scale for each head and
position."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .. import _core
from .._core import Tensor

if TYPE_CHECKING:
    from .decoder import Decoder

__all__ = ["Int8", "Store", "caches", "write"]


class Int8:
    """Keys or values (B, KV, room, D) as int8, each row of D with a scale."""

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        self.codes, self.scale = codes, scale

    def write(self, new: Tensor, past: int) -> Tensor:
        """Writes (B, KV, T, D) after ``past`` positions; all of them in the dtype of ``new``."""
        T, x = new.size(2), new.float()
        scale = (x.abs().amax(3, keepdim=True) * (1.0 / 127)).clamp(min=1e-30)
        self.scale.narrow(2, past, T).copy_(scale)
        self.codes.narrow(2, past, T).copy_((x / scale).round())
        codes, scale = (store.narrow(2, 0, past + T) for store in (self.codes, self.scale))
        return (codes.float() * scale).to(new.dtype)

    def index_select(self, dim: int, index: Tensor) -> Int8:
        """The rows of a batch, as of a tensor."""
        return Int8(self.codes.index_select(dim, index), self.scale.index_select(dim, index))


Store: TypeAlias = Tensor | Int8


def write(store: Store, new: Tensor, past: int) -> Tensor:
    """Writes new keys or values (B, KV, T, D) after ``past`` positions of a store -> all past + T of them."""
    if isinstance(store, Int8):
        return store.write(new, past)
    store.narrow(2, past, new.size(2)).copy_(new)
    whole = store.narrow(2, 0, past + new.size(2))
    return whole if whole.dtype is new.dtype else whole.to(new.dtype)


def caches(model: Decoder, room: int, dtype: _core.dtype | None, rows: int = 1) -> list[tuple[Store, Store]]:
    """Stores for the keys and values of each layer, zeros.  dtype: of floats, or int8; the weights' when absent.
    TypeError: another one."""
    p = model.like
    dtype = dtype or p.dtype
    shape = (rows, *model.cache_shape(room)[1:])
    if dtype is _core.int8:
        scales = (*shape[:3], 1)

        def make() -> Store:
            return Int8(p.new_zeros(shape, dtype=dtype), p.new_zeros(scales, dtype=_core.float32))
    elif isinstance(dtype, _core.dtype) and dtype.is_floating_point:

        def make() -> Store:
            return p.new_zeros(shape, dtype=dtype)
    else:
        raise TypeError(f"[generate] a cache is of a float type or int8, not {dtype!r}")
    return [(make(), make()) for _ in model.blocks]
