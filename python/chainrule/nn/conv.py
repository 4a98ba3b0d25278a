"""Convolutions and transposed convolutions over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _core
from .._core import Device, Tensor
from . import functional as F
from .linear import draw, new
from .module import Module
from .parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_Sizes = int | Sequence[int]
_MODES = ("zeros", "reflect", "replicate", "circular")


def _each(value: _Sizes, axes: int) -> tuple[int, ...]:
    """An int for each axis."""
    return (value,) * axes if isinstance(value, int) else tuple(value)


class _ConvNd(Module):
    """What the layers share: arguments, a tuple with an int for each axis where that matters, parameters, text."""

    bias: Parameter | None
    padding: str | tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, but got {groups}")
        if in_channels % groups:
            raise ValueError(f"in_channels must be divisible by groups, but got {in_channels} and {groups}")
        if out_channels % groups:
            raise ValueError(f"out_channels must be divisible by groups, but got {out_channels} and {groups}")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels,
            out_channels,
            groups,
            padding_mode,
        )
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"padding must be 'same', 'valid' or ints, but got padding='{padding}'")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self._reversed_padding_repeated_twice = self._margins()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = new(first, second // groups, *self.kernel_size, device=device, dtype=dtype)
        self.register_parameter("bias", new(out_channels, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias anew."""
        inputs = self.weight.shape[1] * math.prod(self.kernel_size)
        if inputs:
            draw(1 / math.sqrt(inputs), self.weight, self.bias)

    def _margins(self) -> Sequence[int]:
        """The padding as F.pad takes it: before and behind the last axis, then the one before..."""
        if self.padding == "valid":
            return [0] * (2 * len(self.kernel_size))
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [v for t in reversed(total) for v in (t // 2, t - t // 2)]
        assert not isinstance(self.padding, str)
        return tuple(p for p in reversed(self.padding) for _ in range(2))

    def extra_repr(self) -> str:
        none = (0,) * len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != none:
            text += f", padding={self.padding!r}" if isinstance(self.padding, tuple) else f", padding={self.padding}"
        if self.dilation != (1,) * len(self.kernel_size):
            text += f", dilation={self.dilation}"
        if self.output_padding != none:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    _axes: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: str | _Sizes = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        n = self._axes
        super().__init__(
            in_channels,
            out_channels,
            _each(kernel_size, n),
            _each(stride, n),
            padding if isinstance(padding, str) else _each(padding, n),
            _each(dilation, n),
            False,
            _each(0, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *in) -> (N, OC, *out), or (C, *in) -> (OC, *out)"""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        run = (F.conv1d, F.conv2d, F.conv3d)[self._axes - 1]
        padding: str | tuple[int, ...] = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._axes
        return run(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """``functional.conv1d`` : (N, C, L) -> (N, OC, OL), or (C, L) -> (OC, OL).
    weight (out_channels, in_channels / groups, kernel_size) and bias (out_channels) start in U(-b, b),
    b = 1 / sqrt(in_channels / groups * kernel_size).  padding: ints, "same" or "valid"; padding_mode: "zeros",
    "reflect", "replicate" or "circular"."""

    _axes = 1


class Conv2d(_Conv):
    """``functional.conv2d`` : (N, C, H, W) -> (N, OC, OH, OW), or without N.
    weight (out_channels, in_channels / groups, *kernel_size); otherwise as ``Conv1d``."""

    _axes = 2


class Conv3d(_Conv):
    """``functional.conv3d`` : (N, C, D, H, W) -> (N, OC, OD, OH, OW), or without N.
    weight (out_channels, in_channels / groups, *kernel_size); otherwise as ``Conv1d``."""

    _axes = 3


class _ConvTransposeNd(_ConvNd):
    """What the transposed ones share: ``_ConvNd`` but for the padding by zeros and the sizes of the result."""

    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """The output padding that gives the spatial sizes ``output_size``, which may have N and OC in front."""
        if output_size is None:
            return self.output_padding
        n = num_spatial_dims
        lead = input.ndim - n
        if lead < 1 or len(output_size) not in (n, n + lead):
            raise ValueError(
                f"{type(self).__name__}: for {input.ndim}D input, output_size must have {n} or {n + lead} elements"
                f" (got {len(output_size)})"
            )
        wanted = tuple(output_size)[-n:]
        least = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(
                input.shape[lead:], stride, padding, dilation or (1,) * n, kernel_size, strict=True
            )
        ]
        if any(not a <= w < a + s for a, w, s in zip(least, wanted, stride, strict=True)):
            most = [a + s - 1 for a, s in zip(least, stride, strict=True)]
            raise ValueError(
                f"requested an output size of {list(wanted)}, but valid sizes range from {least} to {most}"
                f" (for an input of {tuple(input.shape[lead:])})"
            )
        return tuple(w - a for a, w in zip(least, wanted, strict=True))


class _ConvTranspose(_ConvTransposeNd):
    _axes: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: _Sizes = 0,
        output_padding: _Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Sizes = 1,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        n = self._axes
        super().__init__(
            in_channels,
            out_channels,
            _each(kernel_size, n),
            _each(stride, n),
            _each(padding, n),
            _each(dilation, n),
            True,
            _each(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, *in) -> (N, OC, *out), or without N.  output_size: the spatial sizes of the result, among those
        that the stride leaves open."""
        run = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._axes - 1]
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._axes, self.dilation
        )
        return run(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """``functional.conv_transpose1d`` : (N, C, L) -> (N, OC, OL), or without N.
    weight (in_channels, out_channels / groups, kernel_size) and bias (out_channels) start in U(-b, b),
    b = 1 / sqrt(out_channels / groups * kernel_size)."""

    _axes = 1


class ConvTranspose2d(_ConvTranspose):
    """``functional.conv_transpose2d`` : (N, C, H, W) -> (N, OC, OH, OW), or without N.
    weight (in_channels, out_channels / groups, *kernel_size); otherwise as ``ConvTranspose1d``."""

    _axes = 2


class ConvTranspose3d(_ConvTranspose):
    """``functional.conv_transpose3d`` : (N, C, D, H, W) -> (N, OC, OD, OH, OW), or without N.
    weight (in_channels, out_channels / groups, *kernel_size); otherwise as ``ConvTranspose1d``."""

    _axes = 3
