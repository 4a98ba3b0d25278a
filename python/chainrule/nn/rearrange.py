"""Elements rearranged, as modules; shapes and errors are those of the functions."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Tensor
from . import functional as F
from .activation import _Activation

__all__ = ["ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold"]

IntPair = int | Sequence[int]


class Unfold(_Activation):
    """Each block of an image as a column : (N, C, H, W) -> (N, C kh kw, L)"""

    kernel_size: IntPair
    dilation: IntPair
    padding: IntPair
    stride: IntPair

    def __init__(self, kernel_size: IntPair, dilation: IntPair = 1, padding: IntPair = 0, stride: IntPair = 1) -> None:
        super().__init__(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Activation):
    """Adds up the columns of ``Unfold`` where their blocks lie : (N, C kh kw, L) -> (N, C, *output_size)"""

    output_size: IntPair
    kernel_size: IntPair
    dilation: IntPair
    padding: IntPair
    stride: IntPair

    def __init__(
        self,
        output_size: IntPair,
        kernel_size: IntPair,
        dilation: IntPair = 1,
        padding: IntPair = 0,
        stride: IntPair = 1,
    ) -> None:
        super().__init__(
            output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class PixelShuffle(_Activation):
    """Each r x r channels as a block of pixels : (..., C r r, H, W) -> (..., C, H r, W r) (Shi et al. 2016)"""

    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(_Activation):
    """Undoes ``PixelShuffle`` : (..., C, H r, W r) -> (..., C r r, H, W)"""

    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(_Activation):
    """Channels of ``groups`` groups in turn : (N, C, ...) (Zhang et al. 2018)"""

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)
