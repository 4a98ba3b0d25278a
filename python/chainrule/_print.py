"""How a tensor is printed: as PyTorch prints it.  Imported by the first repr."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

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


def tensor_repr(x: _core.Tensor) -> str:
    o, made_by = options, x.grad_fn
    scientific = -1 if o.sci_mode is None else int(o.sci_mode)
    name = made_by.name() if made_by else ""
    return _core._format(x, o.precision, o.threshold, o.edgeitems, o.linewidth, scientific, name)
