"""Transforms of one image with given parameters.  An image is Pillow's, or a tensor (..., C, H, W): uint8 in
[0, 255] or float in [0, 1].  The result has the kind of the image."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

from ... import _core
from ..._core import Tensor
from ...nn import functional as F

__all__ = [
    "InterpolationMode",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]


class InterpolationMode(Enum):
    """How pixels between pixels are computed."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


Fill = float | Sequence[float] | None


def is_image(x: Any) -> bool:
    """Is it one of Pillow's images?"""
    return any(kind.__module__.startswith("PIL.") for kind in type(x).__mro__)


def _checked(img: Any) -> Any:
    if not isinstance(img, Tensor) and not is_image(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
    return img


def _pillow(mode: InterpolationMode | int) -> Any:
    from PIL import Image

    if isinstance(mode, InterpolationMode):
        return getattr(Image.Resampling, mode.name.removesuffix("_EXACT"))
    return Image.Resampling(mode)


def _mode(interpolation: InterpolationMode | int) -> str:
    """The mode of ``interpolate``."""
    if isinstance(interpolation, int):  # Pillow's constants
        interpolation = {
            0: InterpolationMode.NEAREST,
            2: InterpolationMode.BILINEAR,
            3: InterpolationMode.BICUBIC,
        }.get(interpolation, InterpolationMode.LANCZOS)
    if interpolation.value not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise ValueError(f"a tensor cannot be resized by {interpolation.value}: use nearest, bilinear or bicubic")
    return interpolation.value


def _as_floats(img: Tensor) -> Tensor:
    return img if img.is_floating_point() else img.to(_core.float32)


def _as(img: Tensor, like: Tensor) -> Tensor:
    """Rounded where ``like`` is of integers, and clamped where it is uint8."""
    if like.is_floating_point():
        return img
    y = img.round()
    return (y.clamp(0, 255) if like.dtype is _core.uint8 else y).to(like.dtype)


def _bound(img: Tensor) -> float:
    """The value of white."""
    return 1.0 if img.is_floating_point() else _largest(img.dtype)


def get_dimensions(img: Any) -> list[int]:
    """[channels, height, width]"""
    if isinstance(_checked(img), Tensor):
        return [1 if img.ndim == 2 else img.size(-3), img.size(-2), img.size(-1)]
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img: Any) -> list[int]:
    """[width, height]"""
    _, height, width = get_dimensions(img)
    return [width, height]


# ---- kinds of images


