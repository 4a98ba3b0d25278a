"""``torch._utils``: several tensors as one vector."""

from __future__ import annotations

from typing import Any

import chainrule as cr


def _flatten_dense_tensors(tensors: Any) -> cr.Tensor:
    """The elements of all tensors one after the other."""
    return cr.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: cr.Tensor, tensors: Any) -> tuple[cr.Tensor, ...]:
    """Views of a vector in the shapes of the tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))
