"""How a tensor is printed: as PyTorch prints it.  Imported by the first repr."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from . import _core


@dataclass
class Options:
    precision: int = 4  # digits behind the point
    threshold: float = 1000  # more elements than this are summarised
    edgeitems: int = 3  # shown at each end of an axis in a summary
    linewidth: int = 80
    sci_mode: bool | None = None  # None: by the values


options = Options()
PROFILES = {
    "default": Options(),
    "short": Options(precision=2, edgeitems=2),
    "full": Options(threshold=math.inf),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """A profile first, then whatever is given; sci_mode is set by every call, as in PyTorch."""
    if profile is not None and profile not in PROFILES:
        raise ValueError(f"set_printoptions(): profile must be one of {', '.join(PROFILES)}, not {profile!r}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
            raise ValueError(f"set_printoptions(): {name} must be a number from 0 up, not {value!r}")
    if profile is not None:
        for f in fields(Options):
            setattr(options, f.name, getattr(PROFILES[profile], f.name))
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value if name == "threshold" else int(value))
    options.sci_mode = sci_mode


class Format:
    """One notation and one width for all elements of a tensor."""

    def __init__(self, plain: Callable[[Any], str], values: list[Any]) -> None:
        self.plain = plain
        self.width = max((len(plain(v)) for v in values), default=1)

    def __call__(self, value: Any) -> str:
        return self.plain(value).rjust(self.width)


def float_format(values: list[float]) -> Format:
    """Whole numbers as ``2.``, others with a fixed number of digits, or scientific where the finite
    values that are not 0 span more than three decimal orders, or are very large or very small.
    Only those values set the width."""
    finite = [v for v in values if v and math.isfinite(v)]
    whole = all(v == math.floor(v) for v in finite)
    scientific = False
    if finite:
        smallest, largest = min(map(abs, finite)), max(map(abs, finite))
        scientific = largest / smallest > 1000 or largest > 1e8 or (not whole and smallest < 1e-4)
        if options.sci_mode is not None:
            scientific = options.sci_mode

    def plain(v: float) -> str:
        if scientific:
            return f"{v:.{options.precision}e}"
        if whole:
            return f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"
        return f"{v:.{options.precision}f}"

    return Format(plain, finite)


def shown(x: _core.Tensor, short: bool) -> Any:
    """The elements that are printed, as nested lists; of a long axis the two ends."""
    if not x.ndim:
        return x.item()
    n, edge = len(x), options.edgeitems
    ends = [*range(edge), *range(n - edge, n)] if short and n > 2 * edge else range(n)
    if x.ndim == 1:
        return x.tolist() if len(ends) == n else [x[i].item() for i in ends]
    return [shown(x[i], short) for i in ends]


def leaves(nested: Any) -> Iterator[Any]:
    if isinstance(nested, list):
        for x in nested:
            yield from leaves(x)
    else:
        yield nested


def with_dots(items: list[str], full: int, dots: str) -> list[str]:
    """Dots in the middle of the text of ``full`` items."""
    middle = len(items) // 2
    return items if len(items) == full else [*items[:middle], dots, *items[middle:]]


def row(values: list[Any], size: int, text: Format, indent: int) -> str:
    """One vector, as many elements in a line as fit."""
    per_line = max(1, (options.linewidth - indent) // (text.width + 2))  # with the comma and the space
    texts = with_dots([text(v) for v in values], size, " ...")
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def body(nested: Any, shape: tuple[int, ...], text: Format, indent: int) -> str:
    if not shape:
        return text(nested)
    if len(shape) == 1:
        return row(nested, shape[0], text, indent)
    parts = with_dots([body(x, shape[1:], text, indent + 1) for x in nested], shape[0], "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def suffixes(x: _core.Tensor) -> list[str]:
    out = []
    if x.device.type != "cpu":
        out.append(f"device='{x.device}'")
    inside = _core._level_of(x)  # of vmap or jvp: it stands for other tensors
    if inside:
        out.append(f"level={inside}")
    unseen = x.is_meta or inside or not x.numel()
    if x.is_meta or inside or (unseen and x.ndim != 1):
        out.append(f"size={tuple(x.shape)}")
    if x.dtype is not _core.get_default_dtype() and (unseen or x.dtype not in (_core.int64, _core.bool)):
        out.append(f"dtype={x.dtype}")
    if x.grad_fn:
        out.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        out.append("requires_grad=True")
    return out


def tensor_repr(x: _core.Tensor) -> str:
    prefix = "tensor("
    hidden = x.is_meta or _core._level_of(x)
    text = prefix + ("..." if hidden else elements(x.detach(), len(prefix)) if x.numel() else "[]")
    room = options.linewidth - (len(text) - text.rfind("\n") - 1)
    for suffix in suffixes(x):
        needed = len(suffix) + 2
        if needed > room - 2:
            text += ",\n" + " " * len(prefix) + suffix
            room = options.linewidth - len(prefix) - len(suffix)
        else:
            text += ", " + suffix
            room -= needed
    return text + ")"


def elements(x: _core.Tensor, indent: int) -> str:
    nested = shown(x, x.numel() > options.threshold)
    values = list(leaves(nested))
    return body(nested, tuple(x.shape), float_format(values) if x.is_floating_point() else Format(str, values), indent)
