"""Optimizers under PyTorch's names, with its numbers and its state dicts; Lion besides.  Learning rates over time: ``chainrule.optim.lr_scheduler``."""

from . import lr_scheduler
from .adaptive import Adadelta, Adagrad, Adam, AdamW, NAdam, RMSprop
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import SGD, Lion, Muon

__all__ = ["LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Lion", "Muon", "NAdam", "Optimizer", "RMSprop", "lr_scheduler"]
