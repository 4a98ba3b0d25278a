"""Grids of images, and image files."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import IO, Any

from .. import _core
from .._core import Tensor
from ..autograd import no_grad

__all__ = ["make_grid", "save_image"]


def _scaled(image: Tensor, low: float, high: float) -> Tensor:
    return (image.clamp(low, high) - low) / max(high - low, 1e-5)


@no_grad
def make_grid(
    tensor: Tensor | Sequence[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Images in rows of ``nrow`` : (B, C, H, W), (C, H, W), (H, W) or a list of (C, H, W) -> (C, rows (H + padding)
    + padding, columns (W + padding) + padding).  One channel becomes three.

    normalize: to [0, 1], from ``value_range`` or from the least and largest value of all images, or of each
    (scale_each).
    """
    if isinstance(tensor, Sequence):
        tensor = _core.stack(list(tensor))
    if not isinstance(tensor, Tensor) or not 2 <= tensor.ndim <= 4:
        raise TypeError(f"tensor or list of tensors expected, got a {type(tensor)}")
    x = tensor.detach()
    if x.ndim < 4:
        x = x.reshape((1,) * (4 - x.ndim) + tuple(x.shape))
    if x.size(1) == 1:
        x = x.expand(-1, 3, -1, -1)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        each = list(x) if scale_each else [x]
        each = [_scaled(i, *(value_range or (float(i.min().item()), float(i.max().item())))) for i in each]
        x = _core.stack(each) if scale_each else each[0]
    count, channels, height, width = x.shape
    if count == 1:
        return x[0]
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    height, width = height + padding, width + padding
    grid = _core.full(
        (channels, rows * height + padding, columns * width + padding), pad_value, dtype=x.dtype, device=x.device
    )
    for i in range(count):
        top, left = i // columns * height + padding, i % columns * width + padding
        grid[:, top : top + height - padding, left : left + width - padding] = x[i]
    return grid


@no_grad
def save_image(
    tensor: Tensor | Sequence[Tensor], fp: str | os.PathLike[str] | IO[bytes], format: str | None = None, **kwargs: Any
) -> None:
    """Writes ``make_grid(tensor, **kwargs)``, values in [0, 1], as an image file.  Needs Pillow."""
    from PIL import Image

    grid = make_grid(tensor, **kwargs).mul(255).add(0.5).clamp(0, 255).permute(1, 2, 0).to("cpu", _core.uint8)
    height, width, _ = grid.shape
    Image.frombytes("RGB", (width, height), bytes(grid.contiguous())).save(fp, format=format)
