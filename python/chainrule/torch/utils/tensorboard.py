"""``SummaryWriter`` of tensorboardX, where it is installed; it takes chainrule's tensors."""

from importlib import import_module
from typing import Any

from chainrule import Tensor

__path__: list[str] = []  # tensorboard.writer can be imported (_alias.py)
try:
    _number = import_module("tensorboardX.x2num")
    SummaryWriter = import_module("tensorboardX").SummaryWriter
except ModuleNotFoundError as problem:
    if not (problem.name or "").startswith("tensorboardX"):
        raise
    raise ModuleNotFoundError(
        "torch.utils.tensorboard writes with tensorboardX, which is not installed: pip install tensorboardX",
        name="tensorboardX",
    ) from None


def _taught(make_np: Any) -> Any:
    """tensorboardX's make_np, for tensors too."""

    def make(x: Any) -> Any:
        return make_np(x.detach().cpu().numpy() if isinstance(x, Tensor) else x)

    make.taught = True  # type: ignore[attr-defined]
    return make


for _name in ("tensorboardX.x2num", "tensorboardX.summary", "tensorboardX.writer", "tensorboardX.utils"):
    _module = import_module(_name)
    if hasattr(_module, "make_np") and not hasattr(_module.make_np, "taught"):
        _module.make_np = _taught(_module.make_np)  # type: ignore[attr-defined]
