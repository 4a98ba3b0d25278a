"""Rotary position embedding as functions (Su et al., arXiv 2104.09864)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import _core
from ..._core import Tensor

__all__ = ["rope", "rope_table"]

_KINDS = ("default", "linear", "dynamic", "llama3", "yarn")
_NAMES = {  # Hugging Face's names of the numbers, as _core._rope_table takes them after the base
    "factor": "factor",
    "original": "original_max_position_embeddings",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "attention_factor": "attention_factor",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
}


def _kind(scaling: Mapping[str, Any] | None) -> str:
    """The name of a scaling; "type" is the older key."""
    name: str = (scaling or {}).get("rope_type") or (scaling or {}).get("type") or "default"
    if name not in _KINDS:
        raise ValueError(f"unknown scaling of rotary embeddings {name!r}: {', '.join(_KINDS)}")
    return name


def rope_table(
    n: int,
    dim: int,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    *,
    start: int = 0,
    length: int = 0,
    dtype: _core.dtype = _core.float32,
    device: Any = None,
) -> Tensor:
    """The cosines, then the sines, of the positions start .. start + n - 1, computed in double : (n,
    dim).  Pair i of dim / 2 turns by position / base^(2 i / dim).  scaling: ``rope_scaling`` (or
    ``rope_parameters``) of Hugging Face's configs: "rope_type" is "default", "linear", "dynamic",
    "llama3" or "yarn", beside "factor", "original_max_position_embeddings" (all but linear),
    "low_freq_factor" and "high_freq_factor" (llama3), "beta_fast", "beta_slow", "attention_factor",
    "mscale", "mscale_all_dim" and "truncate" (yarn).  length: positions of the whole sequence, which
    "dynamic" scales by; start + n when 0."""
    kind, given = _kind(scaling), {} if scaling is None else scaling
    if dtype not in (_core.float32, _core.float64):
        raise RuntimeError(f"[rope_table] the dtype must be float32 or float64: {dtype}")
    missing = [
        _NAMES[k]
        for k in ("factor", "original")[: {"default": 0, "linear": 1}.get(kind, 2)]
        if not given.get(_NAMES[k])
    ]
    if missing:
        raise ValueError(f"[rope_table] the scaling {kind!r} needs {' and '.join(missing)}: {dict(given)}")
    numbers = _core.tensor([base, *(float(given.get(name) or 0) for name in _NAMES.values())], dtype=_core.float64)
    truncate = bool(given.get("truncate", True))
    table = _core._rope_table(n, dim, start, length, _KINDS.index(kind), numbers, truncate, dtype is _core.float64)
    return table if device is None else table.to(device)


def rope(
    input: Tensor, table: Tensor, positions: Tensor | None = None, *, offset: int = 0, interleaved: bool = False
) -> Tensor:
    """Pairs (a, b) of columns become (a cos - b sin, b cos + a sin) : (..., T, D), (P, R) -> (..., T,
    D).  table: of ``rope_table``, float64 for float64, else float32; row p is for position p.  R is at
    most D, and the columns from R on pass.  positions: integers (T,) or, for x (B, H, T, D), (B, T);
    when absent offset .. offset + T - 1.  Pair i is columns i and i + R / 2 (GPT-NeoX, Hugging Face's
    Llama), or 2 i and 2 i + 1 where ``interleaved`` (the paper, Meta's Llama).  The gradient turns by
    the opposite angle."""
    if positions is None:
        if offset == 0 and input.size(-2) == table.size(0):
            return _core._rope(input, table, interleaved)
        if offset < 0 or offset + input.size(-2) > table.size(0):
            raise IndexError(
                f"[rope] positions {offset} to {offset + input.size(-2) - 1} of a table of {table.size(0)} rows"
            )
        return _core._rope(input, table.narrow(0, offset, input.size(-2)), interleaved)
    rows = table[positions]
    if positions.ndim > 1:  # batches: the axes between them and T are heads
        rows = rows.reshape(*positions.shape[:-1], *(1,) * (input.ndim - positions.ndim - 1), *rows.shape[-2:])
    return _core._rope(input, rows, interleaved)