def pil_to_tensor(pic: Any) -> Tensor:
    """Pillow's image as a tensor (C, H, W) of its own dtype: uint8; bool for mode 1, uint16 for I;16, int32 for I and
    float32 for F.  A palette stays behind: mode P gives the numbers of the colors."""
    if not is_image(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    mode = pic.mode
    if mode == "1":
        pic = pic.convert("L")
    elements = array("H" if mode.startswith("I;16") else {"I": "i", "F": "f"}.get(mode, "B"), pic.tobytes())
    if mode.startswith("I;16") and mode.endswith("B") != (sys.byteorder == "big"):
        elements.byteswap()
    pixels = _core.asarray(elements).reshape(pic.height, pic.width, len(pic.getbands()))
    return (pixels != 0 if mode == "1" else pixels).permute(2, 0, 1).contiguous()


def _image_like(pixels: Tensor, img: Any) -> Any:
    """The inverse of ``pil_to_tensor``: an image of the mode and the palette of another one."""
    from PIL import Image

    size = (pixels.size(-1), pixels.size(-2))
    if img.mode == "1":
        return Image.frombytes("L", size, bytes(pixels.to(_core.uint8) * 255)).convert("1", dither=Image.Dither.NONE)
    made = Image.frombytes(img.mode, size, bytes(_native(pixels.permute(1, 2, 0), img.mode)))
    if img.getpalette() is not None:
        made.putpalette(img.getpalette())
    return made


def _native(pixels: Tensor, mode: str) -> Any:
    """The memory that Pillow's mode has."""
    pixels = pixels.cpu().contiguous()
    if not (mode.startswith("I;16") and mode.endswith("B") != (sys.byteorder == "big")):
        return pixels
    elements = array("H", bytes(pixels))
    elements.byteswap()
    return elements


def to_tensor(pic: Any) -> Tensor:
    """An image or an array (H, W, C) or (H, W) as a float tensor (C, H, W); uint8 is divided by 255.  A uint8 tensor
    (C, H, W), which a dataset gives where Pillow is missing, likewise."""
    if is_image(pic):
        pixels = pil_to_tensor(pic)
        pixels = pixels.to(_core.uint8) * 255 if pixels.dtype is _core.bool else pixels
    elif isinstance(pic, Tensor) and pic.dtype is _core.uint8:
        pixels = pic
    elif hasattr(pic, "__array__") and not isinstance(pic, Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pixels = _core.asarray(pic)
        pixels = (pixels.unsqueeze(2) if pixels.ndim == 2 else pixels).permute(2, 0, 1).contiguous()
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    return pixels.to(_core.float32).div(255) if pixels.dtype is _core.uint8 else pixels


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or (H, W), or an array (H, W, C), as Pillow's image.  Floats are multiplied by 255."""
    from PIL import Image

    if not isinstance(pic, Tensor):
        if not hasattr(pic, "__array__"):
            raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
        pixels = _core.asarray(pic)
        pixels = pixels.unsqueeze(2) if pixels.ndim == 2 else pixels
    else:
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pixels = (pic.unsqueeze(0) if pic.ndim == 2 else pic).permute(1, 2, 0)
        if pixels.is_floating_point() and mode != "F":
            pixels = pixels.mul(255).to(_core.uint8)
    height, width, channels = pixels.shape
    if channels not in (1, 2, 3, 4):
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if channels == 1:
        wide = "I;16" if sys.byteorder == "little" else "I;16B"
        single = {_core.uint8: "L", _core.int16: wide, _core.uint16: wide, _core.int32: "I", _core.float32: "F"}
        kind = single.get(pixels.dtype)
        if mode is not None and mode != kind:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {pixels.dtype}. Should be {kind}")
    else:
        modes = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}[channels]
        if mode is not None and mode not in modes:
            raise ValueError(f"Only modes {list(modes)} are supported for {channels}D inputs")
        kind = (mode or modes[0]) if pixels.dtype is _core.uint8 else None
    if kind is None:
        raise TypeError(f"Input type {pixels.dtype} is not supported")
    return Image.frombytes(kind, (width, height), bytes(pixels.cpu().contiguous()))


def convert_image_dtype(image: Tensor, dtype: _core.dtype = _core.float32) -> Tensor:
    """The image with values scaled to the range of ``dtype``: [0, 1] for floats, [0, largest] for integers."""
    if image.dtype is dtype:
        return image
    floats, to_floats = image.is_floating_point(), _core.empty(0, dtype=dtype).is_floating_point()
    if floats and to_floats:
        return image.to(dtype)
    wide = (_core.int64,) if image.dtype is _core.float64 else (_core.int32, _core.int64)
    if floats and dtype in wide:
        raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
    if floats:
        return image.mul(_largest(dtype) + 1.0 - 1e-3).to(dtype)
    if to_floats:
        return image.to(dtype) / _largest(image.dtype)
    here, there = _largest(image.dtype), _largest(dtype)
    if here > there:
        return (image // ((here + 1) // (there + 1))).to(dtype)
    return image.to(dtype) * ((there + 1) // (here + 1))


def _largest(dtype: _core.dtype) -> int:
    from ..._dtypes import iinfo

    return int(iinfo(dtype).max)


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(x - mean) / std by channel : (..., C, H, W)"""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got {tuple(tensor.shape)}")
    m, s = (_core.as_tensor(v, dtype=tensor.dtype, device=tensor.device).reshape(-1, 1, 1) for v in (mean, std))
    if (s == 0).any().item():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    return tensor.sub_(m).div_(s) if inplace else (tensor - m) / s


# ---- cuts and turns


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    if isinstance(_checked(img), Tensor):
        return img.flip(-1)
    from PIL import Image

    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    if isinstance(_checked(img), Tensor):
        return img.flip(-2)
    from PIL import Image

    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part of these rows and columns; 0 where that is outside of the image."""
    if not isinstance(_checked(img), Tensor):
        return img.crop((left, top, left + width, top + height))
    _, h, w = get_dimensions(img)
    bottom, right = top + height, left + width
    part = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left < 0 or top < 0 or right > w or bottom > h:
        x0, x1 = max(-left + min(0, right), 0), max(right - max(w, left), 0)
        y0, y1 = max(-top + min(0, bottom), 0), max(bottom - max(h, top), 0)
        part = F.pad(part, (x0, x1, y0, y1))
    return part


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if len(size) not in (1, 2):
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return int(size[0]), int(size[-1])


def pad(img: Any, padding: int | Sequence[int], fill: Fill = 0, padding_mode: str = "constant") -> Any:
    """Borders around the image.  padding: one number, [left and right, top and bottom], or [left, top, right,
    bottom]; padding_mode: constant, edge, reflect, symmetric."""
    sides = [padding] if isinstance(padding, int) else list(padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(sides)} element tuple")
    left, top, right, bottom = (sides * (4 // len(sides)))[:4]
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if not isinstance(_checked(img), Tensor):
        if padding_mode == "constant":
            from PIL import ImageOps

            made = ImageOps.expand(img, border=(left, top, right, bottom), fill=_color(img, fill))
            if img.getpalette() is not None:
                made.putpalette(img.getpalette())
            return made
        return _image_like(pad(pil_to_tensor(img), padding, fill, padding_mode), img)
    if padding_mode == "constant":
        value = fill[0] if isinstance(fill, Sequence) and len(set(fill)) == 1 else fill
        if isinstance(value, Sequence):
            channels = [pad(c, padding, v) for c, v in zip(img.unbind(-3), value, strict=True)]
            return _core.stack(channels, -3)
        return F.pad(img, (left, right, top, bottom), value=value or 0)
    _, h, w = get_dimensions(img)
    rows, columns = _border(h, top, bottom, padding_mode), _border(w, left, right, padding_mode)
    return img.index_select(-2, rows).index_select(-1, columns)


def _border(size: int, before: int, after: int, mode: str) -> Tensor:
    """The positions from which the elements of a padded axis come."""
    i = _core.arange(-before, size + after)
    if mode == "edge":
        return i.clamp(0, size - 1)
    period = 2 * size if mode == "symmetric" else max(2 * size - 2, 1)
    i = i.remainder(period)
    return _core.where(i < size, i, period - i - (mode == "symmetric"))


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The part in the middle; the image gets borders of 0 where it is smaller."""
    height, width = _pair(output_size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        left, top = max((width - w) // 2, 0), max((height - h) // 2, 0)
        img = pad(img, [left, top, max((width - w + 1) // 2, 0), max((height - h + 1) // 2, 0)], 0)
        _, h, w = get_dimensions(img)
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def five_crop(img: Any, size: int | Sequence[int]) -> tuple[Any, ...]:
    """The four corners and the middle."""
    height, width = _pair(size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        raise ValueError(f"Requested crop size {(height, width)} is bigger than input size {(h, w)}")
    corners = [(0, 0), (0, w - width), (h - height, 0), (h - height, w - width)]
    return (*(crop(img, top, left, height, width) for top, left in corners), center_crop(img, (height, width)))


def ten_crop(img: Any, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[Any, ...]:
    """five_crop of the image and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def resize(
    img: Any,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image in another size: (height, width), or one number for its shorter side.

    max_size: a bound of the longer side, where one number is given.  antialias: for tensors; Pillow always does.
    """
    _, h, w = get_dimensions(img)
    if isinstance(size, int) or len(size) == 1:
        short, long = (h, w) if h <= w else (w, h)
        wanted = size if isinstance(size, int) else int(size[0])
        if max_size is not None and max_size <= wanted:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge size ="
                f" {size}"
            )
        other = int(wanted * long / short)
        if max_size is not None and other > max_size:
            wanted, other = int(max_size * wanted / other), max_size
        height, width = (wanted, other) if h <= w else (other, wanted)
    elif max_size is not None:
        raise ValueError("max_size should only be passed if size specifies the length of the smaller edge")
    else:
        height, width = _pair(size)
    if (height, width) == (h, w):
        return img
    if not isinstance(img, Tensor):
        return img.resize((width, height), _pillow(interpolation))
    mode = _mode(interpolation)
    smooth = mode in ("bilinear", "bicubic")
    x = _as_floats(img).reshape((-1, *img.shape[-3:]))
    x = F.interpolate(
        x,
        size=(height, width),
        mode=mode,
        align_corners=False if smooth else None,
        antialias=bool(antialias) and smooth,
    )
    return _as(x, img).reshape((*img.shape[:-2], height, width))


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """crop, then resize"""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def _inverse_affine(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:
    """The first two rows of the inverse of T(translate + center) R(angle) S(shear) scale T(-center)."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    m = [d / scale, -b / scale, -c / scale, a / scale]
    dx, dy = center[0] + translate[0], center[1] + translate[1]
    return [m[0], m[1], center[0] - m[0] * dx - m[1] * dy, m[2], m[3], center[1] - m[2] * dx - m[3] * dy]


def _mapped(img: Tensor, m: Sequence[float], height: int, width: int, mode: str, fill: Fill) -> Tensor:
    """out[y, x] = img[m[3] x + m[4] y + m[5], m[0] x + m[1] y + m[2]] in pixels around the middle of both."""
    x = _as_floats(img).reshape((-1, *img.shape[-3:]))
    h, w = x.shape[-2:]
    columns = _core.arange(width, dtype=x.dtype, device=x.device) - (width - 1) / 2
    rows = (_core.arange(height, dtype=x.dtype, device=x.device) - (height - 1) / 2).unsqueeze(1)
    u, v = columns * m[0] + rows * m[1] + m[2], columns * m[3] + rows * m[4] + m[5]
    grid = _core.stack([u * (2 / w), v * (2 / h)], -1).expand(len(x), -1, -1, -1)
    y = F.grid_sample(x, grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None:
        inside = F.grid_sample(_core.ones_like(x[:, :1]), grid, mode=mode, padding_mode="zeros", align_corners=False)
        value = _core.as_tensor(fill, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
        y = _core.where(inside < 0.5, value, y) if mode == "nearest" else y * inside + (1 - inside) * value
    return _as(y, img).reshape((*img.shape[:-2], height, width))


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Any:
    """Turned clockwise by ``angle`` degrees, scaled, sheared by degrees and shifted by pixels, around the middle."""
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    sheared = (float(shear), 0.0) if isinstance(shear, int | float) else tuple(map(float, shear))
    if len(sheared) == 1:
        sheared *= 2
    if len(sheared) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    _, h, w = get_dimensions(img)
    if isinstance(img, Tensor):
        middle = [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]
        m = _inverse_affine(middle, angle, translate, scale, sheared)
        return _mapped(img, m, h, w, _mode(interpolation), fill)
    from PIL import Image

    m = _inverse_affine([w * 0.5, h * 0.5] if center is None else center, angle, translate, scale, sheared)
    return img.transform((w, h), Image.Transform.AFFINE, m, _pillow(interpolation), fillcolor=_color(img, fill))


def _color(img: Any, fill: Fill) -> Any:
    """The color of a fill: one number is that of all bands."""
    bands = len(img.getbands())
    values = list(fill) if isinstance(fill, Sequence) else [0 if fill is None else fill]
    if len(values) not in (1, bands):
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of the image"
            f" ({len(values)} != {bands})"
        )
    color = tuple(v if img.mode == "F" else int(v) for v in values * (bands // len(values)))
    return color if bands > 1 else color[0]


def _turned_size(size: int, extent: float) -> int:
    """Pixels of an axis that [size / 2 - extent, size / 2 + extent] touches, to 1e-4 pixels."""
    low, high = (math.trunc((size / 2 + side * extent) * 1e4) / 1e4 for side in (-1, 1))
    return math.ceil(high) - math.floor(low)


def rotate(
    img: Any,
    angle: float,
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Any:
    """Turned counter-clockwise by degrees.  expand: the result is as large as the turned image."""
    if not isinstance(_checked(img), Tensor):
        return img.rotate(angle, _pillow(interpolation), expand, center, fillcolor=_color(img, fill))
    _, h, w = get_dimensions(img)
    middle = [0.0, 0.0] if center is None or expand else [center[0] - w * 0.5, center[1] - h * 0.5]
    m = _inverse_affine(middle, -angle, [0.0, 0.0], 1.0, (0.0, 0.0))
    height, width = h, w
    if expand:
        turn = math.radians(angle)
        c, s = abs(math.cos(turn)), abs(math.sin(turn))
        height, width = _turned_size(h, (w * s + h * c) / 2), _turned_size(w, (w * c + h * s) / 2)
    return _mapped(img, m, height, width, _mode(interpolation), fill)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor | float, inplace: bool = False) -> Tensor:
    """The rows from i and columns from j, h by w of them, become v."""
    if not isinstance(img, Tensor):
        raise TypeError(f"Tensor expected, got {type(img)}")
    y = img if inplace else img.clone()
    y[..., i : i + h, j : j + w] = v
    return y


# ---- colors


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """0.2989 R + 0.587 G + 0.114 B (ITU-R 601-2) in 1 or 3 equal channels."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if not isinstance(_checked(img), Tensor):
        gray = img.convert("L")
        if num_output_channels == 1:
            return gray
        from PIL import Image

        return Image.merge("RGB", (gray,) * 3)
    if img.size(-3) not in (1, 3):
        raise TypeError(f"Input image tensor permitted channel values are [1, 3], but found {img.size(-3)}")
    gray = img if img.size(-3) == 1 else _gray(img)
    return gray.expand(*img.shape[:-3], num_output_channels, *img.shape[-2:])


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """rgb_to_grayscale"""
    return rgb_to_grayscale(img, num_output_channels)


def _gray(img: Tensor) -> Tensor:
    r, g, b = img.unbind(-3)
    y = (0.2989 * r + 0.587 * g + 0.114 * b).unsqueeze(-3)
    return y if img.is_floating_point() else y.to(img.dtype)


def _blend(a: Tensor, b: Tensor | float, ratio: float) -> Tensor:
    """ratio a + (1 - ratio) b within the range of the image"""
    y = (ratio * _as_floats(a) + (1.0 - ratio) * b).clamp(0, _bound(a))
    return y if a.is_floating_point() else y.to(a.dtype)


def _enhanced(img: Any, name: str, factor: float) -> Any:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, name)(img).enhance(factor)


def _factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0: black, 1: the image, 2: twice as bright."""
    _factor("brightness_factor", brightness_factor)
    if not isinstance(_checked(img), Tensor):
        return _enhanced(img, "Brightness", brightness_factor)
    return _blend(img, 0.0, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0: the mean gray, 1: the image, 2: twice the contrast."""
    _factor("contrast_factor", contrast_factor)
    if not isinstance(_checked(img), Tensor):
        return _enhanced(img, "Contrast", contrast_factor)
    gray = img if img.size(-3) == 1 else _gray(img)
    return _blend(img, _as_floats(gray).mean((-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0: gray, 1: the image, 2: twice the saturation."""
    _factor("saturation_factor", saturation_factor)
    if not isinstance(_checked(img), Tensor):
        return _enhanced(img, "Color", saturation_factor)
    return img if img.size(-3) == 1 else _blend(img, _as_floats(_gray(img)), saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """0: blurred, 1: the image, 2: sharper."""
    _factor("sharpness_factor", sharpness_factor)
    if not isinstance(_checked(img), Tensor):
        return _enhanced(img, "Sharpness", sharpness_factor)
    if img.size(-1) <= 2 or img.size(-2) <= 2:
        return img
    kernel = _core.ones(3, 3, device=img.device)
    kernel[1, 1] = 5.0
    x = _as_floats(img)
    smooth = x.clone()
    smooth[..., 1:-1, 1:-1] = _depthwise(x, kernel / kernel.sum())
    return _blend(img, _as_floats(_as(smooth, img)), sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The hue shifted by this part of the circle, in [-0.5, 0.5]."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not isinstance(_checked(img), Tensor):
        if img.mode in ("L", "1", "I", "F"):
            return img
        from PIL import Image

        hue, saturation, value = img.convert("HSV").split()
        hue = hue.point(lambda v: (v + int(hue_factor * 255)) % 256)
        return Image.merge("HSV", (hue, saturation, value)).convert(img.mode)
    if img.size(-3) == 1:
        return img
    x = img if img.is_floating_point() else convert_image_dtype(img)
    hue, saturation, value = _rgb_to_hsv(x)
    y = _hsv_to_rgb((hue + hue_factor).remainder(1.0), saturation, value)
    return convert_image_dtype(y, img.dtype)


def _rgb_to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r, g, b = x.unbind(-3)
    most, least = x.amax(-3), x.amin(-3)
    span = most - least
    gray = span == 0
    saturation = _core.where(gray, 0.0, span / _core.where(gray, 1.0, most))
    unit = _core.where(gray, 1.0, span)
    sector = _core.where(
        most == r,
        ((g - b) / unit).remainder(6.0),
        _core.where(most == g, 2.0 + (b - r) / unit, 4.0 + (r - g) / unit),
    )
    return _core.where(gray, 0.0, sector / 6.0), saturation, most


def _hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Channel n is v - v s max(0, min(k, 4 - k, 1)) with k = (n + 6 h) mod 6, n = 5, 3, 1 (Smith 1978)."""
    channels = []
    for n in (5.0, 3.0, 1.0):
        k = (hue * 6.0 + n).remainder(6.0)
        channels.append(value - value * saturation * _core.minimum(k, 4.0 - k).clamp(0.0, 1.0))
    return _core.stack(channels, -3)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain x^gamma with x in [0, 1]"""
    _factor("Gamma", gamma)
    if not isinstance(_checked(img), Tensor):
        table = [min(255, int((255 + 1 - 1e-3) * gain * (v / 255.0) ** gamma)) for v in range(256)]
        return img.convert("RGB").point(table * 3).convert(img.mode)
    y = (gain * (img if img.is_floating_point() else convert_image_dtype(img)) ** gamma).clamp(0, 1)
    return convert_image_dtype(y, img.dtype)


def invert(img: Any) -> Any:
    """The largest value minus each value."""
    if isinstance(_checked(img), Tensor):
        return _bound(img) - img
    from PIL import ImageOps

    return ImageOps.invert(img)


def posterize(img: Any, bits: int) -> Any:
    """Only the first ``bits`` bits of each value of uint8."""
    if isinstance(_checked(img), Tensor):
        if img.dtype is not _core.uint8:
            raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
        return img & (-(2 ** (8 - bits)) & 255)
    from PIL import ImageOps

    return ImageOps.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Values from ``threshold`` on are inverted."""
    if isinstance(_checked(img), Tensor):
        return _core.where(img >= threshold, invert(img), img)
    from PIL import ImageOps

    return ImageOps.solarize(img, cast(int, threshold))  # it only compares


def autocontrast(img: Any) -> Any:
    """Each channel stretched to the whole range."""
    if not isinstance(_checked(img), Tensor):
        from PIL import ImageOps

        return ImageOps.autocontrast(img)
    bound, x = _bound(img), _as_floats(img)
    low, high = x.amin((-2, -1), keepdim=True), x.amax((-2, -1), keepdim=True)
    flat = high == low
    y = ((x - _core.where(flat, 0.0, low)) * (bound / _core.where(flat, bound, high - low))).clamp(0, bound)
    return y if img.is_floating_point() else y.to(img.dtype)


def equalize(img: Any) -> Any:
    """Each channel with an even histogram.  uint8."""
    if not isinstance(_checked(img), Tensor):
        from PIL import ImageOps

        return ImageOps.equalize(img)
    if img.dtype is not _core.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    planes = [_equalized(plane) for plane in img.reshape((-1, *img.shape[-2:]))]
    return _core.stack(planes).reshape(tuple(img.shape))


def _equalized(plane: Tensor) -> Tensor:
    counts = plane.flatten().to(_core.int64).bincount(minlength=256)
    seen = counts[counts != 0]
    step = int((seen.sum() - seen[-1]).item()) // 255
    if step == 0:
        return plane
    table = ((counts.cumsum(0) - counts + step // 2) // step).clamp(0, 255)
    return table[plane.to(_core.int64)].to(_core.uint8)


def _depthwise(x: Tensor, kernel: Tensor) -> Tensor:
    """Each channel with the same kernel, without borders."""
    rows = x.reshape((-1, 1, *x.shape[-2:]))
    y = F.conv2d(rows, kernel.to(x.dtype).reshape((1, 1, *kernel.shape)))
    return y.reshape((*x.shape[:-2], *y.shape[-2:]))


def gaussian_blur(img: Any, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None) -> Any:
    """Convolution with a Gaussian of ``kernel_size`` (width, height), odd; sigma: 0.15 size + 0.35 when absent."""
    size = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if any(n % 2 == 0 or n < 0 for n in size):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {size}")
    if sigma is None:
        deviation = [n * 0.15 + 0.35 for n in size]
    else:
        deviation = [float(sigma)] * 2 if isinstance(sigma, int | float) else [float(s) for s in sigma]
    if any(s <= 0.0 for s in deviation):
        raise ValueError(f"sigma should have positive values. Got {deviation}")
    if not isinstance(_checked(img), Tensor):
        return to_pil_image(gaussian_blur(pil_to_tensor(img), size, deviation), img.mode)
    x = _as_floats(img)
    curves = []
    for n, s in zip(size, deviation, strict=True):
        at = _core.linspace(-(n - 1) * 0.5, (n - 1) * 0.5, n, device=img.device)
        curve = (-0.5 * (at / s) ** 2).exp()
        curves.append(curve / curve.sum())
    kernel = curves[1].unsqueeze(1) * curves[0]
    framed = pad(x, [size[0] // 2, size[1] // 2], padding_mode="reflect")
    return _as(_depthwise(framed, kernel), img)
