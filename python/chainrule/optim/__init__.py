"""Optimizers under PyTorch's names, with its numbers and its state dicts.  Learning rates over
time: ``chainrule.optim.lr_scheduler``."""

from . import adaptive, lr_scheduler, sgd
from .adaptive import *
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import *

__all__ = ["LBFGS", "Optimizer", "lr_scheduler"]
__all__ += adaptive.__all__
__all__ += sgd.__all__
