"""``torch.hann_window`` and its relatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import chainrule as cr


def _made(length: int, periodic: bool, formula: Callable[[cr.Tensor], cr.Tensor], options: dict[str, Any]) -> cr.Tensor:
    """The formula at i / n in float64, n = length if periodic else length - 1."""
    if length < 0:
        raise RuntimeError(f"window_length must be non-negative, got {length}")
    found = formula(cr.arange(length, dtype=cr.float64) / max(length if periodic else length - 1, 1))
    options.setdefault("dtype", cr.get_default_dtype())
    gradient = options.pop("requires_grad", False)
    kept = {name: options[name] for name in ("dtype", "device") if options.get(name)}
    return (cr.ones(length, dtype=cr.float64) if length == 1 else found).to(**kept).requires_grad_(gradient)


def _cosines(length: int, periodic: bool, weights: tuple[float, ...], options: dict[str, Any]) -> cr.Tensor:
    """sum_k w_k cos(2 pi k i / n)"""

    def formula(at: cr.Tensor) -> cr.Tensor:
        angle = 2 * math.pi * at
        return sum((w * (k * angle).cos() for k, w in enumerate(weights)), cr.zeros_like(at))

    return _made(length, periodic, formula, options)


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> cr.Tensor:
    return _cosines(window_length, periodic, (0.5, -0.5), options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> cr.Tensor:
    return _cosines(window_length, periodic, (alpha, -beta), options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> cr.Tensor:
    return _cosines(window_length, periodic, (0.42, -0.5, 0.08), options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> cr.Tensor:
    return _made(window_length, periodic, lambda at: 1 - (2 * at - 1).abs(), options)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> cr.Tensor:
    """i0(beta sqrt(1 - (2 i / n - 1)^2)) / i0(beta)"""
    top = cr.tensor(beta, dtype=cr.float64).i0()
    return _made(
        window_length, periodic, lambda at: (beta * (1 - (2 * at - 1) ** 2).clamp(min=0).sqrt()).i0() / top, options
    )
