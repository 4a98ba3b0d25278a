"""Convolutions (cross-correlations) and their transposes over one to three spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import _core
from ..._core import Tensor

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

_Sizes = int | Sequence[int]


def _conv(
    run: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: _Sizes,
    padding: str | _Sizes,
    dilation: _Sizes,
    groups: int,
) -> Tensor:
    if not isinstance(padding, str):
        return run(input, weight, stride, padding, dilation, groups, False, bias)
    if padding not in ("same", "valid"):
        raise RuntimeError(f"Invalid padding string: '{padding}'; expected 'same' or 'valid'")
    return run(input, weight, stride, 0, dilation, groups, padding == "same", bias)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: str | _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """y[o, p] = bias[o] + sum of x[c, p stride + t dilation - padding] weight[o, c, t] : (N, C, L),
    (OC, C / groups, K), (OC) -> (N, OC, OL); without a batch (C, L) -> (OC, OL).
    OL = (L + 2 padding - dilation (K - 1) - 1) / stride + 1, rounded down.
    padding: ints, "valid" (none) or "same" (OL is L, for stride 1; an odd zero lies behind).
    groups: C / groups channels give OC / groups outputs each."""
    return _conv(_core._conv1d, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: str | _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """``conv1d`` over two spatial axes : (N, C, H, W), (OC, C / groups, KH, KW), (OC) -> (N, OC, OH, OW).
    stride, padding and dilation: an int, or one for each axis."""
    return _conv(_core._conv2d, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: str | _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """``conv1d`` over three spatial axes : (N, C, D, H, W), (OC, C / groups, KD, KH, KW), (OC) -> (N, OC, OD, OH, OW).
    stride, padding and dilation: an int, or one for each axis."""
    return _conv(_core._conv3d, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    output_padding: _Sizes = 0,
    groups: int = 1,
    dilation: _Sizes = 1,
) -> Tensor:
    """The gradient of ``conv1d`` in its input, as a layer : (N, C, L), (C, OC / groups, K), (OC) -> (N, OC, OL).
    OL = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1.  output_padding, less than stride or
    dilation, chooses among the lengths that ``conv1d`` maps to L."""
    return _core._conv_transpose1d(input, weight, stride, padding, output_padding, groups, dilation, bias)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    output_padding: _Sizes = 0,
    groups: int = 1,
    dilation: _Sizes = 1,
) -> Tensor:
    """``conv_transpose1d`` over two spatial axes : (N, C, H, W), (C, OC / groups, KH, KW), (OC) -> (N, OC, OH, OW)."""
    return _core._conv_transpose2d(input, weight, stride, padding, output_padding, groups, dilation, bias)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    output_padding: _Sizes = 0,
    groups: int = 1,
    dilation: _Sizes = 1,
) -> Tensor:
    """``conv_transpose1d`` over three spatial axes : (N, C, D, H, W), (C, OC / groups, KD, KH, KW), (OC) ->
    (N, OC, OD, OH, OW)."""
    return _core._conv_transpose3d(input, weight, stride, padding, output_padding, groups, dilation, bias)
