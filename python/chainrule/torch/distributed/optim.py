"""``torch.distributed.optim``: ``chainrule.optim.ZeroRedundancyOptimizer``."""

from __future__ import annotations

from chainrule.optim import ZeroRedundancyOptimizer

from .. import _names

__all__ = ["ZeroRedundancyOptimizer"]
__getattr__ = _names.forward(__name__)
