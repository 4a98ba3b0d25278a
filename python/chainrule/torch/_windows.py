"""``torch.hann_window`` and its relatives: weighted sums of cosines over the window."""

from __future__ import annotations

import math
from typing import Any

import chainrule as cr


def _cosines(length: int, periodic: bool, weights: tuple[float, ...], options: dict[str, Any]) -> cr.Tensor:
    """sum_k w_k cos(2 pi k i / n), n = length if periodic else length - 1"""
    if length < 0:
        raise RuntimeError(f"window_length must be non-negative, got {length}")
    angle = cr.arange(length, dtype=cr.float64) * (2 * math.pi / max(length if periodic else length - 1, 1))
    found = sum((w * (k * angle).cos() for k, w in enumerate(weights)), cr.zeros(length, dtype=cr.float64))
    options.setdefault("dtype", cr.get_default_dtype())
    gradient = options.pop("requires_grad", False)
    kept = {name: options[name] for name in ("dtype", "device") if options.get(name)}
    return (cr.ones(length, dtype=cr.float64) if length == 1 else found).to(**kept).requires_grad_(gradient)


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> cr.Tensor:
    return _cosines(window_length, periodic, (0.5, -0.5), options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> cr.Tensor:
    return _cosines(window_length, periodic, (alpha, -beta), options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> cr.Tensor:
    return _cosines(window_length, periodic, (0.42, -0.5, 0.08), options)
