"""Transforms of images as objects, and pipelines of them.

Random ones draw from chainrule's generator: ``chainrule.manual_seed`` repeats them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import _core
from ..._core import Tensor
from ...nn import Module, ModuleList
from . import functional
from . import functional as F
from .functional import Fill, InterpolationMode

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
    "functional",
]

Size = int | Sequence[int]
Interpolation = InterpolationMode | int


def _uniform(low: float, high: float) -> float:
    return low + (high - low) * float(_core.rand(1).item())


def _integer(low: int, high: int) -> int:
    """low ... high - 1"""
    return int(_core.randint(low, high, (1,)).item())


def _size(size: Size) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if len(size) not in (1, 2):
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return int(size[0]), int(size[-1])


class Compose:
    """The transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n" + "".join(f"    {t}\n" for t in self.transforms) + ")"


class _Step:
    """A transform without state."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ToTensor(_Step):
    """Pillow's image or an array (H, W, C) of uint8 -> float tensor (C, H, W) in [0, 1]"""

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)


class PILToTensor(_Step):
    """Pillow's image -> tensor (C, H, W) of its own dtype"""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)


class ToPILImage:
    """Tensor (C, H, W) or array (H, W, C) -> Pillow's image"""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Lambda:
    """Any function."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Transform(Module):
    """A transform with options, which its repr shows in order."""

    shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self.shown)})"


class ConvertImageDtype(_Transform):
    """functional.convert_image_dtype"""

    def __init__(self, dtype: _core.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return F.convert_image_dtype(image, self.dtype)


class Normalize(_Transform):
    """(x - mean) / std by channel"""

    shown = ("mean", "std")

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(_Transform):
    """functional.resize"""

    def __init__(
        self,
        size: Size,
        interpolation: Interpolation = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, int | Sequence):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={getattr(self.interpolation, 'value', '')},"
            f" max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(_Transform):
    """functional.center_crop"""

    shown = ("size",)

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = _size(size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)


class Pad(_Transform):
    """functional.pad"""

    shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Size, fill: Fill = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(_Transform):
    """A part of ``size`` at a random position, after padding."""

    shown = ("size", "padding")

    def __init__(
        self,
        size: Size,
        padding: Size | None = None,
        pad_if_needed: bool = False,
        fill: Fill = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size, self.padding, self.pad_if_needed = _size(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """top, left, height, width"""
        _, h, w = F.get_dimensions(img)
        height, width = output_size
        if h < height or w < width:
            raise ValueError(f"Required crop size {(height, width)} is larger than input image size {(h, w)}")
        return _integer(0, h - height + 1), _integer(0, w - width + 1), height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        height, width = self.size
        if self.pad_if_needed and (w < width or h < height):
            img = F.pad(img, [max(width - w, 0), max(height - h, 0)], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(_Transform):
    """A part of random area and aspect, resized: a random part ``scale`` of the area with an aspect in ``ratio``."""

    shown = ("size", "scale", "ratio")

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.scale, self.ratio = _size(size), scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """top, left, height, width; the middle of the image where ten tries do not fit"""
        _, height, width = F.get_dimensions(img)
        for _ in range(10):
            area = height * width * _uniform(scale[0], scale[1])
            aspect = math.exp(_uniform(math.log(ratio[0]), math.log(ratio[1])))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return _integer(0, height - h + 1), _integer(0, width - w + 1), h, w
        aspect = min(max(width / height, min(ratio)), max(ratio))
        w, h = min(width, round(height * aspect)), min(height, round(width / aspect))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        part = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *part, self.size, self.interpolation, self.antialias)


class FiveCrop(_Transform):
    """functional.five_crop"""

    shown = ("size",)

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = _size(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.five_crop(img, self.size)


class TenCrop(_Transform):
    """functional.ten_crop"""

    shown = ("size", "vertical_flip")

    def __init__(self, size: Size, vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = _size(size), vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.ten_crop(img, self.size, self.vertical_flip)


class Grayscale(_Transform):
    """functional.rgb_to_grayscale"""

    shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)


class _WithChance(_Transform):
    """Changes an image with probability p."""

    shown: tuple[str, ...] = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def change(self, img: Any) -> Any:
        """The changed image."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.change(img) if _uniform(0, 1) < self.p else img


class RandomHorizontalFlip(_WithChance):
    """functional.hflip with probability p"""

    def change(self, img: Any) -> Any:
        return F.hflip(img)


class RandomVerticalFlip(_WithChance):
    """functional.vflip with probability p"""

    def change(self, img: Any) -> Any:
        return F.vflip(img)


class RandomGrayscale(_WithChance):
    """functional.rgb_to_grayscale, with as many channels, with probability p"""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, F.get_dimensions(img)[0])


class RandomInvert(_WithChance):
    """functional.invert with probability p"""

    def change(self, img: Any) -> Any:
        return F.invert(img)


class RandomAutocontrast(_WithChance):
    """functional.autocontrast with probability p"""

    def change(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(_WithChance):
    """functional.equalize with probability p"""

    def change(self, img: Any) -> Any:
        return F.equalize(img)


class RandomPosterize(_WithChance):
    """functional.posterize with probability p"""

    shown = ("bits", "p")

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, img: Any) -> Any:
        return F.posterize(img, self.bits)


