"""``SummaryWriter`` of tensorboardX, where it is installed."""

from importlib import import_module

try:
    SummaryWriter = import_module("tensorboardX").SummaryWriter
except ModuleNotFoundError as problem:
    if problem.name != "tensorboardX":
        raise
    raise ModuleNotFoundError(
        "torch.utils.tensorboard writes with tensorboardX, which is not installed: pip install tensorboardX",
        name="tensorboardX",
    ) from None
