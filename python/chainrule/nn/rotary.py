"""Rotary position embedding as a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .._core import Tensor
from . import functional as F
from .functional.rotary import _kind
from .module import Module

__all__ = ["RotaryEmbedding"]


class RotaryEmbedding(Module):
    """Rotary position embedding (Su et al., arXiv 2104.09864) of queries or keys : (..., T, dim) -> (...,
    T, dim); wider inputs pass from column ``dim`` on.  base, scaling, interleaved: as in
    ``functional.rope_table`` and ``functional.rope``.  The table grows with the positions that are
    asked for and is no part of the state.

    "dynamic" scales by the length of the sequence: positions beyond the original number get new
    frequencies at each length, as in Hugging Face's models."""

    def __init__(
        self, dim: int, base: float = 10000.0, scaling: Mapping[str, Any] | None = None, interleaved: bool = False
    ) -> None:
        super().__init__()
        self.dim, self.base, self.interleaved = dim, base, interleaved
        self.scaling = None if scaling is None else dict(scaling)
        self._original = (
            (scaling or {}).get("original_max_position_embeddings", 0) if _kind(scaling) == "dynamic" else None
        )
        self._tables: dict[tuple[str, _core.dtype], Tensor] = {}
        F.rope_table(0, dim, base, scaling)  # the arguments are checked now

    def _table(self, x: Tensor, start: int, length: int) -> tuple[Tensor, int]:
        """Rows that hold the positions start .. length - 1, and the position of the first."""
        wide = _core.float64 if x.dtype is _core.float64 else _core.float32
        if self._original is not None and length > self._original:
            return (
                F.rope_table(
                    length - start, self.dim, self.base, self.scaling, start=start, dtype=wide, device=x.device
                ),
                start,
            )
        key = (str(x.device), wide)
        table = self._tables.get(key)
        if table is None or table.size(0) < length:
            n = max(256, 1 << max(0, length - 1).bit_length())
            n = n if self._original is None else min(n, int(self._original))
            table = self._tables[key] = F.rope_table(n, self.dim, self.base, self.scaling, dtype=wide, device=x.device)
        return table, 0

    def forward(self, input: Tensor, positions: Tensor | None = None, *, offset: int = 0) -> Tensor:
        length = offset + input.size(-2) if positions is None else int(positions.max()) + 1 if positions.numel() else 0
        start = offset if positions is None else 0
        table, first = self._table(input, start, length)
        if positions is not None:
            return F.rope(input, table, positions, interleaved=self.interleaved)
        return F.rope(input, table, offset=offset - first, interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, base={self.base}, scaling={self.scaling}, interleaved={self.interleaved}"
