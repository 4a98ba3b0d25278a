"""``torch.distributed.optim`` for a world of one process."""

from __future__ import annotations

from typing import Any

from .. import _names

__getattr__ = _names.forward(__name__)


def ZeroRedundancyOptimizer(params: Any, optimizer_class: Any, **options: Any) -> Any:  # noqa: N802, PyTorch's name
    """The optimizer itself: one process keeps all of its state."""
    for name in ("process_group", "parameters_as_bucket_view", "overlap_with_ddp"):
        options.pop(name, None)
    return optimizer_class(params, **options)
