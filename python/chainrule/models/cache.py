"""Keys and values of earlier positions: tensors of a float type, or int8 with a scale for each head and
position.  The C engine writes and reads them (src/models/cache.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .. import _core
from .._core import Tensor

if TYPE_CHECKING:
    from .decoder import Decoder

__all__ = ["Int8", "Store", "caches"]


class Int8(NamedTuple):
    """Keys or values (B, KV, room, D) as int8, each row of D with a scale."""

    codes: Tensor
    scale: Tensor

    def index_select(self, dim: int, index: Tensor) -> Int8:
        """The rows of a batch, as of a tensor."""
        return Int8(self.codes.index_select(dim, index), self.scale.index_select(dim, index))


Store: TypeAlias = Tensor | Int8


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