class RandomSolarize(_WithChance):
    """functional.solarize with probability p"""

    shown = ("threshold", "p")

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_WithChance):
    """functional.adjust_sharpness with probability p"""

    shown = ("sharpness_factor", "p")

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)


class ColorJitter(_Transform):
    """Random brightness, contrast, saturation and hue, in random order.  A number v means [max(0, 1 - v), 1 + v], for
    the hue [-v, v]; a pair is the range itself."""

    shown = ("brightness", "contrast", "saturation", "hue")

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", center=0.0, bound=(-0.5, 0.5), floor=False)

    @staticmethod
    def _range(
        value: float | Sequence[float],
        name: str,
        center: float = 1.0,
        bound: tuple[float, float] = (0.0, math.inf),
        floor: bool = True,
    ) -> tuple[float, float] | None:
        if isinstance(value, int | float):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = center - value, center + value
            low = max(low, 0.0) if floor else low
        elif len(value) == 2:
            low, high = float(value[0]), float(value[1])
        else:
            raise TypeError(f"{name} should be a single number or a sequence with length 2.")
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {(low, high)}.")
        return None if low == high == center else (low, high)

    def forward(self, img: Any) -> Any:
        steps = (
            (F.adjust_brightness, self.brightness),
            (F.adjust_contrast, self.contrast),
            (F.adjust_saturation, self.saturation),
            (F.adjust_hue, self.hue),
        )
        for i in _core.randperm(4).tolist():
            adjust, bounds = steps[i]
            if bounds is not None:
                img = adjust(img, _uniform(*bounds))
        return img


def _span(value: float | Sequence[float], name: str) -> tuple[float, ...]:
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return -float(value), float(value)
    return tuple(float(v) for v in value)


class RandomRotation(_Transform):
    """functional.rotate by an angle in ``degrees``: (low, high), or one number v for (-v, v)"""

    shown = ("degrees",)

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Interpolation = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Fill = 0,
    ) -> None:
        super().__init__()
        self.degrees = _span(degrees, "degrees")
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def forward(self, img: Any) -> Any:
        angle = _uniform(*self.degrees[:2])
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)


class RandomAffine(_Transform):
    """functional.affine with random values: an angle in ``degrees``, shifts up to ``translate`` of the width and the
    height, a scale in ``scale``, shears in ``shear`` (low, high[, low, high of y])"""

    shown = ("degrees",)

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Interpolation = InterpolationMode.NEAREST,
        fill: Fill = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if translate is not None and not all(0.0 <= t <= 1.0 for t in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and not all(s > 0 for s in scale):
            raise ValueError("scale values should be positive")
        self.degrees = _span(degrees, "degrees")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _span(shear, "shear")
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        angle = _uniform(*self.degrees[:2])
        shift = [0.0, 0.0]
        if self.translate is not None:
            far = (self.translate[0] * width, self.translate[1] * height)
            shift = [float(round(_uniform(-d, d))) for d in far]
        scale = 1.0 if self.scale is None else _uniform(self.scale[0], self.scale[1])
        shear = [0.0, 0.0]
        if self.shear is not None:
            shear[0] = _uniform(*self.shear[:2])
            if len(self.shear) == 4:
                shear[1] = _uniform(*self.shear[2:])
        return F.affine(img, angle, shift, scale, shear, self.interpolation, self.fill, self.center)


class RandomErasing(_WithChance):
    """A rectangle of random area and aspect becomes ``value``, or noise (value="random"), with probability p."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    def change(self, img: Tensor) -> Tensor:
        channels, height, width = img.shape[-3:]
        for _ in range(10):
            area = height * width * _uniform(self.scale[0], self.scale[1])
            aspect = math.exp(_uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < height and w < width:
                if isinstance(self.value, str):
                    value: Tensor | float = _core.randn(channels, h, w)
                elif isinstance(self.value, Sequence):
                    value = _core.tensor(list(self.value)).reshape(-1, 1, 1)
                else:
                    value = self.value
                return F.erase(img, _integer(0, height - h + 1), _integer(0, width - w + 1), h, w, value, self.inplace)
        return img


class GaussianBlur(_Transform):
    """functional.gaussian_blur with a sigma in this range"""

    shown = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Size, sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = _size(kernel_size)
        self.sigma = (float(sigma),) * 2 if isinstance(sigma, int | float) else tuple(sigma)
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {self.sigma}")

    def forward(self, img: Any) -> Any:
        return F.gaussian_blur(img, self.kernel_size, _uniform(*self.sigma[:2]))


class _OfSeveral(_Transform):
    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence | ModuleList):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms


class RandomApply(_OfSeveral):
    """All of the transforms with probability p."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p = p

    def forward(self, img: Any) -> Any:
        return Compose(self.transforms)(img) if _uniform(0, 1) < self.p else img


class RandomChoice(_OfSeveral):
    """One of the transforms; p: their weights."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        self.p = p

    def forward(self, img: Any) -> Any:
        weights = _core.tensor([1.0] * len(self.transforms) if self.p is None else [float(v) for v in self.p])
        return self.transforms[int(_core.multinomial(weights, 1).item())](img)


class RandomOrder(_OfSeveral):
    """All of the transforms in random order."""

    def forward(self, img: Any) -> Any:
        for i in _core.randperm(len(self.transforms)).tolist():
            img = self.transforms[i](img)
        return img
