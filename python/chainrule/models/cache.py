"""Keys and values of earlier positions: tensors of a float type, or int8 with a scale for each head and
position.  The C engine writes and reads them (src/models/cache.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from .._core import Tensor

__all__ = ["Int8", "Spans", "Store"]


class Int8(NamedTuple):
    """Keys or values (B, KV, room, D) as int8, each row of D with a scale."""

    codes: Tensor
    scale: Tensor


Store: TypeAlias = Tensor | Int8


class Spans(NamedTuple):
    """Several sequences side by side in one row of tokens, (1, N): the next lengths[s] tokens of sequence s
    follow the pasts[s] ones that its cache holds."""

    lengths: Sequence[int]
    pasts: Sequence[int]

    @classmethod
    def whole(cls, lengths: Sequence[int]) -> Spans:
        """Sequences from their first token on."""
        return cls([*lengths], [0] * len(lengths))
