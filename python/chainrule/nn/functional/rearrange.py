"""Elements rearranged: blocks of an image as columns and back, channels as pixels and back, channels mixed."""

from __future__ import annotations

from collections.abc import Sequence

from ... import _core
from ..._core import Tensor

__all__ = ["channel_shuffle", "fold", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "unfold"]

IntPair = int | Sequence[int]


def _pair(name: str, what: str, value: IntPair, least: int) -> tuple[int, int]:
    """A number for both axes, or one for each."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2:
        raise RuntimeError(f"[{name}] {what} must be an integer or two, got {value}")
    if min(pair) < least:
        raise RuntimeError(f"[{name}] {what} should be at least {least}, but got {list(pair)}")
    return pair[0], pair[1]


class _Blocks:
    """The blocks of kernel_size that slide over an image of padded sizes: how many, and how far each reaches."""

    def __init__(
        self, name: str, size: Sequence[int], kernel: IntPair, dilation: IntPair, padding: IntPair, stride: IntPair
    ):
        self.kernel, self.dilation = _pair(name, "kernel_size", kernel, 1), _pair(name, "dilation", dilation, 1)
        self.padding, self.stride = _pair(name, "padding", padding, 0), _pair(name, "stride", stride, 1)
        self.padded = [n + 2 * p for n, p in zip(size, self.padding, strict=True)]
        self.reach = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        self.count = [(n - r) // s + 1 for n, r, s in zip(self.padded, self.reach, self.stride, strict=True)]
        if min(self.count) < 1:
            raise RuntimeError(
                f"[{name}] the array of sliding blocks has shape {self.count}: kernel_size {list(self.kernel)},"
                f" dilation {list(self.dilation)}, padding {list(self.padding)} and stride {list(self.stride)} for"
                f" {list(size)}"
            )

    def offsets(self, device: _core.Device) -> Tensor:
        """Where each element of each block lies in the padded image : (kh kw oh ow)"""
        rows, columns = (
            d * _core.arange(k).unsqueeze(1) + s * _core.arange(n)
            for k, d, s, n in zip(self.kernel, self.dilation, self.stride, self.count, strict=True)
        )
        return (rows[:, None, :, None] * self.padded[1] + columns[None, :, None, :]).flatten().to(device)


def unfold(
    input: Tensor, kernel_size: IntPair, dilation: IntPair = 1, padding: IntPair = 0, stride: IntPair = 1
) -> Tensor:
    """Each block of an image as a column : (N, C, H, W) -> (N, C kh kw, L), L blocks, or without N."""
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input,"
            f" but got: {list(input.shape)}"
        )
    blocks = _Blocks("unfold", input.shape[-2:], kernel_size, dilation, padding, stride)
    (top, left), (dh, dw) = blocks.padding, blocks.dilation
    x = _core.pad(input, (left, left, top, top)) if top or left else input
    for axis in (0, 1):
        x = x.unfold(axis - 2 - axis, blocks.reach[axis], blocks.stride[axis])
    x = x[..., ::dh, ::dw].movedim((-2, -1), (-4, -3))  # (..., C, kh, kw, oh, ow)
    return x.flatten(-2).flatten(-4, -2)


def fold(
    input: Tensor,
    output_size: IntPair,
    kernel_size: IntPair,
    dilation: IntPair = 1,
    padding: IntPair = 0,
    stride: IntPair = 1,
) -> Tensor:
    """Adds up the columns of ``unfold`` where their blocks lie : (N, C kh kw, L) -> (N, C,
    *output_size), or without N."""
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for"
            f" input, but got: {list(input.shape)}"
        )
    size = _pair("fold", "output_size", output_size, 1)
    blocks = _Blocks("fold", size, kernel_size, dilation, padding, stride)
    (kh, kw), (oh, ow) = blocks.kernel, blocks.count
    if input.size(-2) % (kh * kw):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got"
            f" input.size(1)={input.size(-2)} and kernel_size={blocks.kernel}."
        )
    if input.size(-1) != oh * ow:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={blocks.kernel}, dilation={blocks.dilation}, "
            f"padding={blocks.padding}, stride={blocks.stride}, expected size of input's dimension 2 to match the"
            " calculated number of sliding"
            f" blocks {oh} * {ow} = {oh * ow}, but got input.size(2)={input.size(-1)}."
        )
    columns = input.unflatten(-2, (-1, kh * kw)).flatten(-2)  # (..., C, kh kw oh ow)
    height, width = blocks.padded
    image = input.new_zeros(*columns.shape[:-1], height * width)
    image = image.index_add(-1, blocks.offsets(input.device), columns).unflatten(-1, (height, width))
    top, left = blocks.padding
    return image[..., top : top + size[0], left : left + size[1]]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Each r x r channels as a block of pixels : (..., C r r, H, W) -> (..., C, H r, W r) (Shi et al. 2016)"""
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if input.size(-3) % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but"
            f" input.size(-3)={input.size(-3)} is not divisible by {r * r}"
        )
    x = input.unflatten(-3, (input.size(-3) // (r * r), r, r))  # (..., C, r, r, H, W)
    return x.movedim((-4, -3), (-3, -1)).flatten(-2).flatten(-3, -2)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Undoes ``pixel_shuffle`` : (..., C, H r, W r) -> (..., C r r, H, W)"""
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    for what, size in (("height", input.size(-2)), ("width", input.size(-1))):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but {size} is not"
                f" divisible by {r}"
            )
    x = input.unflatten(-1, (input.size(-1) // r, r)).unflatten(-3, (input.size(-2) // r, r))  # (..., C, H, r, W, r)
    return x.movedim((-3, -1), (-4, -3)).flatten(-5, -3)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of ``groups`` groups in turn : (N, C, ...) -> (N, C, ...) (Zhang et al. 2018)"""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if input.size(1) % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.size(1)} channels and {groups} groups."
        )
    return input.unflatten(1, (groups, input.size(1) // groups)).transpose(1, 2).flatten(1, 2)


native_channel_shuffle = channel_shuffle
