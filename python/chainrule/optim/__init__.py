"""Optimizers under PyTorch's names, with its numbers and its state dicts.  Learning rates over
time: ``chainrule.optim.lr_scheduler``; averaged models: ``chainrule.optim.swa_utils``."""

from . import adaptive, lr_scheduler, sgd, swa_utils
from .adafactor import Adafactor
from .adaptive import *
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import *
from .zero import ZeroRedundancyOptimizer

__all__ = ["LBFGS", "Adafactor", "Optimizer", "ZeroRedundancyOptimizer", "lr_scheduler", "swa_utils"]
__all__ += adaptive.__all__
__all__ += sgd.__all__
